#include "embedding/store.h"

#include <gtest/gtest.h>

#include "kernels/parallel.h"
#include "tests/device_test.h"
#include "tests/rows.h"
#include "tests/temp_dir.h"

namespace dlrm {
namespace {

StoreConfig config_of(std::vector<TableConfig> tables, int64_t dim, OptimizerKind kind = OptimizerKind::sgd,
                      DType dtype = DType::fp32) {
  return {std::move(tables), dim, {kind, 1e-8f}, 1000, dtype};
}

class StoreTest : public DeviceTest {
 protected:
  std::vector<float> read(EmbeddingStore& store, int64_t table, int64_t first, int64_t count) {
    std::vector<float> rows(size_t(count * store.config().dim), std::numeric_limits<float>::quiet_NaN());
    store.read_rows(queue(), table, first, count, rows.data());
    return rows;
  }

  /// One update of rows of table 0 with one gradient each.
  void update(EmbeddingStore& store, const std::vector<int64_t>& ids, const std::vector<float>& gradients, float lr,
              uint64_t key = 0) {
    const Buffer device_ids = upload(ids), device_gradients = upload(gradients);
    const Buffer state = upload(std::vector<StepState>{{0, 0.0f, lr, {}, {}, key}});
    Bags bags{device_ids.as<int64_t>(), nullptr, 1, int64_t(ids.size()), int64_t(ids.size())};
    const DistinctRows distinct(device(), bags.nnz);
    store.find_distinct(queue(), bags, distinct);
    store.update(queue(), bags, distinct, {device_gradients.as<float>(), store.config().dim}, state.as<StepState>());
    queue().synchronize();
  }
};

TEST_P(StoreTest, RowsReadBackHaveTheBitsWritten) {
  for (DType dtype : kDTypes) {
    for (CodecId codec : kCodecs) {
      for (int64_t dim : kTryingDims) {
        const auto rows = trying_rows(dim);
        const int64_t count = int64_t(rows.size());
        EmbeddingStore store(device(),
                             config_of({{"a", 3, CodecId::raw}, {"b", count, codec}}, dim, OptimizerKind::sgd, dtype));
        std::vector<float> all;
        for (const NamedRow& row : rows) all.insert(all.end(), row.values.begin(), row.values.end());
        for (int repeat = 0; repeat < 2; ++repeat) store.write_rows(queue(), 1, 0, count, all.data());
        all = as_stored(dtype, all);
        EXPECT_TRUE(same_bits(read(store, 1, 0, count), all)) << codec_name(codec) << ", dim " << dim;
        EXPECT_TRUE(same_bits(read(store, 1, 2, 3), {all.begin() + 2 * dim, all.begin() + 5 * dim}));
      }
    }
  }
}

TEST_P(StoreTest, UpdatedRowsHaveTheBitsOfTheRawStoresIntoOverflowAndBack) {
  for (DType dtype : kDTypes) {
    for (size_t kind = 0; kind < kOptimizerNames.size(); ++kind) {
      for (int64_t dim : {3, 17, 64, 128, 1028}) {
        const int64_t rows = 40;
        std::vector<EmbeddingStore> stores;  // raw first
        for (CodecId codec : kCodecs) {
          stores.emplace_back(device(), config_of({{"t", rows, codec}}, dim, OptimizerKind(kind), dtype));
          stores.back().initialize(queue(), 1);
        }
        EmbeddingStore& pfor = stores.back();
        int64_t most = 0, least = rows;
        for (uint64_t step = 0; step < 12; ++step) {
          std::vector<int64_t> ids;
          std::vector<float> gradients;
          for (int64_t row = 0; row < rows; ++row) {
            ids.push_back(row);
            // Every third step some elements grow by 2^30, then shrink again: exponents spread too far for a slot.
            std::vector<float> gradient = normal_row(dim, step * 1000 + uint64_t(row), 0.1);
            if (step % 3 == 1)
              for (int64_t i = 0; i < dim; i += 2) gradient[size_t(i)] = 0x1p30f;
            if (step % 3 == 2)
              for (int64_t i = 0; i < dim; i += 2) gradient[size_t(i)] = -0x1p30f;
            gradients.insert(gradients.end(), gradient.begin(), gradient.end());
          }
          for (EmbeddingStore& store : stores) {
            update(store, ids, gradients, 1.0f, rounding_key(1, int64_t(step)));
            ASSERT_TRUE(same_bits(read(stores[0], 0, 0, rows), read(store, 0, 0, rows)))
                << codec_name(store.codec(0).codec) << ", " << kOptimizerNames[kind] << ", dim " << dim;
          }
          most = std::max(most, pfor.overflow_rows(queue()));
          least = std::min(least, pfor.overflow_rows(queue()));
        }
        if (kind == 0 && dim == 64) {
          EXPECT_EQ(most, rows);
          EXPECT_LT(least, rows / 2);
        }
        const auto state = [&](EmbeddingStore& store) { return store.read_encoded(queue(), 0, 0, rows).state; };
        for (EmbeddingStore& store : stores) EXPECT_TRUE(same_bits(state(stores[0]), state(store)));
      }
    }
  }
}

// Steps of a 40th of the distance between neighbours: rounded to nearest, nothing would ever move.
TEST_P(StoreTest, ManyTinyUpdatesOfBf16RowsAddUpWithoutBias) {
  const int64_t dim = 128, rows = 50, steps = 400;
  for (float start : {1.0f, -1.0f}) {
    EmbeddingStore store(device(), config_of({{"t", rows, CodecId::pfor}}, dim, OptimizerKind::sgd, DType::bf16));
    store.write_rows(queue(), 0, 0, rows, std::vector<float>(size_t(rows * dim), start).data());
    std::vector<int64_t> ids;
    for (int64_t row = 0; row < rows; ++row) ids.push_back(row);
    const float step = 0x1p-7f / 40;
    for (int64_t i = 0; i < steps; ++i)
      update(store, ids, std::vector<float>(size_t(rows * dim), -step * start), 1.0f, rounding_key(7, i));
    double sum = 0;
    for (float value : read(store, 0, 0, rows)) sum += std::abs(value);
    // Of each step the variance is p (1 - p) of a distance, p = 1 / 40; steps and elements are independent.
    const double n = double(rows * dim), deviation = 0x1p-7 * std::sqrt(double(steps) / 40 * 39 / 40 / n);
    EXPECT_NEAR(sum / n, 1 + double(step) * double(steps), 4 * deviation);
  }
}

TEST_P(StoreTest, RoundingDependsOnSeedStepTableRowAndElementAlone) {
  const int64_t dim = 128, rows = 40;
  const auto rounded_rows = [&](CodecId codec, uint64_t key, int64_t first) {
    EmbeddingStore store(device(), config_of({{"t", rows, codec}}, dim, OptimizerKind::sgd, DType::bf16));
    store.write_rows(queue(), 0, 0, rows, std::vector<float>(size_t(rows * dim), 1.0f).data());
    std::vector<int64_t> ids;
    for (int64_t row = first; row < rows; ++row) ids.push_back(row);
    update(store, ids, std::vector<float>(ids.size() * size_t(dim), -0x1p-8f), 1.0f, key);
    return read(store, 0, 0, rows);
  };
  const std::vector<float> expected = rounded_rows(CodecId::raw, rounding_key(1, 5), 0);
  for (CodecId codec : kCodecs) EXPECT_TRUE(same_bits(rounded_rows(codec, rounding_key(1, 5), 0), expected));
  EXPECT_FALSE(same_bits(rounded_rows(CodecId::raw, rounding_key(2, 5), 0), expected));
  EXPECT_FALSE(same_bits(rounded_rows(CodecId::raw, rounding_key(1, 6), 0), expected));
  const std::vector<float> later = rounded_rows(CodecId::raw, rounding_key(1, 5), 10);  // other places in the batch
  EXPECT_TRUE(same_bits({later.begin() + 10 * dim, later.end()}, {expected.begin() + 10 * dim, expected.end()}));
  EXPECT_FALSE(
      same_bits({expected.begin(), expected.begin() + dim}, {expected.begin() + dim, expected.begin() + 2 * dim}));
}

TEST_P(StoreTest, OverflowEntriesAreUsedAgain) {
  const int64_t dim = 64, rows = 10;
  EmbeddingStore store(device(), config_of({{"t", rows, CodecId::pfor}}, dim));
  const std::vector<float> fits = normal_row(dim, 1);
  std::vector<float> spread = fits;
  spread[0] = 1e30f;
  for (int64_t round = 0; round < 300; ++round) {
    int64_t expected = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const bool overflows = word_at(uint64_t(round), row) % 2 == 0;
      store.write_rows(queue(), 0, row, 1, overflows ? spread.data() : fits.data());
      expected += overflows;
    }
    ASSERT_EQ(store.overflow_rows(queue()), expected);
  }
}

TEST_P(StoreTest, EqualValuesGiveEqualBytesWhateverCameBefore) {
  const int64_t dim = 64, rows = 20;
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<float> next = normal_row(dim, uint64_t(row));
    if (row % 3 == 0) next[5] = 1e30f;
    values.insert(values.end(), next.begin(), next.end());
  }
  EmbeddingStore straight(device(), config_of({{"t", rows, CodecId::pfor}}, dim));
  EmbeddingStore winding(device(), config_of({{"t", rows, CodecId::pfor}}, dim));
  straight.write_rows(queue(), 0, 0, rows, values.data());
  std::vector<float> other(values.size());
  for (size_t i = 0; i < other.size(); ++i) other[i] = std::bit_cast<float>(word_at(9, int64_t(i)));
  winding.write_rows(queue(), 0, 0, rows, other.data());
  for (int64_t row = rows - 1; row >= 0; --row) winding.write_rows(queue(), 0, row, 1, &values[size_t(row * dim)]);
  const EncodedRows a = straight.read_encoded(queue(), 0, 0, rows), b = winding.read_encoded(queue(), 0, 0, rows);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.overflow, b.overflow);
  EXPECT_EQ(a.overflow, (std::vector<int64_t>{0, 3, 6, 9, 12, 15, 18}));
  EXPECT_TRUE(same_bits(a.overflow_rows, b.overflow_rows));
}

