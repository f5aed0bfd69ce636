// pfor: patched frame of reference on the exponent field; sign and mantissa are kept verbatim. Lossless on bit
// patterns. Zukowski, Heman, Nes, Boncz: "Super-Scalar RAM-CPU Cache Compression", ICDE 2006, section 3.
//
// Slot of one fp32 row, D = dim rounded up to a multiple of 16, 3.5 * D bytes, little-endian:
//   A  [0, D)              one byte per element: sign, then the top 7 mantissa bits
//   C  [D, D + 3D/8)       3-bit codes; element i's are bits 3i .. 3i+2 of this bit string: min(base - exponent, 7)
//   T  [D + 3D/8, 1.5D)    base (the row's largest exponent field), exception count n (255: overflow), then one nibble
//   per
//                          exception (code 7) in element order: v < 15 means exponent base - 7 - v, 15 exponent field 0
//   B  [1.5D, 3.5D)        low 16 mantissa bits of each element
// Pad elements and unused bytes are zero. A row fits with at most min(2 * (D/8 - 2), 254) exceptions, each with
// exponent field 0 or base - exponent <= 21. Otherwise the slot holds a 32-bit overflow pool index in A's first word.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/codecs/group.h"

namespace dlrm {

static_assert(std::endian::native == std::endian::little, "slots are little-endian");

struct PforCodec {
  static constexpr int id = 2;  // on disk; never reused
  static constexpr const char* name = "pfor";

  static size_t slot_bytes(int64_t dim) { return size_t(padded(dim)) * 7 / 2; }

