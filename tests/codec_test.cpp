#include <gtest/gtest.h>

#include <barrier>
#include <optional>
#include <thread>

#include "kernels/codecs/codecs.h"
#include "tests/rows.h"

namespace dlrm {
namespace {

using Bytes = std::vector<uint8_t>;

/// The slot, which held other bytes before, or nothing where the row does not fit.
template <class Codec>
std::optional<Bytes> encoded(const std::vector<float>& row) {
  Bytes slot(Codec::slot_bytes(int64_t(row.size())), 0xa5);
  if (Codec::encode(Solo{}, row.data(), int64_t(row.size()), reinterpret_cast<std::byte*>(slot.data()))) return slot;
  return {};
}

template <class Codec>
std::vector<float> decoded(const Bytes& slot, int64_t dim) {
  std::vector<float> row(size_t(dim), std::numeric_limits<float>::quiet_NaN());
  Codec::decode(Solo{}, reinterpret_cast<const std::byte*>(slot.data()), dim, row.data());
  return row;
}

/// pfor as its documentation says, bit by bit.
std::optional<Bytes> naive_pfor(const std::vector<float>& row) {
  const size_t dim = row.size(), d = (dim + 15) / 16 * 16;
  std::vector<uint32_t> bits(d);
  uint32_t base = 0;
  for (size_t i = 0; i < dim; ++i) {
    bits[i] = std::bit_cast<uint32_t>(row[i]);
    base = std::max(base, bits[i] >> 23 & 255);
  }
  Bytes slot(d * 7 / 2, 0);
  std::vector<uint32_t> nibbles;
  for (size_t i = 0; i < dim; ++i) {
    const uint32_t exponent = bits[i] >> 23 & 255, code = std::min(base - exponent, 7u);
    slot[i] = uint8_t((bits[i] >> 31) << 7 | (bits[i] >> 16 & 0x7f));
    for (size_t b = 0; b < 3; ++b) slot[d + (3 * i + b) / 8] |= uint8_t((code >> b & 1) << (3 * i + b) % 8);
    slot[d * 3 / 2 + 2 * i] = uint8_t(bits[i]);
    slot[d * 3 / 2 + 2 * i + 1] = uint8_t(bits[i] >> 8);
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
  for (CodecId id : kCodecs) {
    with_codec(id, [&]<class Codec>(Codec) {
      for (int64_t dim : kTryingDims) {
        for (const NamedRow& row : trying_rows(dim)) {
          const auto slot = encoded<Codec>(row.values);
          if (!slot) continue;
          EXPECT_TRUE(same_bits(decoded<Codec>(*slot, dim), row.values))
              << Codec::name << " " << row.name << ", " << dim;
          EXPECT_FALSE(Codec::is_overflow(reinterpret_cast<const std::byte*>(slot->data()), dim));
        }
      }
    });
  }
}

TEST(PforTest, SlotsAreAsDocumented) {
  for (int64_t dim : kTryingDims)
    for (const NamedRow& row : trying_rows(dim))
      EXPECT_EQ(encoded<PforCodec>(row.values), naive_pfor(row.values)) << row.name << ", " << dim;
}

TEST(PforTest, SlotOf128ElementsHas448Bytes) {
  EXPECT_EQ(PforCodec::slot_bytes(128), 448u);
  EXPECT_EQ(PforCodec::slot_bytes(64), 224u);
  EXPECT_EQ(PforCodec::slot_bytes(1), 56u);
}

TEST(PforTest, ManyNormalRowsFit) {
  int fit = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) fit += encoded<PforCodec>(normal_row(128, seed)).has_value();
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
      const auto slot = encoded<PforCodec>(row);
      ASSERT_TRUE(slot);
      EXPECT_TRUE(same_bits(decoded<PforCodec>(*slot, 128), row));
    }
    EXPECT_FALSE(encoded<PforCodec>(with_exceptions(29, 100, low)));
  }
}

TEST(PforTest, AnExceptionReaches21BelowTheBaseOrTheExponentZero) {
  EXPECT_TRUE(encoded<PforCodec>(with_exceptions(1, 100, 79)));
  EXPECT_FALSE(encoded<PforCodec>(with_exceptions(1, 100, 78)));
  EXPECT_TRUE(encoded<PforCodec>(with_exceptions(1, 254, 0)));
  EXPECT_TRUE(encoded<PforCodec>(with_exceptions(1, 15, 0)));  // 15 below, yet written as exponent 0
}

TEST(PforTest, OverflowSlotHoldsItsIndexAndZeros) {
  Bytes slot(PforCodec::slot_bytes(32), 0xa5);
  std::byte* bytes = reinterpret_cast<std::byte*>(slot.data());
  PforCodec::write_overflow(Solo{}, 0x01020304, 32, bytes);
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
  for (CodecId id : kCodecs) {
    with_codec(id, [&]<class Codec>(Codec) {
      for (int64_t dim : {3, 64, 130, 1028}) {
        for (const NamedRow& row : trying_rows(dim)) {
          Bytes slot(Codec::slot_bytes(dim), 0xa5);
          std::byte* bytes = reinterpret_cast<std::byte*>(slot.data());
          std::vector<float> back(row.values.size());
          in_group([&](ThreadGroup group) {
            if (!Codec::encode(group, row.values.data(), dim, bytes))
              return Codec::write_overflow(group, 7, dim, bytes);
            group.sync();
            Codec::decode(group, bytes, dim, back.data());
          });
          const auto alone = encoded<Codec>(row.values);
          EXPECT_EQ(!alone, Codec::is_overflow(bytes, dim));
          if (!alone) continue;
          EXPECT_EQ(slot, *alone) << Codec::name << " " << row.name << ", " << dim;
          EXPECT_TRUE(same_bits(back, row.values)) << Codec::name << " " << row.name << ", " << dim;
        }
      }
    });
  }
}

}  // namespace
}  // namespace dlrm