TEST_P(StoreTest, EncodedBytesEqualTheCpus) {
  const auto cpu = make_cpu_device();
  const auto cpu_queue = cpu->make_queue();
  for (const auto& [dim, dtype] :
       {std::pair(17, DType::fp32), std::pair(64, DType::fp32), std::pair(128, DType::fp32),
        std::pair(256, DType::fp32), std::pair(17, DType::bf16), std::pair(128, DType::bf16)}) {
    const int64_t rows = 300;
    std::vector<float> values;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<float> next = normal_row(dim, uint64_t(row));
      for (int64_t i = 0; i < row % 40; ++i) next[size_t(i * 7 % dim)] *= 1e-4f;
      values.insert(values.end(), next.begin(), next.end());
    }
    values = as_stored(dtype, values);
    const StoreConfig config = config_of({{"t", rows, CodecId::pfor}}, dim, OptimizerKind::sgd, dtype);
    EmbeddingStore here(device(), config), there(*cpu, config);
    there.write_rows(*cpu_queue, 0, 0, rows, values.data());
    std::vector<int64_t> ids;
    for (int64_t row = 0; row < rows; ++row) ids.push_back(row);
    here.write_rows(queue(), 0, 0, rows, std::vector<float>(values.size(), 0.0f).data());
    for (float& value : values) value = -value;
    update(here, ids, values, 1.0f);  // 0 - 1 * -value: what the update's own encoder writes
    const EncodedRows a = here.read_encoded(queue(), 0, 0, rows), b = there.read_encoded(*cpu_queue, 0, 0, rows);
    EXPECT_EQ(a.slots, b.slots) << "dim " << dim;
    EXPECT_EQ(a.overflow, b.overflow);
    EXPECT_TRUE(same_bits(a.overflow_rows, b.overflow_rows));
    if (dim == 128) {
      EXPECT_GT(a.overflow.size(), 10u);
    }
  }
}

