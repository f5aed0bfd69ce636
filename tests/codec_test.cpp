#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <optional>
#include <thread>

#include "kernels/bf16.h"
#include "kernels/codecs/codecs.h"
#include "kernels/cpu/vectors.h"
#include "tests/rows.h"

namespace dlrm {
namespace {

using Bytes = std::vector<uint8_t>;

/// The slot, which held other bytes before, or nothing where the row does not fit.
template <class Codec>
std::optional<Bytes> encoded(const Codec& codec, size_t slot_bytes, const std::vector<float>& row) {
  Bytes slot(slot_bytes, 0xa5);
  if (codec.encode(Solo{}, row.data(), int64_t(row.size()), reinterpret_cast<std::byte*>(slot.data()))) return slot;
  return {};
}
std::optional<Bytes> pfor(const std::vector<float>& row, DType dtype = DType::fp32) {
  return encoded(PforCodec{dtype}, PforCodec::slot_bytes(dtype, int64_t(row.size())), row);
}

template <class Codec>
std::vector<float> decoded(const Codec& codec, const Bytes& slot, int64_t dim) {
  std::vector<float> row(size_t(dim), std::numeric_limits<float>::quiet_NaN());
  codec.decode(Solo{}, reinterpret_cast<const std::byte*>(slot.data()), dim, row.data());
  return row;
}

/// Calls f(fit, codec) for each codec: one that learnt nothing, one fitted to normal rows, one to all kinds of rows.
template <class F>
void with_fitted_codecs(int64_t dim, F f) {
  for (DType dtype : kDTypes) {
    std::vector<float> normal, all;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const std::vector<float> row = as_stored(dtype, normal_row(dim, 100 + seed));
      normal.insert(normal.end(), row.begin(), row.end());
    }
    for (const NamedRow& row : trying_rows(dim, dtype)) all.insert(all.end(), row.values.begin(), row.values.end());
    for (CodecId id : kCodecs) {
      for (const std::vector<float>& sample : {std::vector<float>(), normal, all}) {
        const CodecFit fit = fit_codec(id, dtype, sample.data(), int64_t(sample.size()) / dim, dim);
        with_codec(id, fit.params(), [&](auto codec) { f(fit, codec); });
      }
    }
  }
}

/// pfor as its documentation says, bit by bit.
std::optional<Bytes> naive_pfor(const std::vector<float>& row, DType dtype) {
  const size_t dim = row.size(), d = (dim + 15) / 16 * 16;
  std::vector<uint32_t> bits(d);
  uint32_t base = 0;
  for (size_t i = 0; i < dim; ++i) {
    bits[i] = std::bit_cast<uint32_t>(row[i]);
    base = std::max(base, bits[i] >> 23 & 255);
  }
  Bytes slot(dtype == DType::fp32 ? d * 7 / 2 : d * 3 / 2, 0);
  std::vector<uint32_t> nibbles;
  for (size_t i = 0; i < dim; ++i) {
    const uint32_t exponent = bits[i] >> 23 & 255, code = std::min(base - exponent, 7u);
    slot[i] = uint8_t((bits[i] >> 31) << 7 | (bits[i] >> 16 & 0x7f));
    for (size_t b = 0; b < 3; ++b) slot[d + (3 * i + b) / 8] |= uint8_t((code >> b & 1) << (3 * i + b) % 8);
    if (dtype == DType::fp32) {
      slot[d * 3 / 2 + 2 * i] = uint8_t(bits[i]);
      slot[d * 3 / 2 + 2 * i + 1] = uint8_t(bits[i] >> 8);
    }
    if (code < 7) continue;
    if (exponent != 0 && base - exponent > 21) return {};
    nibbles.push_back(exponent == 0 ? 15 : base - exponent - 7);
  }
  if (nibbles.size() > std::min<size_t>(2 * (d / 8 - 2), 254)) return {};
  uint8_t* tail = &slot[d + 3 * d / 8];
  tail[0] = uint8_t(base);
  tail[1] = uint8_t(nibbles.size());
  for (size_t k = 0; k < nibbles.size(); ++k) tail[2 + k / 2] |= uint8_t(nibbles[k] << 4 * (k % 2));
  return slot;
}

TEST(CodecTest, DecodedRowsHaveTheBitsOfEncodedOnes) {
  for (int64_t dim : kTryingDims) {
    with_fitted_codecs(dim, [&](const CodecFit& fit, const auto& codec) {
      for (const NamedRow& row : trying_rows(dim, fit.dtype)) {
        const auto slot = encoded(codec, fit.slot_bytes, row.values);
        if (!slot) continue;
        EXPECT_TRUE(same_bits(decoded(codec, *slot, dim), row.values)) << codec.name << " " << row.name << ", " << dim;
        EXPECT_FALSE(codec.is_overflow(reinterpret_cast<const std::byte*>(slot->data()), dim));
      }
    });
  }
}

TEST(PforTest, SlotsAreAsDocumented) {
  for (DType dtype : kDTypes)
    for (int64_t dim : kTryingDims)
      for (const NamedRow& row : trying_rows(dim, dtype))
        EXPECT_EQ(pfor(row.values, dtype), naive_pfor(row.values, dtype)) << row.name << ", " << dim;
}

/// Calls f for each instruction set that this CPU can run.
template <class F>
void with_vector_targets(F f) {
  const std::vector<std::string> targets = vector_targets();
  for (const std::string& target : targets) {
    use_vector_target(target);
    f(target);
  }
  use_vector_target(targets.front());
}

TEST(PforTest, EveryInstructionSetMakesTheSameBytes) {
  with_vector_targets([&](const std::string& target) {
    for (DType dtype : kDTypes) {
      for (int64_t dim : kTryingDims) {
        for (const NamedRow& row : trying_rows(dim, dtype)) {
          const auto slot = pfor(row.values, dtype);
          EXPECT_EQ(slot, naive_pfor(row.values, dtype)) << target << ", " << row.name << ", " << dim;
          if (!slot) continue;
          EXPECT_TRUE(same_bits(decoded(PforCodec{dtype}, *slot, dim), row.values)) << target;
        }
      }
    }
  });
}

TEST(Bf16Test, EveryInstructionSetRoundsAlike) {
  with_vector_targets([&](const std::string& target) {
    for (int64_t dim : kTryingDims) {
      const int64_t row_number = (int64_t(1) << 35) + 3;
      for (const NamedRow& row : trying_rows(dim)) {
        std::vector<float> expected = row.values, found = row.values;
        for (int64_t i = 0; i < dim; ++i) {
          const uint32_t word = rounding_bits(77, 5, row_number, i / 8).word[i % 8 / 2];
          expected[size_t(i)] = stochastically_rounded(expected[size_t(i)], word >> (i % 2 * 16) & 0xffff);
        }
        round_row(77, 5, row_number, dim, found.data());
        EXPECT_TRUE(same_bits(found, expected)) << target << ", " << row.name << ", " << dim;
      }
    }
  });
}

TEST(PforTest, SlotOf128ElementsHas448BytesOr192OfBf16) {
  EXPECT_EQ(PforCodec::slot_bytes(DType::fp32, 128), 448u);
  EXPECT_EQ(PforCodec::slot_bytes(DType::fp32, 64), 224u);
  EXPECT_EQ(PforCodec::slot_bytes(DType::fp32, 1), 56u);
  EXPECT_EQ(PforCodec::slot_bytes(DType::bf16, 128), 192u);
  EXPECT_EQ(PforCodec::slot_bytes(DType::bf16, 64), 96u);
  EXPECT_EQ(PforCodec::slot_bytes(DType::bf16, 1), 24u);
}

TEST(PforTest, AnFp32SlotBeginsWithTheBf16SlotOfItsUpperHalves) {
  std::vector<float> row = normal_row(128, 1), upper = row;
  for (float& value : upper) value = truncated(value);
  const auto whole = pfor(row), begin = pfor(upper, DType::bf16);
  ASSERT_TRUE(whole && begin);
  EXPECT_TRUE(std::equal(begin->begin(), begin->end(), whole->begin()));
}

TEST(PforTest, ManyNormalRowsFit) {
  int fit = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) fit += pfor(normal_row(128, seed)).has_value();
  EXPECT_GE(fit, 998);
}

