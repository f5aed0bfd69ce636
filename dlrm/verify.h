// Compares two trainings of one model that must not differ in a single bit, step by step.
#pragma once
#include <optional>
#include <string>

#include "data/split_binary.h"
#include "dlrm/config.h"
#include "dlrm/model.h"

namespace dlrm {

struct Difference {
  int64_t step = 0;              // steps done when it was seen
  int64_t table = -1, row = -1;  // -1: not in a table
  std::string what;              // one sentence that names step and place
};

struct Verification {
  std::optional<Difference> difference;  // the first; empty: all bits are equal
  int64_t steps = 0, rows_compared = 0, weights_compared = 0;
  std::optional<double> auc;
};

/// Trains both models from the same seed on the same batches. After each step compares the losses and the rows that the
/// step touched, at the end all weights and the scores of the test split.
Verification verify(const Config& config, const Dataset& data, Model& expected, Model& found, Queue& queue,
                    int64_t steps);

}  // namespace dlrm
