// One core of an Intel Xeon (Emerald Rapids), g++ 12, a row of 128 fp32 from N(0, 1e-3) with its 1.4 exceptions, as the
// compiler vectorises plain loops for AVX2 / here with AVX2 / with AVX-512 (dlrm_kernels_bench):
//   decode 69 / 42 / 33 ns   encode 129 / 75 / 56 ns
#include "kernels/cpu/vectors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/codecs/pfor.h"
#include "kernels/error.h"
#include "kernels/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vectors.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlrm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sixteen elements at a time, as many as share six bytes of codes, in as few vectors as that takes.
using D = hn::CappedTag<uint32_t, 16>;
constexpr D kWords;
constexpr hn::RebindToSigned<D> kSigned;
constexpr hn::Rebind<uint16_t, D> kHalves;
constexpr hn::Rebind<uint8_t, D> kBytes;
constexpr hn::Rebind<int8_t, D> kSignedBytes;
constexpr size_t kLanes = hn::MaxLanes(D());
using Words = hn::Vec<D>;

constexpr int64_t kChunk = 128;  // elements whose exceptions are listed together

/// A bit for each element of a chunk. Kept in registers: read from where they were stored bit by bit, they would have
/// to wait until the stores of the row before them are done.
struct Bits {
  uint64_t low = 0, high = 0;

  HWY_INLINE void set(int64_t i, hn::Mask<D> mask) {
    uint8_t bytes[8];
    hn::StoreMaskBits(kWords, mask, bytes);
    const uint64_t bits = kLanes == 16 ? bytes[0] | uint64_t(bytes[1]) << 8 : bytes[0];
    (i < 64 ? low : high) |= bits << (i % 64);
  }
  /// Calls f(i) for each that is set, ascending, until it returns false.
  template <class F>
  HWY_INLINE bool for_each(F f) const {
    static_assert(kChunk == 128);
    for (uint64_t word = low; word != 0; word &= word - 1)
      if (!f(std::countr_zero(word))) return false;
    for (uint64_t word = high; word != 0; word &= word - 1)
      if (!f(64 + std::countr_zero(word))) return false;
    return true;
  }
};

template <DType kDType>
HWY_INLINE void decode_row(const std::byte* slot, int64_t dim, float* row) {
  alignas(64) static constexpr uint32_t kShifts[16] = {0, 3, 6, 9, 12, 15, 18, 21, 0, 3, 6, 9, 12, 15, 18, 21};
  const PforCodec::Parts at = PforCodec::parts(const_cast<std::byte*>(slot), dim);
  const uint32_t base = at.t[0];
  Bits sevens;
  const auto decode_16 = [&](int64_t first, int64_t chunk, float* to) HWY_ATTR {
    uint32_t octets[2];  // and a byte of what follows
    std::memcpy(&octets[0], at.c + first / 8 * 3, sizeof octets[0]);
    std::memcpy(&octets[1], at.c + first / 8 * 3 + 3, sizeof octets[1]);
    for (size_t j = 0; j < 16; j += kLanes) {
      auto shifted = hn::Set(kWords, octets[j / 8]);
      if constexpr (kLanes == 16) shifted = hn::IfThenElse(hn::FirstN(kWords, 8), shifted, hn::Set(kWords, octets[1]));
      const auto codes = hn::And(hn::Shr(shifted, hn::Load(kWords, kShifts + j)), hn::Set(kWords, 7));
      sevens.set(first - chunk + int64_t(j), hn::Eq(codes, hn::Set(kWords, 7)));
      const auto exponents = hn::ShiftLeft<23>(hn::Sub(hn::Set(kWords, base), codes));
      // The sign fills the exponent's place.
      const auto high = hn::PromoteTo(kSigned, hn::LoadU(kSignedBytes, reinterpret_cast<int8_t*>(at.a + first + j)));
      auto x = hn::Or(hn::And(hn::ShiftLeft<16>(hn::BitCast(kWords, high)), hn::Set(kWords, 0x807f0000)), exponents);
      if constexpr (kDType == DType::fp32) x = hn::Or(x, hn::PromoteTo(kWords, hn::LoadU(kHalves, at.b + first + j)));
      hn::StoreU(x, kWords, reinterpret_cast<uint32_t*>(to + j));
    }
  };

  int before = 0;
  for (int64_t chunk = 0; chunk < dim; chunk += kChunk) {
    const int64_t end = std::min(dim, chunk + kChunk), whole = chunk + (end - chunk) / 16 * 16;
    sevens = {};
    for (int64_t first = chunk; first < whole; first += 16) decode_16(first, chunk, row + first);
    if (whole < end) {
      float partial[16];
      decode_16(whole, chunk, partial);
      std::copy_n(partial, end - whole, row + whole);
    }
    sevens.for_each([&](int64_t i) {
      i += chunk;
      const uint32_t nibble = at.t[2 + before / 2] >> (4 * (before % 2)) & 15;
      const uint32_t e = nibble == 15 ? 0 : base - 7 - nibble, a = at.a[i];
      const uint32_t low = kDType == DType::fp32 ? at.b[i] : 0;
      row[i] = float_of((a & 0x80) << 24 | e << 23 | (a & 0x7f) << 16 | low);
      ++before;
      return true;
    });
  }
}

