// Lets one piece of code compile for the CPU and, by nvcc, for the GPU. One of the two headers that know __CUDACC__.
#pragma once
#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define DLRM_HD __host__ __device__ inline
#else
#define DLRM_HD inline
#endif

namespace dlrm {

DLRM_HD uint32_t bits_of(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}

DLRM_HD float float_of(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

/// Of a word that is not 0.
DLRM_HD int lowest_set_bit(uint32_t word) {
#ifdef __CUDA_ARCH__
  return __ffs(int(word)) - 1;
#else
  return std::countr_zero(word);
#endif
}

DLRM_HD int count_bits(uint32_t word) {
#ifdef __CUDA_ARCH__
  return __popc(word);
#else
  return std::popcount(word);
#endif
}

}  // namespace dlrm
