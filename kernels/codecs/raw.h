// raw: the row as it is. The honest baseline everywhere.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/codecs/group.h"

namespace dlrm {

struct RawCodec {
  static constexpr int id = 0;  // on disk; never reused
  static constexpr const char* name = "raw";

  static size_t slot_bytes(int64_t dim) { return size_t(dim) * sizeof(float); }

  template <class Group>
  DLRM_HD static bool encode(Group group, const float* row, int64_t dim, std::byte* slot) {
    float* out = reinterpret_cast<float*>(slot);
    for (int64_t i = group.lane(); i < dim; i += group.size()) out[i] = row[i];
    return true;
  }

  template <class Group>
  DLRM_HD static void decode(Group group, const std::byte* slot, int64_t dim, float* row) {
    const float* in = reinterpret_cast<const float*>(slot);
    for (int64_t i = group.lane(); i < dim; i += group.size()) row[i] = in[i];
  }

  DLRM_HD static bool is_overflow(const std::byte*, int64_t) { return false; }
  DLRM_HD static uint32_t overflow_index(const std::byte*) { return 0; }
  template <class Group>
  DLRM_HD static void write_overflow(Group, uint32_t, int64_t, std::byte*) {}
};

}  // namespace dlrm