/// 128 elements with exponent `high`, the first `count` of them with exponent `low` instead.
std::vector<float> with_exceptions(size_t count, uint32_t high, uint32_t low) {
  std::vector<float> row(128, std::bit_cast<float>(high << 23 | 5));
  for (size_t i = 0; i < count; ++i) row[i] = std::bit_cast<float>(low << 23 | 7);
  return row;
}

TEST(PforTest, ARowFitsWithAsManyExceptionsAsTheTailHolds) {
  for (uint32_t low : {0u, 93u, 90u}) {
    for (size_t count : {1, 2, 27, 28}) {
      const std::vector<float> row = with_exceptions(count, 100, low);
      const auto slot = pfor(row);
      ASSERT_TRUE(slot);
      EXPECT_TRUE(same_bits(decoded(PforCodec{}, *slot, 128), row));
    }
    EXPECT_FALSE(pfor(with_exceptions(29, 100, low)));
  }
}

TEST(PforTest, AnExceptionReaches21BelowTheBaseOrTheExponentZero) {
  EXPECT_TRUE(pfor(with_exceptions(1, 100, 79)));
  EXPECT_FALSE(pfor(with_exceptions(1, 100, 78)));
  EXPECT_TRUE(pfor(with_exceptions(1, 254, 0)));
  EXPECT_TRUE(pfor(with_exceptions(1, 15, 0)));  // 15 below, yet written as exponent 0
}

