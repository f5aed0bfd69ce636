// A warp as a group that encodes or decodes one row together (see kernels/codecs/group.h), and its halves, which work
// on a row each.
#pragma once
#include <cstdint>

namespace dlrm::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Warp {
  static constexpr unsigned kAll = kAllLanes;

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
  __device__ void set_bits(uint32_t* word, uint32_t bits) const { atomicOr(word, bits); }
  __device__ void sync() const { __syncwarp(); }
};

/// 16 lanes. What lanes tell each other stays within the half, but all 32 lanes must ask together.
class HalfWarp {
 public:
  __device__ HalfWarp() : lane_(int(threadIdx.x & 15)), shift_(int(threadIdx.x & 16)) {}

  __device__ int lane() const { return lane_; }
  __device__ uint32_t ballot(bool value) const { return __ballot_sync(kAllLanes, value) >> shift_ & 0xffff; }
  __device__ bool all(bool value) const { return ballot(value) == 0xffff; }
  __device__ uint32_t broadcast(uint32_t value, int lane) const { return __shfl_sync(kAllLanes, value, lane, 16); }
  /// The next lane's value.
  __device__ uint32_t down(uint32_t value) const { return __shfl_down_sync(kAllLanes, value, 1, 16); }
  __device__ uint32_t max(uint32_t value) const {
    const uint32_t lower = __reduce_max_sync(kAllLanes, shift_ ? 0 : value),
                   upper = __reduce_max_sync(kAllLanes, shift_ ? value : 0);
    return shift_ ? upper : lower;
  }
  __device__ uint32_t any_bits(uint32_t value) const {
    const uint32_t lower = __reduce_or_sync(kAllLanes, shift_ ? 0 : value),
                   upper = __reduce_or_sync(kAllLanes, shift_ ? value : 0);
    return shift_ ? upper : lower;
  }
  /// Of values below 16, that seldom are above 1.
  __device__ uint32_t exclusive_sum(uint32_t value) const {
    const uint32_t before = (1u << lane_) - 1;
    uint32_t sum = __popc(ballot(value & 1) & before);
    if (__any_sync(kAllLanes, value > 1)) {
#pragma unroll
      for (int bit = 1; bit < 4; ++bit) sum += __popc(ballot(value >> bit & 1) & before) << bit;
    }
    return sum;
  }
  __device__ float sum(float value) const {
    for (int distance = 8; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance, 16);
    return value;
  }

 private:
  int lane_, shift_;
};

}  // namespace dlrm::cuda
