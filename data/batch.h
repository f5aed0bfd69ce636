// What a reader hands to a training or evaluation step: some consecutive samples, in host memory.
#pragma once
#include <cstdint>
#include <vector>

namespace dlrm {

struct Batch {
  int64_t size = 0;              // samples
  int64_t first_sample = 0;      // of the split
  std::vector<float> numerical;  // [size, numerical features]
  std::vector<float> labels;     // [size], 0 or 1
  std::vector<int64_t> ids;  // rows within their tables; table-major: one-hot, table t's are [t * size, (t + 1) * size)
  std::vector<int64_t> offsets;  // [tables * size + 1] where each bag starts in ids; empty: every bag holds one id
};

}  // namespace dlrm
