// bfloat16: the upper half of an fp32 number. Kernels compute in fp32 and round to nearest, ties to even.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/error.h"
#include "kernels/portable.h"

namespace dlrm {

enum class DType : int32_t { fp32, bf16 };

inline constexpr std::array<std::string_view, 2> kDTypeNames = {"fp32", "bf16"};

inline std::string_view dtype_name(DType dtype) {
  return kDTypeNames[size_t(dtype)];
}
/// Throws Error where there is none of this name.
inline DType dtype_by_name(std::string_view name) {
  for (size_t i = 0; i < kDTypeNames.size(); ++i)
    if (kDTypeNames[i] == name) return DType(i);
  fail("dtype '", name, "' is not known to this program");
}

DLRM_HD size_t size_of(DType dtype) {
  return dtype == DType::fp32 ? 4 : 2;
}

struct Bf16 {
  uint16_t bits;
};

DLRM_HD float to_float(float value) {
  return value;
}
DLRM_HD float to_float(Bf16 value) {
  return float_of(uint32_t(value.bits) << 16);
}

DLRM_HD Bf16 to_bf16(float value) {
  return {nearest_upper_half(value)};
}

template <class T>
DLRM_HD T rounded(float value);
template <>
DLRM_HD float rounded<float>(float value) {
  return value;
}
template <>
DLRM_HD Bf16 rounded<Bf16>(float value) {
  return to_bf16(value);
}

/// The number of bf16 nearest to `value`.
DLRM_HD float nearest_bf16(float value) {
  return to_float(to_bf16(value));
}

/// The fp32 number whose bits below bf16's are zero.
DLRM_HD float truncated(float value) {
  return float_of(bits_of(value) & 0xffff0000);
}

/// The one of the two numbers of bf16 around `value` that `random`, uniform in [0, 2^16), chooses: the nearer the
/// likelier, so that the expectation is `value`. What bf16 has stays as it is; NaN becomes what to_bf16 makes of it.
DLRM_HD float stochastically_rounded(float value, uint32_t random) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return nearest_bf16(value);
  return truncated(float_of(bits + random));
}

/// Calls f(T{}) with the type of the elements: float or Bf16.
template <class F>
decltype(auto) with_dtype(DType dtype, F&& f) {
  return dtype == DType::fp32 ? f(float{}) : f(Bf16{});
}

}  // namespace dlrm
