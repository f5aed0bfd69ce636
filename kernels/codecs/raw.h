// raw: the row as it is, fp32 or bf16; zeros fill a slot up to a multiple of 4 bytes. The honest baseline everywhere.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/codecs/group.h"

namespace dlrm {

struct RawCodec {
  static constexpr int id = 0;  // on disk; never reused
  static constexpr const char* name = "raw";

  DType dtype = DType::fp32;

  static size_t slot_bytes(DType dtype, int64_t dim) { return (size_t(dim) * size_of(dtype) + 3) / 4 * 4; }

  template <class Group>
  DLRM_HD bool encode(Group group, const float* row, int64_t dim, std::byte* slot) const {
    if (dtype == DType::fp32) {
      float* out = reinterpret_cast<float*>(slot);
      for (int64_t i = group.lane(); i < dim; i += group.size()) out[i] = row[i];
    } else {
      uint16_t* out = reinterpret_cast<uint16_t*>(slot);
      for (int64_t i = group.lane(); i < dim + dim % 2; i += group.size())
        out[i] = i < dim ? uint16_t(bits_of(row[i]) >> 16) : 0;
    }
    return true;
  }

  template <class Group>
  DLRM_HD void decode(Group group, const std::byte* slot, int64_t dim, float* row) const {
    if (dtype == DType::fp32) {
      const float* in = reinterpret_cast<const float*>(slot);
      for (int64_t i = group.lane(); i < dim; i += group.size()) row[i] = in[i];
    } else {
      const Bf16* in = reinterpret_cast<const Bf16*>(slot);
      for (int64_t i = group.lane(); i < dim; i += group.size()) row[i] = to_float(in[i]);
    }
  }

  DLRM_HD static bool is_overflow(const std::byte*, int64_t) { return false; }
  DLRM_HD static uint32_t overflow_index(const std::byte*) { return 0; }
  template <class Group>
  DLRM_HD static void write_overflow(Group, uint32_t, int64_t, std::byte*) {}
};

}  // namespace dlrm