HWY_INLINE uint32_t largest_exponent(const float* row, int64_t dim) {
  const auto* const words = reinterpret_cast<const uint32_t*>(row);
  auto most = hn::Zero(kWords);  // without signs
  int64_t i = 0;
  for (; i + int64_t(kLanes) <= dim; i += int64_t(kLanes))
    most = hn::Max(most, hn::ShiftLeft<1>(hn::LoadU(kWords, words + i)));
  uint32_t largest = hn::GetLane(hn::MaxOfLanes(kWords, most));
  for (; i < dim; ++i) largest = std::max(largest, words[i] << 1);
  return largest >> 24;
}

/// Codes of 16 elements, a byte each, to 48 bits.
HWY_INLINE uint64_t packed(const uint8_t* codes) {
  uint64_t octets[2];
  std::memcpy(octets, codes, sizeof octets);
  for (uint64_t& octet : octets) {
    octet = (octet | octet >> 5) & 0x003f003f003f003f;
    octet = (octet | octet >> 10) & 0x00000fff00000fff;
    octet = (octet | octet >> 20) & 0xffffff;
  }
  return octets[0] | octets[1] << 24;
}

template <DType kDType>
HWY_INLINE bool encode_row(const float* row, int64_t dim, std::byte* slot) {
  const PforCodec::Parts at = PforCodec::parts(slot, dim);
  const uint32_t base = largest_exponent(row, dim);
  alignas(64) uint8_t codes[kChunk];
  Bits exceptions;
  const auto encode_16 = [&](const float* from, int64_t first, int64_t chunk) HWY_ATTR {
    for (size_t j = 0; j < 16; j += kLanes) {
      const auto x = hn::LoadU(kWords, reinterpret_cast<const uint32_t*>(from + j));
      const auto deltas = hn::Sub(hn::Set(kWords, base), hn::And(hn::ShiftRight<23>(x), hn::Set(kWords, 255)));
      const auto a = hn::Or(hn::And(hn::ShiftRight<24>(x), hn::Set(kWords, 0x80)),
                            hn::And(hn::ShiftRight<16>(x), hn::Set(kWords, 0x7f)));
      hn::StoreU(hn::TruncateTo(kBytes, a), kBytes, at.a + first + j);
      if constexpr (kDType == DType::fp32) hn::StoreU(hn::TruncateTo(kHalves, x), kHalves, at.b + first + j);
      hn::StoreU(hn::TruncateTo(kBytes, hn::Min(deltas, hn::Set(kWords, 7))), kBytes, codes + (first - chunk) + j);
      exceptions.set(first - chunk + int64_t(j), hn::Gt(deltas, hn::Set(kWords, 6)));
    }
  };

  int count = 0;
  uint8_t nibbles[256] = {};  // at.room is at most 254
  for (int64_t chunk = 0; chunk < dim; chunk += kChunk) {
    const int64_t end = std::min(dim, chunk + kChunk), whole = chunk + (end - chunk) / 16 * 16;
    exceptions = {};
    for (int64_t first = chunk; first < whole; first += 16) encode_16(row + first, first, chunk);
    if (whole < end) {
      float with_pad[16];
      std::fill(std::copy(row + whole, row + end, with_pad), with_pad + 16, float_of(base << 23));
      encode_16(with_pad, whole, chunk);
    }
    for (int64_t first = chunk; first < end; first += 16) {
      const uint64_t sixteen = packed(codes + (first - chunk));
      std::memcpy(at.c + first / 8 * 3, &sixteen, sizeof sixteen);  // and two bytes that will be overwritten
    }
    const bool fits = exceptions.for_each([&](int64_t i) {
      const uint32_t e = PforCodec::exponent(bits_of(row[chunk + i])), delta = base - e;
      if (count == at.room || (delta > PforCodec::kFarthest && e != 0)) return false;
      nibbles[count++] = uint8_t(e == 0 ? 15 : delta - 7);
      return true;
    });
    if (!fits) return false;
  }
  at.t[0] = uint8_t(base);
  at.t[1] = uint8_t(count);
  const int64_t room = (at.room + 1) / 2;  // in bytes
  for (int64_t i = 0; i < room; ++i) at.t[2 + i] = uint8_t(nibbles[2 * i] | nibbles[2 * i + 1] << 4);
  std::memset(at.t + 2 + room, 0, size_t(at.octets - 2 - room));
  return true;
}