TEST_P(StoreTest, StateReadBackHasTheBitsWritten) {
  for (OptimizerKind kind : {OptimizerKind::adagrad, OptimizerKind::rowwise_adagrad, OptimizerKind::adam}) {
    EmbeddingStore store(device(), config_of({{"t", 33, CodecId::pfor}}, 17, kind));
    store.initialize(queue(), 1);
    const std::vector<float> rows = read(store, 0, 0, 33);
    std::vector<float> state(size_t(20 * store.state_floats()));
    for (size_t i = 0; i < state.size(); ++i) state[i] = float(i);
    store.write_state(queue(), 0, 5, 20, state.data());
    EXPECT_EQ(store.read_encoded(queue(), 0, 5, 20).state, state);
    EXPECT_EQ(store.read_encoded(queue(), 0, 4, 1).state, std::vector<float>(size_t(store.state_floats()), 0.0f));
    EXPECT_TRUE(same_bits(read(store, 0, 0, 33), rows));
  }
}

TEST_P(StoreTest, InitialValuesDependOnSeedTableAndRow) {
  const std::vector<TableConfig> tables = {{"a", 300, CodecId::raw}, {"b", 300, CodecId::pfor}};
  EmbeddingStore one(device(), config_of(tables, 17)), two(device(), config_of(tables, 17)),
      other(device(), config_of(tables, 17));
  one.initialize(queue(), 1);
  two.initialize(queue(), 2);
  two.initialize(queue(), 1);  // whatever was there before
  other.initialize(queue(), 2);
  EXPECT_TRUE(same_bits(read(one, 1, 0, 300), read(two, 1, 0, 300)));
  EXPECT_FALSE(same_bits(read(one, 1, 0, 300), read(other, 1, 0, 300)));
  EXPECT_FALSE(same_bits(read(one, 1, 0, 300), read(one, 0, 0, 300)));
  EXPECT_FALSE(same_bits(read(one, 0, 0, 1), read(one, 0, 1, 1)));
}

