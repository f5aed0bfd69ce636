// IEEE 754 half precision, as bits.
#pragma once
#include <bit>
#include <cstdint>

namespace dlrm {

/// Exact. NaN payloads are kept.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const float scaled = std::bit_cast<float>(uint32_t(half & 0x7fff) << 13) * 0x1p112f;  // denormals come out right
  const uint32_t all_ones = (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;               // infinity, NaN
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | all_ones | sign);
}

/// Rounds to nearest, ties to even; too large becomes infinity.
inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x47800000) return uint16_t(sign | 0x7c00);
  if (magnitude < 0x38800000)  // a denormal half: the addition rounds
    return uint16_t(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000));
  return uint16_t(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13));
}

}  // namespace dlrm
