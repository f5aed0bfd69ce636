// Lets one piece of code compile for the CPU and, by nvcc, for the GPU. One of the two headers that know __CUDACC__.
#pragma once
#include <bit>
#include <cstdint>
#if defined(__BMI2__)
#include <immintrin.h>
#endif

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

/// The upper half of the nearest number that has no lower half, ties to even. NaN becomes 0x7fff, as GPUs make it.
DLRM_HD uint16_t nearest_upper_half(float value) {
#ifdef __CUDA_ARCH__
  uint16_t half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#else
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
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

/// The lowest run of set bits in a word that is not 0.
struct BitRun {
  int first, length;
  uint32_t ones;  // `length` of them, from bit 0 on

  DLRM_HD explicit BitRun(uint32_t word) : first(lowest_set_bit(word)) {
    const uint32_t gaps = ~(word >> first);
    length = gaps == 0 ? 32 : lowest_set_bit(gaps);
    ones = gaps == 0 ? 0xffffffffu : (1u << length) - 1;
  }
};

/// The bits of x that `keep` names, side by side from bit 0 on, their order kept.
DLRM_HD uint32_t extract_bits(uint32_t x, uint32_t keep) {
#if defined(__BMI2__) && !defined(__CUDA_ARCH__)
  return _pext_u32(x, keep);
#else
  uint32_t result = 0;
  for (int at = 0; keep != 0;) {
    const BitRun run(keep);
    result |= (x >> run.first & run.ones) << at;
    at += run.length;
    keep &= ~(run.ones << run.first);
  }
  return result;
#endif
}

/// Undoes extract_bits: the lowest bits of x where `keep` says, zeros elsewhere.
DLRM_HD uint32_t deposit_bits(uint32_t x, uint32_t keep) {
#if defined(__BMI2__) && !defined(__CUDA_ARCH__)
  return _pdep_u32(x, keep);
#else
  uint32_t result = 0;
  for (int at = 0; keep != 0;) {
    const BitRun run(keep);
    result |= (x >> at & run.ones) << run.first;
    at += run.length;
    keep &= ~(run.ones << run.first);
  }
  return result;
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
