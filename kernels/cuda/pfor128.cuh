// pfor for rows of 128 elements, half a warp a row, eight consecutive elements in each lane's registers; the two halves
// work on different rows. Same bytes as PforCodec. The parts of a slot in words: A 0..31, C 32..43, T 44..47, and of
// fp32 rows B 48..111.
//
// Against a whole warp a row: 634 -> 330 instructions for an update, 155 -> 80 for a lookup (H200, ncu).
#pragma once
#include <cstdint>

#include "kernels/codecs/pfor.h"
#include "kernels/cuda/warp.cuh"

namespace dlrm::cuda {

/// Eight consecutive elements of a row of 128: those from 8 * HalfWarp::lane() on.
struct Eight {
  float4 low, high;
};

struct Pfor128 {
  static constexpr int kCodes = 32, kTail = 44, kLow = 48;  // words
  static constexpr int kMostExceptions = 28;
  static constexpr uint32_t kOverflowTail = 0xff00;

  /// A lane's share of a slot, loaded at once.
  struct Words {
    uint2 a;                  // sign and top mantissa bits of eight elements
    uint32_t codes0, codes1;  // the words that hold the lane's 24 code bits
    uint32_t tail;            // base, exception count, the first four exceptions
    uint4 low;                // low mantissa bits of eight elements
  };

  /// kUpper: without the low mantissa bits.
  template <bool kUpper = false>
  __device__ static Words load(const uint32_t* slot, int lane) {
    const int word = kCodes + 24 * lane / 32;
    Words words{reinterpret_cast<const uint2*>(slot)[lane], slot[word], slot[word + 1], slot[kTail]};
    if constexpr (!kUpper) words.low = reinterpret_cast<const uint4*>(slot + kLow)[lane];
    return words;
  }

  __device__ static bool is_overflow(uint32_t tail) { return (tail & 0xff00) == kOverflowTail; }

  /// The upper halves of a lane's elements, two in a word. All lanes of the warp must call it; `valid` says whether
  /// this half has a slot that is no overflow slot, without which the result means nothing.
  __device__ static uint4 decode_upper(const Words& words, const uint32_t* slot, bool valid, HalfWarp half) {
    // One code in each of eight nibbles: selectors of a table of eight bytes, the exponents base .. base - 7. Where
    // base is below 7 the larger differences borrow, but no code names them.
    uint32_t codes = __funnelshift_r(words.codes0, words.codes1, 24 * half.lane() % 32);
    codes = (codes & 0x00000fff) | (codes << 4 & 0xfffff000);
    codes = (codes & 0x003f003f) | (codes << 2 & 0xffc0ffc0);
    const uint32_t nibbles = ((codes & 0x07070707) | (codes << 1 & 0xf8f8f8f8)) & 0x77777777;
    const uint32_t base = words.tail & 255, bases = base * 0x01010101u;
    const uint32_t first = bases - 0x03020100u, last = bases - 0x07060504u;
    uint32_t exponents0 = __byte_perm(first, last, nibbles), exponents1 = __byte_perm(first, last, nibbles >> 16);
    const bool exceptional = valid && (words.tail & 0xff00) != 0;
    if (__any_sync(kAllLanes, exceptional)) {
      uint32_t sevens = exceptional ? nibbles & nibbles >> 1 & nibbles >> 2 & 0x11111111 : 0;
      uint32_t at = 4 + half.exclusive_sum(__popc(sevens));  // base and count are four nibbles
      for (; sevens != 0; sevens &= sevens - 1, ++at) {
        const uint32_t element = uint32_t(__ffs(int(sevens)) - 1) / 4;
        const uint32_t word = at < 8 ? words.tail : slot[kTail + at / 8];
        const uint32_t nibble = word >> (4 * (at % 8)) & 15;
        const uint32_t exponent = nibble == 15 ? 0 : base - 7 - nibble;
        const uint32_t change = (exponent ^ (base - 7)) & 255;  // the table said base - 7
        exponents0 ^= shifted(change, 8 * element);
        exponents1 ^= shifted(change, 8 * element - 32);
      }
    }
    const uint2 two = join(words.a.x, exponents0), others = join(words.a.y, exponents1);
    return make_uint4(two.x, two.y, others.x, others.y);
  }