TEST(PforTest, OverflowSlotHoldsItsIndexAndZeros) {
  Bytes slot(PforCodec::slot_bytes(DType::fp32, 32), 0xa5);
  std::byte* bytes = reinterpret_cast<std::byte*>(slot.data());
  PforCodec{}.write_overflow(Solo{}, 0x01020304, 32, bytes);
  EXPECT_TRUE(PforCodec::is_overflow(bytes, 32));
  EXPECT_EQ(PforCodec::overflow_index(bytes), 0x01020304u);
  Bytes expected(slot.size(), 0);
  expected[0] = 4, expected[1] = 3, expected[2] = 2, expected[3] = 1;
  expected[32 + 12 + 1] = 255;
  EXPECT_EQ(slot, expected);
}

// Groups --------------------------------------------------------------------------------------------------------------

/// 32 threads that work like a warp.
class ThreadGroup {
 public:
  static constexpr int kSize = 32;
  struct Shared {
    std::barrier<> barrier{kSize};
    int64_t values[kSize];
  };
  ThreadGroup(Shared& shared, int lane) : shared_(&shared), lane_(lane) {}

  int lane() const { return lane_; }
  static constexpr int size() { return kSize; }
  void sync() const { shared_->barrier.arrive_and_wait(); }
  void set_bits(uint32_t* word, uint32_t bits) const { std::atomic_ref(*word).fetch_or(bits); }
  uint32_t max(uint32_t value) const {
    return uint32_t(reduce(value, 0, kSize, [](int64_t a, int64_t b) { return std::max(a, b); }));
  }
  int sum(int value) const { return int(reduce(value, 0, kSize, std::plus())); }
  bool all(bool value) const {
    return reduce(value, 1, kSize, [](int64_t a, int64_t b) { return a & b; }) != 0;
  }
  int exclusive_sum(int value, int& total) const {
    total = sum(value);
    return int(reduce(value, 0, lane_, std::plus()));
  }