void pfor_decode(DType dtype, const std::byte* slot, int64_t dim, float* row) {
  dtype == DType::fp32 ? decode_row<DType::fp32>(slot, dim, row) : decode_row<DType::bf16>(slot, dim, row);
}
bool pfor_encode(DType dtype, const float* row, int64_t dim, std::byte* slot) {
  return dtype == DType::fp32 ? encode_row<DType::fp32>(row, dim, slot) : encode_row<DType::bf16>(row, dim, slot);
}

/// Upper and lower halves of the products of all lanes with a constant.
HWY_INLINE void multiply(Words x, uint32_t by, Words& high, Words& low) {
  const auto factor = hn::Set(kWords, by);
  const auto even = hn::BitCast(kWords, hn::MulEven(x, factor));
  const auto odd = hn::BitCast(kWords, hn::MulEven(hn::Reverse2(kWords, x), factor));
  low = hn::OddEven(hn::Reverse2(kWords, odd), even);
  high = hn::OddEven(odd, hn::Reverse2(kWords, even));
}

/// philox() for consecutive octets, a lane each; then the elements they are for.
void round_row_impl(uint64_t key, int64_t table, int64_t row, int64_t dim, float* values) {
  for (int64_t octet = 0; 8 * octet < dim; octet += int64_t(kLanes)) {
    auto x0 = hn::Set(kWords, uint32_t(row)), x1 = hn::Set(kWords, uint32_t(uint64_t(row) >> 32)),
         x2 = hn::Iota(kWords, uint32_t(octet)), x3 = hn::Set(kWords, uint32_t(table));
    uint32_t key0 = uint32_t(key), key1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
      Words high0, low0, high1, low1;
      multiply(x0, 0xD2511F53u, high0, low0);
      multiply(x2, 0xCD9E8D57u, high1, low1);
      x0 = hn::Xor(hn::Xor(high1, x1), hn::Set(kWords, key0));
      x1 = low1;
      x2 = hn::Xor(hn::Xor(high0, x3), hn::Set(kWords, key1));
      x3 = low0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    uint32_t words[4 * kLanes];
    hn::StoreInterleaved4(x0, x1, x2, x3, kWords, words);
    uint16_t random[8 * kLanes];
    std::memcpy(random, words, sizeof random);
    const int64_t first = 8 * octet, count = std::min<int64_t>(dim - first, 8 * int64_t(kLanes));
    for (int64_t i = 0; i < count; ++i) values[first + i] = stochastically_rounded(values[first + i], random[i]);
  }
}

}  // namespace dlrm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlrm {

HWY_EXPORT(pfor_decode);
HWY_EXPORT(pfor_encode);
HWY_EXPORT(round_row_impl);

bool PforCodec::encode(Solo, const float* row, int64_t dim, std::byte* slot) const {
  return HWY_DYNAMIC_DISPATCH(pfor_encode)(dtype, row, dim, slot);
}
void PforCodec::decode(Solo, const std::byte* slot, int64_t dim, float* row) const {
  HWY_DYNAMIC_DISPATCH(pfor_decode)(dtype, slot, dim, row);
}

void round_row(uint64_t key, int64_t table, int64_t row, int64_t dim, float* values) {
  HWY_DYNAMIC_DISPATCH(round_row_impl)(key, table, row, dim, values);
}

std::vector<std::string> vector_targets() {
  hwy::SetSupportedTargetsForTest(0);  // all
  std::vector<std::string> names;
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) names.push_back(hwy::TargetName(target));
  return names;
}

void use_vector_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);  // all
  for (int64_t target : hwy::SupportedAndGeneratedTargets())
    if (hwy::TargetName(target) == name) return hwy::SetSupportedTargetsForTest(target);
  fail("vector target '", name, "' is not among those of this CPU and program");
}

}  // namespace dlrm
#endif