  __device__ static Eight decode(const Words& words, const uint32_t* slot, bool valid, HalfWarp half) {
    const uint4 upper = decode_upper(words, slot, valid, half);
    return {make_float4(element(words.low.x, upper.x, 0x5410), element(words.low.x, upper.x, 0x7632),
                        element(words.low.y, upper.y, 0x5410), element(words.low.y, upper.y, 0x7632)),
            make_float4(element(words.low.z, upper.z, 0x5410), element(words.low.z, upper.z, 0x7632),
                        element(words.low.w, upper.w, 0x5410), element(words.low.w, upper.w, 0x7632))};
  }

  /// What a lane writes of a slot.
  struct Encoded {
    uint2 a;
    uint32_t code_or_tail;  // at word(lane)
    uint4 low;
    bool fits;  // the same in every lane of the half

    __device__ static int word(int lane) {
      return lane % 4 < 3 ? kCodes + 3 * (lane / 4) + lane % 4 : kTail + lane / 4;
    }
    template <DType kDType>
    __device__ void store(uint32_t* slot, int lane) const {
      reinterpret_cast<uint2*>(slot)[lane] = a;
      slot[word(lane)] = code_or_tail;
      if constexpr (kDType == DType::fp32) reinterpret_cast<uint4*>(slot + kLow)[lane] = low;
    }
  };

  /// All lanes of the warp must call it.
  __device__ static Encoded encode(const Eight& row, HalfWarp half) {
    const uint4 x = bits(row.low), y = bits(row.high);
    const uint32_t top0 = __byte_perm(x.x, x.y, 0x7632), top1 = __byte_perm(x.z, x.w, 0x7632),
                   top2 = __byte_perm(y.x, y.y, 0x7632), top3 = __byte_perm(y.z, y.w, 0x7632);
    const uint32_t high0 = __byte_perm(top0, top1, 0x7531), next0 = __byte_perm(top0, top1, 0x6420),
                   high1 = __byte_perm(top2, top3, 0x7531), next1 = __byte_perm(top2, top3, 0x6420);
    const uint32_t exponents0 = (high0 << 1 & 0xfefefefeu) | (next0 >> 7 & 0x01010101u),
                   exponents1 = (high1 << 1 & 0xfefefefeu) | (next1 >> 7 & 0x01010101u);
    uint32_t largest = __vmaxu2(__vmaxu2(exponents0 & 0x00ff00ff, exponents0 >> 8 & 0x00ff00ff),
                                __vmaxu2(exponents1 & 0x00ff00ff, exponents1 >> 8 & 0x00ff00ff));
    largest = max(largest & 0xffff, largest >> 16);
    const uint32_t base = half.max(largest);
    // No byte borrows: base is the largest.
    const uint32_t deltas0 = base * 0x01010101u - exponents0, deltas1 = base * 0x01010101u - exponents1;
    const uint32_t codes0 = at_most_seven(deltas0), codes1 = at_most_seven(deltas1);

    Encoded result;
    result.fits = true;
    uint32_t tail = half.lane() == 3 ? base : 0;  // the word that this lane would write, were it of the tail
    const uint32_t sevens = sevens_of(codes0) | sevens_of(codes1) << 4;  // a bit for each element
    if (__any_sync(kAllLanes, sevens != 0)) {
      const uint32_t count = __popc(sevens), at = 4 + half.exclusive_sum(count);
      const uint32_t total = half.broadcast(at + count, 15) - 4;
      uint32_t words[4] = {0, 0, 0, 0};
      bool fits = total <= kMostExceptions;
      const bool many = __any_sync(kAllLanes, total > 4);  // more than the first word holds
      uint32_t place = at;
      for (uint32_t rest = sevens; rest != 0; rest &= rest - 1, ++place) {
        const uint32_t exponent = __byte_perm(exponents0, exponents1, __ffs(int(rest)) - 1) & 255;
        const uint32_t delta = base - exponent;
        fits = fits && (exponent == 0 || delta <= 21);
        const uint32_t nibble = (exponent == 0 ? 15 : delta - 7) << (4 * (place % 8));
        if (many) {
#pragma unroll
          for (uint32_t w = 0; w < 4; ++w) words[w] |= place / 8 == w ? nibble : 0;
        } else {
          words[0] |= nibble;
        }
      }
      result.fits = half.all(fits);
      const uint32_t first = half.any_bits(words[0]);
      tail = half.lane() == 3 ? base | total << 8 | first : 0;
      if (many) {
#pragma unroll
        for (int w = 1; w < 4; ++w) {
          const uint32_t word = half.any_bits(words[w]);
          if (half.lane() / 4 == w) tail = word;
        }
      }
    }

    // Four lanes have 96 bits of codes, three words.
    const uint32_t packed = pack(codes0) | pack(codes1) << 12, next = half.down(packed);
    const int shift = 8 * (half.lane() % 4);
    const uint32_t code_word = packed >> shift | (shift < 24 ? next << (24 - shift) : 0);
    result.code_or_tail = half.lane() % 4 < 3 ? code_word : tail;
    result.a = make_uint2((high0 & 0x80808080u) | (next0 & 0x7f7f7f7fu), (high1 & 0x80808080u) | (next1 & 0x7f7f7f7fu));
    result.low = make_uint4(__byte_perm(x.x, x.y, 0x5410), __byte_perm(x.z, x.w, 0x5410), __byte_perm(y.x, y.y, 0x5410),
                            __byte_perm(y.z, y.w, 0x5410));
    return result;
  }

