// Some consecutive elements that are loaded and stored at once.
#pragma once
#include <cstdint>

#include "kernels/views.h"

namespace dlrm::cuda {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

/// Elements in 16 bytes.
template <class T>
inline constexpr int kPackElements = 16 / int(sizeof(T));

/// Whether rows can be read 16 bytes at a time.
inline bool packs(const Matrix& m) {
  const int64_t elements = int64_t(16 / size_of(m.dtype));
  return m.cols % elements == 0 && m.stride % elements == 0 && reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
}

}  // namespace dlrm::cuda
