// The tables a person reads at the end of a run.
#pragma once
#include <iosfwd>

#include "dlrm/metrics.h"
#include "dlrm/weights.h"

namespace dlrm {

void print_metrics(std::ostream& out, const Metrics& metrics);
/// Per table and in all: rows, dtype, codec, stored bytes (slots and used overflow entries), raw bytes, ratio, overflow
/// rows.
void print_tables(std::ostream& out, const Checkpoint& checkpoint);
/// Per table, from a sample of its rows: the entropy of the exponent fields in bits, the ratio that bounds every codec
/// which keeps sign and mantissa, and the ratio that each codec reaches.
void print_compressibility(std::ostream& out, const Weights& weights);

}  // namespace dlrm