  __device__ static Encoded overflow(uint32_t entry, int lane) {
    return {make_uint2(lane == 0 ? entry : 0, 0), lane == 3 ? kOverflowTail : 0, make_uint4(0, 0, 0, 0), true};
  }

 private:
  __device__ static float element(uint32_t low, uint32_t upper, uint32_t halves) {
    return __uint_as_float(__byte_perm(low, upper, halves));
  }
  __device__ static uint4 bits(float4 v) {
    return make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w));
  }

  /// Upper halves of four elements from their bytes of A and their exponents.
  __device__ static uint2 join(uint32_t a, uint32_t exponents) {
    // Bytes of four elements at once: sign and seven exponent bits; the last exponent bit and seven mantissa bits.
    const uint32_t high = (a & 0x80808080u) | (exponents >> 1 & 0x7f7f7f7fu);
    const uint32_t next = (a & 0x7f7f7f7fu) | (exponents << 7 & 0x80808080u);
    return make_uint2(__byte_perm(next, high, 0x5140), __byte_perm(next, high, 0x7362));
  }

  /// value << shift; 0 where that is 32 or more.
  __device__ static uint32_t shifted(uint32_t value, uint32_t shift) {
    uint32_t result;
    asm("shl.b32 %0, %1, %2;" : "=r"(result) : "r"(value), "r"(shift));
    return result;
  }

  /// A bit for each byte that is 7, of bytes 0 .. 7.
  __device__ static uint32_t sevens_of(uint32_t codes) {
    return (codes & codes >> 1 & codes >> 2 & 0x01010101u) * 0x10204080u >> 28;
  }

  /// min(byte, 7) of each byte.
  __device__ static uint32_t at_most_seven(uint32_t bytes) {
    const uint32_t upper = bytes & 0xf8f8f8f8u;
    const uint32_t large = (((upper & 0x7f7f7f7fu) + 0x7f7f7f7fu) | upper) & 0x80808080u;  // where upper is not 0
    return (bytes & 0x07070707u) | (large >> 7) * 7;
  }

  /// The low 3 bits of each byte, 12 bits.
  __device__ static uint32_t pack(uint32_t codes) {
    const uint32_t pairs = (codes & 0x00070007) | (codes >> 5 & 0x00380038);
    return (pairs | pairs >> 10) & 0xfff;
  }
};

}  // namespace dlrm::cuda
