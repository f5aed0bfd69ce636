// ibp: Invariant Bit Packing. Bits that nearly all rows of a table share are kept once for the table. Lossless on bit
// patterns. "Reducing the GPU Memory Bottleneck with Lossless Compression for ML", EuroSys 2026.
//
// Elements are 32-bit words: n = dim of fp32, or n = dim / 2, rounded up, of two bf16 values each, the first one in the
// lower half. A table has for each column of words a mask of invariant bits and their values, learnt from a sample of
// its rows (fit_ibp); an element whose masked bits have these values participates. Slot of one row, little-endian
// 32-bit words:
//   marker   1 word              0: the row; otherwise its overflow pool index + 1
//   bitmap   (n + 31) / 32 words bit i: element i participates
//   stream   the rest            element by element, the first bit of each word its highest: of a participating element
//                                the bits outside the mask from high to low, of any other all its bits
// Unused bytes are zero. All slots of a table have the size that 99.9 % of the sample's rows fit, a multiple of 16.
// Unlike in the paper's artifact, whose slots have the raw size, a smaller slot is memory saved.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/codecs/group.h"

namespace dlrm {

class IbpCodec {
 public:
  static constexpr int id = 1;  // on disk; never reused
  static constexpr const char* name = "ibp";

  /// masks [2, columns]: each column's mask, then each column's values under it.
  DLRM_HD IbpCodec(const uint32_t* masks, size_t slot_bytes, DType dtype)
      : masks_(masks), slot_bytes_(slot_bytes), dtype_(dtype) {}

  /// Words of a row.
  DLRM_HD static int64_t columns(DType dtype, int64_t dim) { return dtype == DType::fp32 ? dim : (dim + 1) / 2; }
  DLRM_HD static uint32_t element(DType dtype, const float* row, int64_t dim, int64_t i) {
    if (dtype == DType::fp32) return bits_of(row[i]);
    return bits_of(row[2 * i]) >> 16 | (2 * i + 1 < dim ? bits_of(row[2 * i + 1]) & 0xffff0000 : 0);
  }

  /// Marker and bitmap.
  DLRM_HD static size_t header_bytes(int64_t columns) { return size_t(1 + bitmap_words(columns)) * sizeof(uint32_t); }
  /// Of a table that was not fitted, whose masks are empty.
  static size_t slot_bytes(DType dtype, int64_t dim) {
    const int64_t n = columns(dtype, dim);
    return (header_bytes(n) + size_t(n) * sizeof(uint32_t) + 15) / 16 * 16;
  }

  /// Writes the slot; false where the row does not fit, the slot's bytes are then as they were.
  template <class Group>
  DLRM_HD bool encode(Group group, const float* row, int64_t dim, std::byte* slot) const {
    const int64_t n = columns(dtype_, dim);
    uint32_t* const words = reinterpret_cast<uint32_t*>(slot);
    uint32_t *const bitmap = words + 1, *const stream = bitmap + bitmap_words(n);
    int64_t bits = 0;
    for (int64_t first = 0; first < n; first += group.size()) {
      const int64_t i = first + group.lane();
      bits += group.sum(i < n ? width(i, participates(i, element(dtype_, row, dim, i), n)) : 0);
    }
    if (bits > stream_bits(n)) return false;

    for (int64_t w = group.lane(); w < int64_t(slot_bytes_ / sizeof(uint32_t)); w += group.size()) words[w] = 0;
    group.sync();
    int64_t before = 0;
    for (int64_t first = 0; first < n; first += group.size()) {
      const int64_t i = first + group.lane();
      const uint32_t x = i < n ? element(dtype_, row, dim, i) : 0;
      const bool takes_part = i < n && participates(i, x, n);
      int total = 0;
      const int wide = i < n ? width(i, takes_part) : 0;
      const int64_t at = before + group.exclusive_sum(wide, total);
      before += total;
      if (takes_part) group.set_bits(bitmap + i / 32, 1u << (i % 32));
      if (wide > 0) put(group, stream, at, wide, takes_part ? extract_bits(x, ~masks_[i]) : x);
    }
    group.sync();
    return true;
  }

