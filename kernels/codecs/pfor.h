// pfor: patched frame of reference on the exponent field; sign and mantissa are kept verbatim. Lossless on bit
// patterns. Zukowski, Heman, Nes, Boncz: "Super-Scalar RAM-CPU Cache Compression", ICDE 2006, section 3.
//
// Slot of one row, D = dim rounded up to a multiple of 16, 3.5 * D bytes of fp32, 1.5 * D of bf16, little-endian:
//   A  [0, D)              one byte per element: sign, then the top 7 mantissa bits
//   C  [D, D + 3D/8)       3-bit codes; element i's are bits 3i .. 3i+2 of this bit string: min(base - exponent, 7)
//   T  [D + 3D/8, 1.5D)    base (the row's largest exponent field), exception count n (255: overflow), then one nibble
//   per
//                          exception (code 7) in element order: v < 15 means exponent base - 7 - v, 15 exponent field 0
//   B  [1.5D, 3.5D)        fp32 only: low 16 mantissa bits of each element
// So the slot of an fp32 row begins with that of the bf16 row of its upper halves.
// Pad elements and unused bytes are zero. A row fits with at most min(2 * (D/8 - 2), 254) exceptions, each with
// exponent field 0 or base - exponent <= 21. Otherwise the slot holds a 32-bit overflow pool index in A's first word.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/codecs/group.h"

namespace dlrm {

static_assert(std::endian::native == std::endian::little, "slots are little-endian");

struct PforCodec {
  static constexpr int id = 2;  // on disk; never reused
  static constexpr const char* name = "pfor";

  DType dtype = DType::fp32;

  DLRM_HD static size_t slot_bytes(DType dtype, int64_t dim) {
    return size_t(padded(dim)) * (dtype == DType::fp32 ? 7 : 3) / 2;
  }

  /// Writes the slot; false where the row does not fit, its slot's bytes are then of no meaning.
  template <class Group>
  DLRM_HD bool encode(Group group, const float* row, int64_t dim, std::byte* slot) const {
    const Parts at = parts(slot, dim);
    uint32_t base = 0;
    for (int64_t i = group.lane(); i < dim; i += group.size()) {
      const uint32_t e = exponent(bits_of(row[i]));
      base = e > base ? e : base;
    }
    base = group.max(base);

    uint32_t exceptions = 0, far = 0;  // far: exceptions that no nibble can say
    for (int64_t i = group.lane(); i < dim; i += group.size()) {
      const uint32_t e = exponent(bits_of(row[i])), delta = base - e;
      exceptions += uint32_t(delta >= 7);
      far |= uint32_t((delta > kFarthest) & (e != 0));
    }
    const int count = group.sum(int(exceptions));
    if (!group.all(far == 0) || count > at.room) return false;

    for (int64_t octet = group.lane(); octet < at.octets; octet += group.size()) {
      uint32_t codes = 0;
      for (int k = 0; k < 8; ++k) {
        const int64_t i = 8 * octet + k;
        const uint32_t x = i < dim ? bits_of(row[i]) : base << 23, delta = base - exponent(x);
        codes |= (delta < 7 ? delta : 7) << (3 * k);
        at.a[i] = uint8_t((x >> 24 & 0x80) | (x >> 16 & 0x7f));
        if (dtype == DType::fp32) at.b[i] = uint16_t(x);
      }
      for (int k = 0; k < 3; ++k) at.c[3 * octet + k] = uint8_t(codes >> (8 * k));
    }
    for (int64_t i = group.lane(); i < at.octets; i += group.size()) at.t[i] = 0;
    group.sync();
    if (group.lane() == 0) {
      at.t[0] = uint8_t(base);
      at.t[1] = uint8_t(count);
      int n = 0;
      for (int64_t octet = 0; n < count; ++octet) {
        for (uint32_t sevens = sevens_of(codes_of(octet, at)); sevens != 0; sevens &= sevens - 1, ++n) {
          const uint32_t e = exponent(bits_of(row[8 * octet + lowest_set_bit(sevens) / 3]));
          at.t[2 + n / 2] |= uint8_t((e == 0 ? 15 : base - 7 - e) << (4 * (n % 2)));
        }
      }
    }
    group.sync();
    return true;
  }

