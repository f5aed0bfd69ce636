// bfloat16: the upper half of an fp32 number. Kernels compute in fp32 and round to nearest, ties to even.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/portable.h"

namespace dlrm {

enum class DType : int32_t { fp32, bf16 };

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

/// The fp32 number whose bits below bf16's are zero.
DLRM_HD float truncated(float value) {
  return float_of(bits_of(value) & 0xffff0000);
}

/// Calls f(T{}) with the type of the elements: float or Bf16.
template <class F>
decltype(auto) with_dtype(DType dtype, F&& f) {
  return dtype == DType::fp32 ? f(float{}) : f(Bf16{});
}

}  // namespace dlrm