  template <class Group>
  DLRM_HD void decode(Group group, const std::byte* slot, int64_t dim, float* row) const {
    const int64_t n = columns(dtype_, dim);
    const uint32_t* const bitmap = reinterpret_cast<const uint32_t*>(slot) + 1;
    const uint32_t* const stream = bitmap + bitmap_words(n);
    int64_t before = 0;
    for (int64_t first = 0; first < n; first += group.size()) {
      const int64_t i = first + group.lane();
      const bool takes_part = i < n && (bitmap[i / 32] >> (i % 32) & 1) != 0;
      int total = 0;
      const int wide = i < n ? width(i, takes_part) : 0;
      const int64_t at = before + group.exclusive_sum(wide, total);
      before += total;
      if (i >= n) continue;
      // A slot that was damaged may say that it holds more than it does.
      const uint32_t bits = wide > 0 && at + wide <= stream_bits(n) ? take(stream, at, wide) : 0;
      const uint32_t x = takes_part ? deposit_bits(bits, ~masks_[i]) | masks_[n + i] : bits;
      if (dtype_ == DType::fp32) {
        row[i] = float_of(x);
      } else {
        row[2 * i] = float_of(x << 16);
        if (2 * i + 1 < dim) row[2 * i + 1] = float_of(x & 0xffff0000);
      }
    }
  }

  DLRM_HD static bool is_overflow(const std::byte* slot, int64_t) {
    return *reinterpret_cast<const uint32_t*>(slot) != 0;
  }
  DLRM_HD static uint32_t overflow_index(const std::byte* slot) { return *reinterpret_cast<const uint32_t*>(slot) - 1; }

  template <class Group>
  DLRM_HD void write_overflow(Group group, uint32_t index, int64_t, std::byte* slot) const {
    uint32_t* const words = reinterpret_cast<uint32_t*>(slot);
    for (int64_t w = group.lane(); w < int64_t(slot_bytes_ / sizeof(uint32_t)); w += group.size())
      words[w] = w == 0 ? index + 1 : 0;
    group.sync();
  }

 private:
  DLRM_HD static int64_t bitmap_words(int64_t columns) { return (columns + 31) / 32; }
  DLRM_HD int64_t stream_bits(int64_t columns) const { return 8 * int64_t(slot_bytes_ - header_bytes(columns)); }
  DLRM_HD bool participates(int64_t i, uint32_t x, int64_t columns) const {
    return (x & masks_[i]) == masks_[columns + i];
  }
  DLRM_HD int width(int64_t i, bool takes_part) const { return takes_part ? 32 - count_bits(masks_[i]) : 32; }

  /// Bits [at, at + width) of the stream.
  template <class Group>
  DLRM_HD static void put(Group group, uint32_t* stream, int64_t at, int width, uint32_t bits) {
    const int end = int(at % 32) + width;  // in the word of the first bit
    const uint64_t both = uint64_t(bits) << (64 - end);
    group.set_bits(stream + at / 32, uint32_t(both >> 32));
    if (end > 32) group.set_bits(stream + at / 32 + 1, uint32_t(both));
  }
  DLRM_HD static uint32_t take(const uint32_t* stream, int64_t at, int width) {
    const int end = int(at % 32) + width;
    const uint64_t both = uint64_t(stream[at / 32]) << 32 | (end > 32 ? stream[at / 32 + 1] : 0);
    return uint32_t(both >> (64 - end)) & uint32_t((uint64_t(1) << width) - 1);
  }

  const uint32_t* masks_;
  size_t slot_bytes_;
  DType dtype_;
};

/// What a table of ibp learns from a sample of its rows.
struct IbpFit {
  std::vector<uint32_t> masks;  // [2, columns]
  size_t slot_bytes = 0;
};

/// rows [count, dim]   A bit is invariant where more than a share t of the rows agree on it; of t = 0.70, 0.75 .. 0.95
/// the one that saves most bits is taken, the lowest of equals (the paper, section 4).
IbpFit fit_ibp(DType dtype, const float* rows, int64_t count, int64_t dim);

}  // namespace dlrm