  /// First every element as if there were no exceptions, then the exceptions are patched.
  template <class Group>
  DLRM_HD void decode(Group group, const std::byte* slot, int64_t dim, float* row) const {
    const Parts at = parts(const_cast<std::byte*>(slot), dim);
    const uint32_t base = at.t[0];
    for (int64_t octet = group.lane(); octet < at.octets; octet += group.size()) {
      const uint32_t codes = codes_of(octet, at);
      for (int64_t i = 8 * octet; i < 8 * octet + 8 && i < dim; ++i) {
        const uint32_t e = (base - (codes >> (3 * (i % 8)) & 7)) & 255, x = at.a[i];
        const uint32_t low = dtype == DType::fp32 ? at.b[i] : 0;
        row[i] = float_of((x & 0x80) << 24 | e << 23 | (x & 0x7f) << 16 | low);
      }
    }
    group.sync();
    if (at.t[1] == 0) return;
    int exceptions_before = 0;
    for (int64_t first = 0; first < at.octets; first += group.size()) {
      const int64_t octet = first + group.lane();
      const uint32_t codes = octet < at.octets ? codes_of(octet, at) : 0;
      uint32_t sevens = sevens_of(codes);
      int total = 0;
      int exception = exceptions_before + group.exclusive_sum(count_bits(sevens), total);
      exceptions_before += total;
      for (; sevens != 0; sevens &= sevens - 1, ++exception) {
        const uint32_t nibble = at.t[2 + exception / 2] >> (4 * (exception % 2)) & 15;
        const uint32_t e = nibble == 15 ? 0 : base - 7 - nibble;
        float& value = row[8 * octet + lowest_set_bit(sevens) / 3];
        value = float_of((bits_of(value) & 0x807fffffu) | e << 23);
      }
    }
  }

  // The same bytes, the fast way of a CPU: kernels/cpu/vectors.cpp.
  bool encode(Solo, const float* row, int64_t dim, std::byte* slot) const;
  void decode(Solo, const std::byte* slot, int64_t dim, float* row) const;

  DLRM_HD static bool is_overflow(const std::byte* slot, int64_t dim) {
    return parts(const_cast<std::byte*>(slot), dim).t[1] == kOverflow;
  }

  DLRM_HD static uint32_t overflow_index(const std::byte* slot) { return *reinterpret_cast<const uint32_t*>(slot); }

  template <class Group>
  DLRM_HD void write_overflow(Group group, uint32_t index, int64_t dim, std::byte* slot) const {
    const int64_t words = int64_t(slot_bytes(dtype, dim) / sizeof(uint32_t));
    uint32_t* out = reinterpret_cast<uint32_t*>(slot);
    for (int64_t i = group.lane(); i < words; i += group.size()) out[i] = i == 0 ? index : 0;
    group.sync();
    if (group.lane() == 0) parts(slot, dim).t[1] = kOverflow;
    group.sync();
  }

  // Of the layout.
  static constexpr uint32_t kFarthest = 21;  // below the base, of an exception
  struct Parts {
    uint8_t *a, *c, *t;
    uint16_t* b;
    int64_t octets;
    int room;  // for exceptions
  };

  DLRM_HD static Parts parts(std::byte* slot, int64_t dim) {
    const int64_t d = padded(dim);
    uint8_t* a = reinterpret_cast<uint8_t*>(slot);
    const int64_t room = 2 * (d / 8 - 2);
    return {
        a, a + d, a + d + d / 8 * 3, reinterpret_cast<uint16_t*>(a + d + d / 2), d / 8, int(room < 254 ? room : 254)};
  }
  DLRM_HD static uint32_t exponent(uint32_t x) { return x >> 23 & 255; }

 private:
  static constexpr uint8_t kOverflow = 255;

  DLRM_HD static int64_t padded(int64_t dim) { return (dim + 15) / 16 * 16; }

  DLRM_HD static uint32_t codes_of(int64_t octet, const Parts& at) {
    const uint8_t* c = at.c + 3 * octet;
    return c[0] | uint32_t(c[1]) << 8 | uint32_t(c[2]) << 16;
  }

  /// Bit 3k is set where code k is 7.
  DLRM_HD static uint32_t sevens_of(uint32_t codes) { return codes & codes >> 1 & codes >> 2 & 011111111; }
};

}  // namespace dlrm
