// A warp as a group that encodes or decodes one row together (see kernels/codecs/group.h).
#pragma once
#include <cstdint>

namespace dlrm::cuda {

struct Warp {
  static constexpr unsigned kAll = 0xffffffffu;

  __device__ int lane() const { return int(threadIdx.x & 31); }
  __host__ __device__ static constexpr int size() { return 32; }
  __device__ uint32_t max(uint32_t value) const { return __reduce_max_sync(kAll, value); }
  __device__ int sum(int value) const { return __reduce_add_sync(kAll, value); }
  __device__ bool all(bool value) const { return __all_sync(kAll, value) != 0; }
  __device__ int exclusive_sum(int value, int& total) const {
    int sum = value;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = __shfl_up_sync(kAll, sum, distance);
      if (lane() >= distance) sum += before;
    }
    total = __shfl_sync(kAll, sum, 31);
    return sum - value;
  }
  __device__ void sync() const { __syncwarp(); }
};

}  // namespace dlrm::cuda