TEST_P(StoreTest, InitialValuesAreUniformWithinOneOverTheRootOfTheRows) {
  EmbeddingStore store(device(), config_of({{"t", 2500, CodecId::pfor}}, 64));
  store.initialize(queue(), 1);
  const std::vector<float> values = read(store, 0, 0, 2500);
  double sum = 0, squares = 0, largest = 0;
  for (float value : values) {
    sum += value;
    squares += double(value) * value;
    largest = std::max(largest, double(std::abs(value)));
  }
  const double n = double(values.size()), bound = 0.02;  // sqrt(1 / 2500)
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.999 * bound);
  EXPECT_NEAR(sum / n, 0, 5 * bound / std::sqrt(3 * n));
  EXPECT_NEAR(squares / n, bound * bound / 3, 0.01 * bound * bound);
}

// Memory is backed where it is touched, so that a table of 8.6 GB costs little.
TEST_P(StoreTest, RowsPastElementTwoToThe31AndByteTwoToThe32) {
  const int64_t dim = 128, rows = (int64_t(1) << 31) / dim + 1000;
  if (device().available_bytes() < size_t(rows * dim) * sizeof(float) + (size_t(1) << 30))
    GTEST_SKIP() << "needs " << rows * dim * 4 << " bytes of address space that could be backed";
  for (CodecId codec : kCodecs) {
    EmbeddingStore store(device(), config_of({{"t", rows, codec}}, dim));
    for (int64_t row :
         {rows - 1, (int64_t(1) << 31) / dim, (int64_t(1) << 32) / 512, (int64_t(1) << 32) / 448, int64_t(0)}) {
      const std::vector<float> values = normal_row(dim, uint64_t(row));
      store.write_rows(queue(), 0, row, 1, values.data());
      EXPECT_TRUE(same_bits(read(store, 0, row, 1), values)) << row;
      update(store, {row}, values, 1.0f);
      EXPECT_TRUE(same_bits(read(store, 0, row, 1), std::vector<float>(size_t(dim), 0.0f))) << row;
    }
  }
}

TEST_P(StoreTest, TablesThatDoNotFitAreAnErrorThatNamesTheLargest) {
  const std::vector<TableConfig> tables = {{"small", 10, CodecId::raw},
                                           {"huge", int64_t(1) << 40, CodecId::raw},
                                           {"large", int64_t(1) << 34, CodecId::pfor},
                                           {"medium", 1000, CodecId::raw}};
  EXPECT_ERROR(EmbeddingStore(device(), config_of(tables, 128)), "bytes on " + GetParam(), "available are",
               "huge (1099511627776 rows, raw, 562949953421312 bytes), large (17179869184 rows, pfor", "medium");
}

TEST_P(StoreTest, RowsAndBagsThatItDoesNotHaveAreErrors) {
  EmbeddingStore store(device(), config_of({{"t", 10, CodecId::pfor}}, 4));
  std::vector<float> row(4);
  EXPECT_ERROR(store.read_rows(queue(), 0, 10, 1, row.data()), "table t: 1 rows from row 10, but it has 10");
  EXPECT_ERROR(store.write_rows(queue(), 0, -1, 1, row.data()), "table t: 1 rows from row -1");
  EXPECT_ERROR(store.read_encoded(queue(), 1, 0, 1), "table 1: expected 0 .. 0");
  EXPECT_ERROR(store.lookup(queue(), Bags{nullptr, nullptr, 2, 1, 2}, {}), "a batch for 2 tables, expected 1");
  EXPECT_ERROR(EmbeddingStore(device(), config_of({{"t", int64_t(1) << 62, CodecId::raw}}, 4)),
               "table t: expected 1 .. ");
}

DLRM_ON_ALL_DEVICES(StoreTest);

}  // namespace
}  // namespace dlrm