 private:
  template <class F>
  int64_t reduce(int64_t value, int64_t start, int lanes, F f) const {
    shared_->values[lane_] = value;
    sync();
    for (int lane = 0; lane < lanes; ++lane) start = f(start, shared_->values[lane]);
    sync();
    return start;
  }

  Shared* shared_;
  int lane_;
};

template <class F>
void in_group(F f) {
  ThreadGroup::Shared shared;
  std::vector<std::thread> threads;
  for (int lane = 0; lane < ThreadGroup::kSize; ++lane)
    threads.emplace_back([&, lane] { f(ThreadGroup(shared, lane)); });
  for (std::thread& thread : threads) thread.join();
}

TEST(CodecTest, AGroupOf32MakesTheSameBytes) {
  for (int64_t dim : {3, 64, 130, 1028}) {
    with_fitted_codecs(dim, [&](const CodecFit& fit, const auto& codec) {
      for (const NamedRow& row : trying_rows(dim, fit.dtype)) {
        Bytes slot(fit.slot_bytes, 0xa5);
        std::byte* bytes = reinterpret_cast<std::byte*>(slot.data());
        std::vector<float> back(row.values.size());
        in_group([&](ThreadGroup group) {
          if (!codec.encode(group, row.values.data(), dim, bytes)) return codec.write_overflow(group, 7, dim, bytes);
          group.sync();
          codec.decode(group, bytes, dim, back.data());
        });
        const auto alone = encoded(codec, fit.slot_bytes, row.values);
        EXPECT_EQ(!alone, codec.is_overflow(bytes, dim));
        if (!alone) continue;
        EXPECT_EQ(slot, *alone) << codec.name << " " << row.name << ", " << dim;
        EXPECT_TRUE(same_bits(back, row.values)) << codec.name << " " << row.name << ", " << dim;
      }
    });
  }
}

// Invariant bit packing -----------------------------------------------------------------------------------------------

/// A slot of ibp as its documentation says, bit by bit.
std::optional<Bytes> naive_ibp(const CodecFit& fit, const std::vector<float>& row) {
  std::vector<uint32_t> words;
  for (size_t i = 0; i < row.size(); ++i) {
    const uint32_t x = std::bit_cast<uint32_t>(row[i]);
    if (fit.dtype == DType::fp32) {
      words.push_back(x);
    } else if (i % 2 == 0) {
      words.push_back(x >> 16);
    } else {
      words.back() |= x;
    }
  }
  const size_t n = words.size(), bitmap = (n + 31) / 32 * 4;
  Bytes slot(fit.slot_bytes, 0);
  size_t bit = 0;
  const auto put = [&](uint32_t value) {
    const size_t byte =
        4 + bitmap + bit / 32 * 4 + 3 - bit % 32 / 8;  // the first bit of a little-endian word is its highest
    if (byte >= slot.size()) return false;
    slot[byte] |= uint8_t(value << (7 - bit % 8));
    ++bit;
    return true;
  };
  for (size_t i = 0; i < n; ++i) {
    const uint32_t x = words[i], mask = fit.masks[i];
    const bool takes_part = (x & mask) == fit.masks[n + i];
    if (takes_part) slot[4 + i / 8] |= uint8_t(1u << (i % 8));
    for (int b = 31; b >= 0; --b)
      if (!(takes_part && (mask >> b & 1)) && !put(x >> b & 1)) return {};
  }
  return slot;
}

