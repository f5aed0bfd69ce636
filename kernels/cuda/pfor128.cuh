// pfor for rows of 128 elements, a warp a row, four consecutive elements in each lane's registers. Same bytes as
// PforCodec. The parts of a slot in words: A 0..31, C 32..43, T 44..47, B 48..111.
#pragma once
#include <cstdint>

#include "kernels/codecs/pfor.h"
#include "kernels/cuda/warp.cuh"

namespace dlrm::cuda {

struct Pfor128 {
  static constexpr int kCodes = 32, kTail = 44, kLow = 48;  // words
  static constexpr int kMostExceptions = 28;

  /// A lane's share of a slot, loaded at once.
  struct Words {
    uint32_t a;               // sign and top mantissa bits of four elements
    uint32_t codes0, codes1;  // the words that hold the lane's 12 code bits
    uint32_t tail;            // base, exception count
    uint2 low;                // low mantissa bits of four elements
  };

  __device__ static Words load(const uint32_t* slot, int lane) {
    const int word = kCodes + 12 * lane / 32;
    return {slot[lane], slot[word], slot[word + 1], slot[kTail],
            *reinterpret_cast<const uint2*>(slot + kLow + 2 * lane)};
  }

  __device__ static bool is_overflow(const Words& words) { return (words.tail >> 8 & 255) == 255; }

  __device__ static float4 decode(const Words& words, const uint32_t* slot, int lane) {
    const uint32_t codes = __funnelshift_r(words.codes0, words.codes1, 12 * lane % 32);
    // One code in each of four nibbles: the selector of a table of eight bytes, the exponents base .. base - 7. Where
    // base is below 7 the larger differences borrow, but no code names them.
    const uint32_t nibbles = (codes & 0x7) | (codes << 1 & 0x70) | (codes << 2 & 0x700) | (codes << 3 & 0x7000);
    const uint32_t base = words.tail & 255, bases = base * 0x01010101u;
    uint32_t exponents = __byte_perm(bases - 0x03020100u, bases - 0x07060504u, nibbles);
    if (words.tail & 0xff00) {
      uint32_t sevens = nibbles & nibbles >> 1 & nibbles >> 2 & 0x1111;
      const uint32_t count = __popc(sevens), before = (1u << lane) - 1;
      uint32_t exception = __popc(__ballot_sync(Warp::kAll, count & 1) & before) +
                           2 * __popc(__ballot_sync(Warp::kAll, count & 2) & before) +
                           4 * __popc(__ballot_sync(Warp::kAll, count & 4) & before);
      for (; sevens != 0; sevens &= sevens - 1, ++exception) {
        const int shift = 2 * (__ffs(int(sevens)) - 1);  // of the element's byte
        const uint32_t at = exception + 4;               // base and count are four nibbles
        const uint32_t nibble = slot[kTail + at / 8] >> (4 * (at % 8)) & 15;
        const uint32_t exponent = nibble == 15 ? 0 : base - 7 - nibble;
        exponents = (exponents & ~(0xffu << shift)) | exponent << shift;
      }
    }
    // Bytes of four elements at once: sign and seven exponent bits; the last exponent bit and seven mantissa bits.
    const uint32_t high = (words.a & 0x80808080u) | (exponents >> 1 & 0x7f7f7f7fu);
    const uint32_t next = (words.a & 0x7f7f7f7fu) | (exponents << 7 & 0x80808080u);
    const uint32_t top01 = __byte_perm(next, high, 0x5140), top23 = __byte_perm(next, high, 0x7362);
    return make_float4(__uint_as_float(__byte_perm(words.low.x, top01, 0x5410)),
                       __uint_as_float(__byte_perm(words.low.x, top01, 0x7632)),
                       __uint_as_float(__byte_perm(words.low.y, top23, 0x5410)),
                       __uint_as_float(__byte_perm(words.low.y, top23, 0x7632)));
  }