  template <class Group>
  DLRM_HD static bool encode(Group group, const float* row, int64_t dim, std::byte* slot) {
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

    // A group takes octets by turns; one worker alone takes blocks, long enough for vector instructions.
    constexpr int64_t kWidth = Group::size() == 1 ? kBlock : 8;
    for (int64_t first = kWidth * group.lane(); first < 8 * at.octets; first += kWidth * group.size()) {
      float padded[kWidth];
      const float* from = row + first;
      const int64_t end = first + kWidth < 8 * at.octets ? first + kWidth : 8 * at.octets;
      if (end > dim) {
        for (int64_t i = first; i < end; ++i) padded[i - first] = i < dim ? row[i] : float_of(base << 23);
        from = padded;
      }
      encode_elements<kWidth>(from, base, end - first, at.a + first, at.b + first, at.c + first / 8 * 3);
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
  DLRM_HD static void decode(Group group, const std::byte* slot, int64_t dim, float* row) {
    const Parts at = parts(const_cast<std::byte*>(slot), dim);
    const uint32_t base = at.t[0];
    constexpr int64_t kWidth = Group::size() == 1 ? kBlock : 8;
    for (int64_t first = kWidth * group.lane(); first < dim; first += kWidth * group.size()) {
      const int64_t end = first + kWidth < dim ? first + kWidth : dim;
      decode_elements<kWidth>(at.a + first, at.b + first, at.c + first / 8 * 3, base, end - first, row + first);
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

  DLRM_HD static bool is_overflow(const std::byte* slot, int64_t dim) {
    return parts(const_cast<std::byte*>(slot), dim).t[1] == kOverflow;
  }

  DLRM_HD static uint32_t overflow_index(const std::byte* slot) { return *reinterpret_cast<const uint32_t*>(slot); }

  template <class Group>
  DLRM_HD static void write_overflow(Group group, uint32_t index, int64_t dim, std::byte* slot) {
    const int64_t words = padded(dim) * 7 / 8;
    uint32_t* out = reinterpret_cast<uint32_t*>(slot);
    for (int64_t i = group.lane(); i < words; i += group.size()) out[i] = i == 0 ? index : 0;
    group.sync();
    if (group.lane() == 0) parts(slot, dim).t[1] = kOverflow;
    group.sync();
  }

 private:
  static constexpr uint8_t kOverflow = 255;
  static constexpr uint32_t kFarthest = 21;
  static constexpr int64_t kBlock = 64;

  struct Parts {
    uint8_t *a, *c, *t;
    uint16_t* b;
    int64_t octets;
    int room;  // for exceptions
  };

  DLRM_HD static int64_t padded(int64_t dim) { return (dim + 15) / 16 * 16; }
  DLRM_HD static uint32_t exponent(uint32_t x) { return x >> 23 & 255; }

  DLRM_HD static uint32_t codes_of(int64_t octet, const Parts& at) {
    const uint8_t* c = at.c + 3 * octet;
    return c[0] | uint32_t(c[1]) << 8 | uint32_t(c[2]) << 16;
  }

  /// Bit 3k is set where code k is 7.
  DLRM_HD static uint32_t sevens_of(uint32_t codes) { return codes & codes >> 1 & codes >> 2 & 011111111; }

  // Eight codes, from a byte each to 24 bits and back, move together: by twos, by fours, all.
  DLRM_HD static uint32_t packed(uint64_t codes) {
    codes = (codes | codes >> 5) & 0x003f003f003f003f;
    codes = (codes | codes >> 10) & 0x00000fff00000fff;
    return uint32_t(codes | codes >> 20) & 0xffffff;
  }
  DLRM_HD static uint64_t unpacked(uint32_t bits) {
    uint64_t codes = (bits | uint64_t(bits) << 20) & 0x00000fff00000fff;
    codes = (codes | codes << 10) & 0x003f003f003f003f;
    return (codes | codes << 5) & 0x0707070707070707;
  }

  /// `count`: a multiple of 8, at most kMost.
  template <int64_t kMost>
  DLRM_HD static void encode_elements(const float* __restrict from, uint32_t base, int64_t count, uint8_t* __restrict a,
                                      uint16_t* __restrict b, uint8_t* __restrict c) {
    uint8_t code[kMost];
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t x = bits_of(from[i]), delta = base - exponent(x);
      code[i] = uint8_t(delta < 7 ? delta : 7);
      a[i] = uint8_t((x >> 24 & 0x80) | (x >> 16 & 0x7f));
      b[i] = uint16_t(x);
    }
    for (int64_t i = 0; i < count; i += 8) {
      uint64_t eight = 0;
      for (int k = 0; k < 8; ++k) eight |= uint64_t(code[i + k]) << (8 * k);
      const uint32_t codes = packed(eight);
      for (int k = 0; k < 3; ++k) c[i / 8 * 3 + k] = uint8_t(codes >> (8 * k));
    }
  }

  /// `count`: at most kMost.
  template <int64_t kMost>
  DLRM_HD static void decode_elements(const uint8_t* __restrict a, const uint16_t* __restrict b,
                                      const uint8_t* __restrict c, uint32_t base, int64_t count, float* __restrict to) {
    uint8_t code[kMost];
    for (int64_t i = 0; i < count; i += 8) {
      const uint8_t* three = c + i / 8 * 3;
      const uint64_t eight = unpacked(three[0] | uint32_t(three[1]) << 8 | uint32_t(three[2]) << 16);
      for (int k = 0; k < 8; ++k) code[i + k] = uint8_t(eight >> (8 * k));
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t e = (base - code[i]) & 255;
      to[i] = float_of((a[i] & 0x80u) << 24 | e << 23 | (a[i] & 0x7fu) << 16 | b[i]);
    }
  }

  DLRM_HD static Parts parts(std::byte* slot, int64_t dim) {
    const int64_t d = padded(dim);
    uint8_t* a = reinterpret_cast<uint8_t*>(slot);
    const int64_t room = 2 * (d / 8 - 2);
    return {
        a, a + d, a + d + d / 8 * 3, reinterpret_cast<uint16_t*>(a + d + d / 2), d / 8, int(room < 254 ? room : 254)};
  }
};

}  // namespace dlrm