TEST(IbpTest, SlotsAreAsDocumented) {
  for (DType dtype : kDTypes) {
    for (int64_t dim : kTryingDims) {
      std::vector<float> sample;
      for (uint64_t seed = 0; seed < 200; ++seed) {
        const std::vector<float> row = as_stored(dtype, normal_row(dim, 500 + seed));
        sample.insert(sample.end(), row.begin(), row.end());
      }
      const CodecFit fit = fit_codec(CodecId::ibp, dtype, sample.data(), 200, dim);
      const IbpCodec codec(fit.masks.data(), fit.slot_bytes, dtype);
      int fits = 0;
      for (const NamedRow& row : trying_rows(dim, dtype)) {
        const auto slot = encoded(codec, fit.slot_bytes, row.values);
        EXPECT_EQ(slot, naive_ibp(fit, row.values)) << row.name << ", " << dim;
        fits += slot.has_value();
      }
      EXPECT_GT(fits, 0);
    }
  }
}

/// The fit as the paper has it, over bits one by one.
TEST(IbpTest, MasksAreThoseOfTheThresholdThatSavesMost) {
  const int64_t dim = 5, count = 400;
  std::vector<float> rows;
  for (uint64_t seed = 0; seed < count; ++seed) {
    std::vector<float> row = normal_row(dim, seed);
    row[1] = to_float(to_bf16(row[1]));               // its low bits are always zero
    row[2] = seed % 100 < 83 ? 1.0f : row[2];         // invariant below a threshold of 85 %
    row[4] = std::bit_cast<float>(word_at(seed, 4));  // nothing invariant
    rows.insert(rows.end(), row.begin(), row.end());
  }
  int64_t most = -1;
  std::vector<uint32_t> expected;
  for (int step = 0; step < 6; ++step) {
    const double threshold = 0.70 + 0.05 * step;
    std::vector<uint32_t> masks(size_t(2 * dim));
    int64_t saved = 0;
    for (int64_t j = 0; j < dim; ++j) {
      for (int b = 0; b < 32; ++b) {
        double ones = 0;
        for (int64_t r = 0; r < count; ++r) ones += std::bit_cast<uint32_t>(rows[size_t(r * dim + j)]) >> b & 1;
        if (ones > threshold * count + 1e-9) masks[size_t(j)] |= 1u << b, masks[size_t(dim + j)] |= 1u << b;
        if (ones < (1 - threshold) * count - 1e-9) masks[size_t(j)] |= 1u << b;
      }
      for (int64_t r = 0; r < count; ++r)
        if ((std::bit_cast<uint32_t>(rows[size_t(r * dim + j)]) & masks[size_t(j)]) == masks[size_t(dim + j)])
          saved += std::popcount(masks[size_t(j)]);
    }
    if (saved > most) most = saved, expected = masks;
  }
  EXPECT_EQ(fit_codec(CodecId::ibp, DType::fp32, rows.data(), count, dim).masks, expected);
}

