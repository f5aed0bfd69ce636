// What of the CPU's work on rows is written in vectors. Compiled for several instruction sets, of which the widest that
// the CPU has is used (Highway); all give the same bits. PforCodec's operations for one thread are here too.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm {

/// What a bf16 table can hold of a row's new values, see rounding_bits().   values [dim]
void round_row(uint64_t key, int64_t table, int64_t row, int64_t dim, float* values);

/// The instruction sets that this program has code for and this CPU can run, the widest first.
std::vector<std::string> vector_targets();
/// Uses one of them from now on, for tests and benchmarks.
void use_vector_target(const std::string& name);

}  // namespace dlrm
