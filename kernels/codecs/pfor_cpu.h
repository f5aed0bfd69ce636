// pfor on one CPU thread: the bytes of the reference in pfor.h, which includes this file, from loops that compilers
// turn into vector instructions. One core of an AMD EPYC, g++ 12, AVX2, a row of 128 from N(0, 1e-3) with its 1.4
// exceptions: decode 234 -> 34 ns, encode 230 -> 61 ns (dlrm_kernels_bench).
//
// What lets them: work in chunks with local arrays that nothing can alias, the 3-bit codes of 8 elements in one
// register, and exceptions, about one per row, one by one afterwards.
#pragma once
#include <algorithm>
#include <cstring>

#include "kernels/codecs/pfor.h"

namespace dlrm {
namespace pfor_cpu {

inline constexpr int64_t kChunk = 128;  // elements; a multiple of 16

/// Bit 3k is set where code k of 16 is 7.
inline uint64_t exceptions_of(uint64_t codes) {
  constexpr uint64_t kLowestBits = 01111111111111111;  // octal: one digit per code
  return codes & codes >> 1 & codes >> 2 & kLowestBits;
}

/// Exponents in their place in a float, as if there were no exceptions.   exponents [8 * octets]
inline void exponents_of(const uint8_t* codes, int64_t octets, uint32_t base, uint32_t* __restrict exponents) {
  for (int64_t octet = 0; octet < octets; ++octet) {
    uint32_t eight;  // and one byte of what follows
    std::memcpy(&eight, codes + 3 * octet, sizeof eight);
    for (int k = 0; k < 8; ++k) exponents[8 * octet + k] = (base << 23) - (eight << (23 - 3 * k) & 7u << 23);
  }
}

template <DType kDType>
void join(const uint8_t* __restrict a, const uint16_t* __restrict b, const uint32_t* __restrict exponents,
          int64_t count, float* __restrict row) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t high = uint32_t(int32_t(int8_t(a[i]))) << 16 & 0x807f0000;  // the sign fills the exponent's place
    if constexpr (kDType == DType::fp32) {
      row[i] = float_of(high | exponents[i] | b[i]);
    } else {
      row[i] = float_of(high | exponents[i]);
    }
  }
}

template <DType kDType>
void split(const float* __restrict row, int64_t count, uint32_t base, uint8_t* __restrict a, uint16_t* __restrict b,
           uint8_t* __restrict codes) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t x = bits_of(row[i]);
    a[i] = uint8_t((x >> 24 & 0x80) | (x >> 16 & 0x7f));
    if constexpr (kDType == DType::fp32) b[i] = uint16_t(x);
    codes[i] = uint8_t(std::min(base - (x >> 23 & 255), 7u));
  }
}

/// Packs the codes of each octet, one per byte, into the word's low 24 bits.
inline void pack(uint64_t* octet_codes, int64_t octets) {
  for (int64_t octet = 0; octet < octets; ++octet) {
    uint64_t word = octet_codes[octet];
    word = (word | word >> 5) & 0x003f003f003f003f;
    word = (word | word >> 10) & 0x00000fff00000fff;
    octet_codes[octet] = (word | word >> 20) & 0xffffff;
  }
}

}  // namespace pfor_cpu

template <DType kDType>
bool PforCodec::encode_row(const float* row, int64_t dim, std::byte* slot) {
  using namespace pfor_cpu;
  const Parts at = parts(slot, dim);
  uint32_t most = 0;
  for (int64_t i = 0; i < dim; ++i) most = std::max(most, bits_of(row[i]) << 1);  // without its sign
  const uint32_t base = most >> 24;

  int exceptions = 0;
  std::memset(at.t, 0, size_t(at.octets));
  for (int64_t first = 0; first < dim; first += kChunk) {
    const float* chunk = row + first;
    const int64_t count = std::min(dim - first, kChunk), padded_count = padded(count);
    float with_pad[kChunk];
    if (count < padded_count) {
      std::copy_n(chunk, count, with_pad);
      std::fill(with_pad + count, with_pad + padded_count, float_of(base << 23));
      chunk = with_pad;
    }
    uint64_t codes[kChunk / 8];
    split<kDType>(chunk, padded_count, base, at.a + first, at.b + first, reinterpret_cast<uint8_t*>(codes));
    pack(codes, padded_count / 8);
    for (int64_t octet = 0; octet < padded_count / 8; octet += 2) {
      const uint64_t sixteen = codes[octet] | codes[octet + 1] << 24;
      std::memcpy(at.c + first / 8 * 3 + 3 * octet, &sixteen, 6);
      for (uint64_t left = exceptions_of(sixteen); left != 0; left &= left - 1) {
        const uint32_t e = exponent(bits_of(chunk[8 * octet + std::countr_zero(left) / 3])), delta = base - e;
        if (exceptions == at.room || (delta > kFarthest && e != 0)) return false;
        at.t[2 + exceptions / 2] |= uint8_t((e == 0 ? 15 : delta - 7) << (4 * (exceptions % 2)));
        ++exceptions;
      }
    }
  }
  at.t[0] = uint8_t(base);
  at.t[1] = uint8_t(exceptions);
  return true;
}

template <DType kDType>
void PforCodec::decode_row(const std::byte* slot, int64_t dim, float* row) {
  using namespace pfor_cpu;
  const Parts at = parts(const_cast<std::byte*>(slot), dim);
  const uint32_t base = at.t[0];
  for (int64_t first = 0; first < dim; first += kChunk) {
    const int64_t count = std::min(dim - first, kChunk);
    uint32_t exponents[kChunk];
    exponents_of(at.c + first / 8 * 3, (count + 7) / 8, base, exponents);
    join<kDType>(at.a + first, at.b + first, exponents, count, row + first);
  }
  if (at.t[1] == 0) return;

  int before = 0;
  for (int64_t octet = 0; octet < at.octets; octet += 2) {
    uint64_t sixteen;  // and two bytes of T
    std::memcpy(&sixteen, at.c + 3 * octet, sizeof sixteen);
    for (uint64_t left = exceptions_of(sixteen); left != 0; left &= left - 1) {
      const int64_t i = 8 * octet + std::countr_zero(left) / 3;
      const uint32_t nibble = at.t[2 + before / 2] >> (4 * (before % 2)) & 15;
      const uint32_t e = nibble == 15 ? 0 : base - 7 - nibble, a = at.a[i];
      const uint32_t low = kDType == DType::fp32 ? at.b[i] : 0;
      row[i] = float_of((a & 0x80) << 24 | e << 23 | (a & 0x7f) << 16 | low);
      ++before;
    }
  }
}

inline bool PforCodec::encode(Solo, const float* row, int64_t dim, std::byte* slot) const {
  return dtype == DType::fp32 ? encode_row<DType::fp32>(row, dim, slot) : encode_row<DType::bf16>(row, dim, slot);
}
inline void PforCodec::decode(Solo, const std::byte* slot, int64_t dim, float* row) const {
  dtype == DType::fp32 ? decode_row<DType::fp32>(slot, dim, row) : decode_row<DType::bf16>(slot, dim, row);
}

}  // namespace dlrm