TEST(IbpTest, SlotsHold999OfAThousandRowsOfTheSample) {
  for (int64_t dim : {64, 128}) {
    std::vector<float> rows;
    for (uint64_t seed = 0; seed < 1000; ++seed) {
      const std::vector<float> row = normal_row(dim, seed);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const CodecFit fit = fit_codec(CodecId::ibp, DType::fp32, rows.data(), 1000, dim);
    const IbpCodec codec(fit.masks.data(), fit.slot_bytes, DType::fp32);
    int misfits = 0;
    for (int64_t r = 0; r < 1000; ++r)
      misfits += !encoded(codec, fit.slot_bytes, {&rows[size_t(r * dim)], &rows[size_t(r * dim)] + dim});
    EXPECT_LE(misfits, 1);
    EXPECT_EQ(fit.slot_bytes % 16, 0u);
    EXPECT_LT(fit.slot_bytes, size_t(dim) * sizeof(float));
  }
}

TEST(IbpTest, OverflowSlotHoldsItsIndexPlusOneAndZeros) {
  const IbpCodec codec(nullptr, 32, DType::fp32);
  Bytes slot(32, 0xa5), expected(32, 0);
  codec.write_overflow(Solo{}, 0x01020303, 4, reinterpret_cast<std::byte*>(slot.data()));
  expected[0] = 4, expected[1] = 3, expected[2] = 2, expected[3] = 1;
  EXPECT_EQ(slot, expected);
  EXPECT_TRUE(codec.is_overflow(reinterpret_cast<std::byte*>(slot.data()), 4));
  EXPECT_EQ(codec.overflow_index(reinterpret_cast<std::byte*>(slot.data())), 0x01020303u);
}

TEST(RawTest, ABf16RowIsItsUpperHalvesPaddedTo4Bytes) {
  const RawCodec codec{DType::bf16};
  const std::vector<float> row = {1.0f, -2.0f, std::bit_cast<float>(0x7fc10000)};
  ASSERT_EQ(RawCodec::slot_bytes(DType::bf16, 3), 8u);
  EXPECT_EQ(encoded(codec, 8, row), (Bytes{0x80, 0x3f, 0x00, 0xc0, 0xc1, 0x7f, 0, 0}));
}

TEST(Bf16Test, StochasticRoundingTakesTheUpperNeighbourAsOftenAsTheValueIsNearIt) {
  for (uint32_t bits : {0x3f800000u, 0x3f800001u, 0x3f804000u, 0xbf80c123u, 0x3fffffffu, 0x00000003u, 0x80008000u}) {
    const float value = std::bit_cast<float>(bits), lower = truncated(value),
                upper = std::bit_cast<float>((bits & 0xffff0000) + 0x10000);
    uint32_t up = 0;
    for (uint32_t random = 0; random < 0x10000; ++random) {
      const float found = stochastically_rounded(value, random);
      ASSERT_TRUE(bits_of(found) == bits_of(lower) || bits_of(found) == bits_of(upper));
      up += bits_of(found) == bits_of(upper);
    }
    EXPECT_EQ(up, bits & 0xffff) << bits;
  }
  for (uint32_t random : {0u, 0xffffu}) {
    EXPECT_EQ(stochastically_rounded(INFINITY, random), INFINITY);
    EXPECT_EQ(bits_of(stochastically_rounded(std::bit_cast<float>(0xffffffffu), random)), 0x7fff0000u);
  }
}

TEST(ChooseCodecTest, TakesTheSmallestSlots) {
  const int64_t dim = 128, count = 500;
  std::vector<float> normal, rounded_values, random_bits;
  for (uint64_t seed = 0; seed < count; ++seed) {
    for (float x : normal_row(dim, seed)) {
      normal.push_back(x);
      rounded_values.push_back(to_float(to_bf16(x)));
      random_bits.push_back(std::bit_cast<float>(word_at(seed, int64_t(random_bits.size()))));
    }
  }
  for (bool training : {false, true}) {
    EXPECT_EQ(choose_codec(training, DType::fp32, normal.data(), count, dim).codec, CodecId::pfor);
    EXPECT_EQ(choose_codec(training, DType::fp32, random_bits.data(), count, dim).codec, CodecId::raw);
  }
  EXPECT_EQ(choose_codec(true, DType::fp32, rounded_values.data(), count, dim).codec, CodecId::pfor);
  const CodecFit found = choose_codec(false, DType::fp32, rounded_values.data(), count, dim);
  EXPECT_EQ(found.codec, CodecId::ibp);
  EXPECT_LE(found.slot_bytes, dim * sizeof(float) / 2);  // half of each element is invariant, and exponent bits
}

TEST(BitsTest, DepositUndoesExtract) {
  for (int64_t i = 0; i < 2000; ++i) {
    const uint32_t x = word_at(1, i), keep = i == 0 ? 0 : i == 1 ? 0xffffffff : word_at(2, i) & word_at(3, i % 7);
    uint32_t expected = 0;
    for (int b = 0, at = 0; b < 32; ++b)
      if (keep >> b & 1) expected |= (x >> b & 1) << at++;
    ASSERT_EQ(extract_bits(x, keep), expected);
    ASSERT_EQ(deposit_bits(expected, keep), x & keep);
  }
}

}  // namespace
}  // namespace dlrm
