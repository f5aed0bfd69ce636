// Random numbers as a pure function of what they are for, so that neither threads, ranks, tiers nor a resume change
// them. Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11, section 4.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/portable.h"

namespace dlrm {

struct Random4 {
  uint32_t word[4];
};

/// Four independent uniform 32-bit words for the counter (a, b) under the key `seed`.
DLRM_HD Random4 philox(uint64_t seed, uint64_t a, uint64_t b) {
  Random4 x{{uint32_t(a), uint32_t(a >> 32), uint32_t(b), uint32_t(b >> 32)}};
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * x.word[0];
    const uint64_t p1 = uint64_t(0xCD9E8D57u) * x.word[2];
    x = {{uint32_t(p1 >> 32) ^ x.word[1] ^ key0, uint32_t(p1), uint32_t(p0 >> 32) ^ x.word[3] ^ key1, uint32_t(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return x;
}

/// Uniform in [0, 1): the top 24 bits, so that every value is exact.
DLRM_HD float uniform_float(uint32_t word) {
  return float(word >> 8) * 0x1p-24f;
}

/// Uniform in [0, 1) with 53 bits.
DLRM_HD double uniform_double(uint32_t high, uint32_t low) {
  return double((uint64_t(high) << 32 | low) >> 11) * 0x1p-53;
}

// Stochastic rounding of bf16 tables ----------------------------------------------------------------------------------

/// The key of all that one step rounds. The second counter is that of no element of a table or an MLP.
inline uint64_t rounding_key(uint64_t seed, int64_t step) {
  const Random4 random = philox(seed, uint64_t(step), uint64_t(1) << 31);
  return uint64_t(random.word[1]) << 32 | random.word[0];
}

/// Random bits for elements 8 * octet .. 8 * octet + 7 of a row: 16 each, the first one's in the lowest half.
DLRM_HD Random4 rounding_bits(uint64_t key, int64_t table, int64_t row, int64_t octet) {
  return philox(key, uint64_t(row), uint64_t(table) << 32 | uint64_t(octet));
}

/// Standard normal from two words (Box-Muller). Host only: the bits depend on the C library's log and cos.
inline double normal_double(uint32_t first, uint32_t second) {
  const double u = (double(first) + 0.5) * 0x1p-32, v = double(second) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * v);
}

}  // namespace dlrm
