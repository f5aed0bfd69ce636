#include "kernels/codecs/ibp.h"

#include <algorithm>

namespace dlrm {
namespace {

/// Invariant bits of one column, with a threshold in percent.   ones [32]
struct Column {
  uint32_t mask = 0, value = 0;

  Column(const int64_t* ones, int64_t count, int64_t percent) {
    for (int b = 0; b < 32; ++b) {
      if (100 * ones[b] > percent * count) {
        mask |= 1u << b;
        value |= 1u << b;
      } else if (100 * ones[b] < (100 - percent) * count) {
        mask |= 1u << b;
      }
    }
  }
  bool holds(uint32_t x) const { return (x & mask) == value; }
};

}  // namespace

IbpFit fit_ibp(DType dtype, const float* rows, int64_t count, int64_t dim) {
  const int64_t n = IbpCodec::columns(dtype, dim);
  IbpFit fit{std::vector<uint32_t>(size_t(2 * n)), IbpCodec::slot_bytes(dtype, dim)};
  if (count == 0) return fit;
  const auto element = [&](int64_t row, int64_t j) { return IbpCodec::element(dtype, rows + row * dim, dim, j); };
  std::vector<int64_t> ones(size_t(32 * n));
  for (int64_t row = 0; row < count; ++row)
    for (int64_t j = 0; j < n; ++j)
      for (uint32_t x = element(row, j); x != 0; x &= x - 1) ++ones[size_t(32 * j + lowest_set_bit(x))];

  int64_t most = -1;
  for (int64_t percent = 70; percent <= 95; percent += 5) {
    int64_t saved = 0;
    std::vector<uint32_t> masks(size_t(2 * n));
    for (int64_t j = 0; j < n; ++j) {
      const Column column(&ones[size_t(32 * j)], count, percent);
      masks[size_t(j)] = column.mask;
      masks[size_t(n + j)] = column.value;
      for (int64_t row = 0; row < count; ++row)
        if (column.holds(element(row, j))) saved += count_bits(column.mask);
    }
    if (saved <= most) continue;
    most = saved;
    fit.masks = masks;
  }

  // The smallest slot that 99.9 % of the rows fit.
  std::vector<int64_t> bits(static_cast<size_t>(count));
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t j = 0; j < n; ++j) {
      const uint32_t mask = fit.masks[size_t(j)];
      bits[size_t(row)] += 32 - ((element(row, j) & mask) == fit.masks[size_t(n + j)] ? count_bits(mask) : 0);
    }
  }
  const int64_t must_fit = (999 * count + 999) / 1000;
  std::nth_element(bits.begin(), bits.begin() + must_fit - 1, bits.end());
  const size_t stream_words = size_t((bits[size_t(must_fit - 1)] + 31) / 32);
  fit.slot_bytes = (IbpCodec::header_bytes(n) + stream_words * sizeof(uint32_t) + 15) / 16 * 16;
  return fit;
}

}  // namespace dlrm