  /// Writes the slot if the row fits. The same answer in every lane.
  __device__ static bool encode(float4 row, uint32_t* slot, int lane) {
    const uint32_t x0 = __float_as_uint(row.x), x1 = __float_as_uint(row.y), x2 = __float_as_uint(row.z),
                   x3 = __float_as_uint(row.w);
    const uint32_t top01 = __byte_perm(x0, x1, 0x7632), top23 = __byte_perm(x2, x3, 0x7632);
    const uint32_t high = __byte_perm(top01, top23, 0x7531), next = __byte_perm(top01, top23, 0x6420);
    const uint32_t exponents = (high << 1 & 0xfefefefeu) | (next >> 7 & 0x01010101u);
    const uint32_t largest01 = max(exponents & 255, exponents >> 8 & 255);
    const uint32_t largest23 = max(exponents >> 16 & 255, exponents >> 24);
    const uint32_t base = __reduce_max_sync(Warp::kAll, max(largest01, largest23));
    const uint32_t deltas = base * 0x01010101u - exponents;  // no byte borrows: base is the largest
    const uint32_t code = __vminu4(deltas, 0x07070707u);

    uint32_t sevens = code & code >> 1 & code >> 2 & 0x01010101u;
    uint32_t tail[4] = {base, 0, 0, 0};
    if (__any_sync(Warp::kAll, sevens != 0)) {
      const uint32_t count = __popc(sevens), before = (1u << lane) - 1;
      const uint32_t ones = __ballot_sync(Warp::kAll, count & 1), twos = __ballot_sync(Warp::kAll, count & 2),
                     fours = __ballot_sync(Warp::kAll, count & 4);
      const uint32_t total = __popc(ones) + 2 * __popc(twos) + 4 * __popc(fours);
      uint32_t at = 4 + __popc(ones & before) + 2 * __popc(twos & before) + 4 * __popc(fours & before);
      bool fits = total <= kMostExceptions;
      uint32_t words[4] = {0, 0, 0, 0};
      for (; sevens != 0; sevens &= sevens - 1, ++at) {
        const int shift = __ffs(int(sevens)) - 1;
        const uint32_t exponent = exponents >> shift & 255, delta = deltas >> shift & 255;
        fits = fits && (exponent == 0 || delta <= 21);
        const uint32_t nibble = (exponent == 0 ? 15 : delta - 7) << (4 * (at % 8));
#pragma unroll
        for (uint32_t w = 0; w < 4; ++w) words[w] |= at / 8 == w ? nibble : 0;
      }
      if (!__all_sync(Warp::kAll, fits)) return false;
#pragma unroll
      for (int w = 0; w < 4; ++w) tail[w] |= __reduce_or_sync(Warp::kAll, words[w]);
      tail[0] |= total << 8;
    }

    const uint32_t packed = (code & 7) | (code >> 5 & 0x38) | (code >> 10 & 0x1c0) | (code >> 15 & 0xe00);
    // Word w of C holds bits 32 w .. 32 w + 31 of the string of 12-bit pieces: at most four lanes' pieces.
    const int word = min(lane, 11), first = 32 * word / 12;
    uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t piece = __shfl_sync(Warp::kAll, packed, (first + i) & 31);
      const int shift = 12 * (first + i) - 32 * word;
      if (first + i < 32 && shift < 32) codes |= shift >= 0 ? piece << shift : piece >> -shift;
    }
    slot[lane] = (high & 0x80808080u) | (next & 0x7f7f7f7fu);
    if (lane < 12) slot[kCodes + lane] = codes;
    if (lane >= 12 && lane < 16)
      slot[kCodes + lane] = lane == 12 ? tail[0] : lane == 13 ? tail[1] : lane == 14 ? tail[2] : tail[3];
    *reinterpret_cast<uint2*>(slot + kLow + 2 * lane) =
        make_uint2(__byte_perm(x0, x1, 0x5410), __byte_perm(x2, x3, 0x5410));
    return true;
  }
};

}  // namespace dlrm::cuda
