// Lookup, unique and update against naive loops.
#include <gtest/gtest.h>

#include <map>

#include "embedding/store.h"
#include "kernels/parallel.h"
#include "tests/device_test.h"
#include "tests/rows.h"
#include "tests/temp_dir.h"

namespace dlrm {
namespace {

/// Of rows; 128: in registers on a GPU.
constexpr std::pair<int64_t, DType> kShapes[] = {
    {20, DType::fp32}, {128, DType::fp32}, {20, DType::bf16}, {128, DType::bf16}};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The ids of some tables in host memory. Few distinct ones among many, so that rows repeat.
struct HostBags {
  std::vector<int64_t> ids, offsets;
  int64_t tables = 0, batch = 0;

  int64_t begin(int64_t bag) const { return offsets.empty() ? bag : offsets[size_t(bag)]; }
};

HostBags random_bags(const std::vector<int64_t>& rows, int64_t batch, bool multi_hot, uint64_t seed) {
  HostBags bags;
  bags.tables = int64_t(rows.size());
  bags.batch = batch;
  if (multi_hot) bags.offsets.push_back(0);
  for (int64_t bag = 0; bag < bags.tables * batch; ++bag) {
    const int64_t length = multi_hot ? word_at(seed, bag) % 5 : 1;
    for (int64_t i = 0; i < length; ++i) {
      const double u = uniform_float(word_at(seed + 1, int64_t(bags.ids.size())));
      bags.ids.push_back(int64_t(u * u * double(rows[size_t(bag / batch)])));
    }
    if (multi_hot) bags.offsets.push_back(int64_t(bags.ids.size()));
  }
  return bags;
}

class SparseTest : public DeviceTest {
 protected:
  int64_t dim_ = 0;
  DType dtype_ = DType::fp32;
  int64_t step_ = 0;
  const std::vector<int64_t> rows_ = {3, 50, 1, 2000};

  EmbeddingStore make_store(OptimizerKind kind = OptimizerKind::sgd, int64_t max_ids = 40000) {
    StoreConfig config{{}, dim_, {kind, 1e-3f}, max_ids, dtype_};
    for (size_t t = 0; t < rows_.size(); ++t)
      config.tables.push_back({"t" + std::to_string(t), rows_[t], kCodecs[t % kCodecs.size()]});
    EmbeddingStore store(device(), config);
    store.initialize(queue(), 5);
    return store;
  }

  std::vector<std::vector<float>> all_rows(EmbeddingStore& store) {
    std::vector<std::vector<float>> tables;
    for (size_t t = 0; t < rows_.size(); ++t) {
      tables.emplace_back(size_t(rows_[t] * dim_));
      store.read_rows(queue(), int64_t(t), 0, rows_[t], tables.back().data());
    }
    return tables;
  }

  struct DeviceBags {
    Buffer ids, offsets;
    Bags bags;
  };
  DeviceBags upload_bags(const HostBags& host) {
    DeviceBags result{upload(host.ids), upload(host.offsets), {}};
    result.bags = {result.ids.as<int64_t>(), host.offsets.empty() ? nullptr : result.offsets.as<int64_t>(), host.tables,
                   host.batch, int64_t(host.ids.size())};
    return result;
  }

  /// [batch, stride], the vectors of a sample's bags first, the rest as it was: NaN.
  std::vector<float> lookup(EmbeddingStore& store, const HostBags& host, int64_t stride) {
    const DeviceBags bags = upload_bags(host);
    const Buffer out = upload(std::vector<float>(size_t(host.batch * stride), kNan));
    store.lookup(queue(), bags.bags, {out.data(), stride});
    return download<float>(out);
  }
  std::vector<Bf16> lookup_bf16(EmbeddingStore& store, const HostBags& host, int64_t stride, Rounding rounding) {
    const DeviceBags bags = upload_bags(host);
    const Buffer out = upload(std::vector<Bf16>(size_t(host.batch * stride), to_bf16(kNan)));
    store.lookup(queue(), bags.bags, {out.data(), stride, DType::bf16}, rounding);
    return download<Bf16>(out);
  }

  /// Returns the rows it touched.
  std::vector<std::pair<int64_t, int64_t>> update(EmbeddingStore& store, const HostBags& host,
                                                  const std::vector<float>& gradients, int64_t stride, float lr) {
    const DeviceBags bags = upload_bags(host);
    const AdamCorrection correction = adam_correction(store.config().optimizer, step_);
    const Buffer device_gradients = upload(gradients),
                 state = upload(std::vector<StepState>{{step_, 0.0f, lr, {}, correction, rounding_key(3, step_)}});
    ++step_;
    const DistinctRows distinct(device(), bags.bags.nnz);
    store.find_distinct(queue(), bags.bags, distinct);
    store.update(queue(), bags.bags, distinct, {device_gradients.data(), stride}, state.as<StepState>());
    queue().synchronize();
    return store.list(queue(), distinct);
  }
};

class LookupTest : public SparseTest {};
class UniqueTest : public SparseTest {};
class UpdateTest : public SparseTest {};

TEST_P(LookupTest, OneHotCopiesRows) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store();
    const auto tables = all_rows(store);
    const int64_t stride = int64_t(rows_.size()) * dim_ + 8;
    for (int64_t batch : {0, 1, 31, 33, 1000}) {
      const HostBags bags = random_bags(rows_, batch, false, 1);
      std::vector<float> expected(size_t(batch * stride), kNan);
      for (int64_t bag = 0; bag < bags.tables * batch; ++bag)
        std::copy_n(&tables[size_t(bag / batch)][size_t(bags.ids[size_t(bag)] * dim_)], dim_,
                    &expected[size_t(bag % batch * stride + bag / batch * dim_)]);
      EXPECT_TRUE(same_bits(lookup(store, bags, stride), expected)) << batch;
    }
  }
}

TEST_P(LookupTest, BagsAreSums) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store();
    const auto tables = all_rows(store);
    const int64_t stride = int64_t(rows_.size()) * dim_;
    for (int64_t batch : {0, 1, 31, 33, 1000}) {
      const HostBags bags = random_bags(rows_, batch, true, 2);
      const std::vector<float> found = lookup(store, bags, stride);
      for (int64_t bag = 0; bag < bags.tables * batch; ++bag) {
        for (int64_t j = 0; j < dim_; ++j) {
          double sum = 0;
          for (int64_t i = bags.begin(bag); i < bags.begin(bag + 1); ++i)
            sum += tables[size_t(bag / batch)][size_t(bags.ids[size_t(i)] * dim_ + j)];
          ASSERT_NEAR(found[size_t(bag % batch * stride + bag / batch * dim_ + j)], sum, 1e-6);
        }
      }
    }
  }
}

TEST_P(LookupTest, Bf16IsTheRoundedSum) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store();
    const int64_t stride = int64_t(rows_.size()) * dim_ + 8;
    for (bool multi_hot : {false, true}) {
      for (int64_t batch : {0, 1, 31, 33, 1000}) {
        const HostBags bags = random_bags(rows_, batch, multi_hot, 2);
        const std::vector<float> sums = lookup(store, bags, stride);
        const std::vector<Bf16> found = lookup_bf16(store, bags, stride, Rounding::nearest);
        for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(found[i].bits, to_bf16(sums[i]).bits) << i;
      }
    }
  }
}

TEST_P(LookupTest, TruncatedBf16IsTheUpperHalfOfEachElement) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store();
    const int64_t stride = int64_t(rows_.size()) * dim_;
    const HostBags bags = random_bags(rows_, 1000, false, 2);
    const std::vector<float> rows = lookup(store, bags, stride);
    const std::vector<Bf16> found = lookup_bf16(store, bags, stride, Rounding::truncate);
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(found[i].bits, bits_of(rows[i]) >> 16) << i;
  }
}

TEST_P(LookupTest, TruncatedBagsAreSumsOfTruncatedRows) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store();
    const auto tables = all_rows(store);
    const int64_t stride = int64_t(rows_.size()) * dim_;
    const HostBags bags = random_bags(rows_, 33, true, 2);
    const std::vector<Bf16> found = lookup_bf16(store, bags, stride, Rounding::truncate);
    for (int64_t bag = 0; bag < bags.tables * bags.batch; ++bag) {
      for (int64_t j = 0; j < dim_; ++j) {
        float sum = 0;
        for (int64_t i = bags.begin(bag); i < bags.begin(bag + 1); ++i)
          sum += truncated(tables[size_t(bag / bags.batch)][size_t(bags.ids[size_t(i)] * dim_ + j)]);
        ASSERT_EQ(found[size_t(bag % bags.batch * stride + bag / bags.batch * dim_ + j)].bits, to_bf16(sum).bits);
      }
    }
  }
}

TEST_P(LookupTest, DistinctRowsByInverseIndexAreTheRowsOfEachPosition) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store();
    const auto tables = all_rows(store);
    for (int64_t batch : {0, 1, 31, 33, 1000}) {
      const HostBags bags = random_bags(rows_, batch, false, 4);
      const DeviceBags on_device = upload_bags(bags);
      const int64_t nnz = on_device.bags.nnz;
      const DistinctRows distinct(device(), nnz);
      store.find_distinct(queue(), on_device.bags, distinct);
      std::vector<int32_t> inverse(static_cast<size_t>(nnz));
      device().copy(queue(), inverse.data(), distinct.view().inverse, inverse.size() * sizeof(int32_t));
      const Buffer rows = upload(std::vector<float>(size_t(nnz * dim), kNan)),
                   rows_bf16 = upload(std::vector<Bf16>(size_t(nnz * dim), to_bf16(kNan))),
                   rows_cut = upload(std::vector<Bf16>(size_t(nnz * dim), to_bf16(kNan)));
      store.lookup(queue(), on_device.bags, distinct, {rows.data(), nnz, dim, dim});
      store.lookup(queue(), on_device.bags, distinct, {rows_bf16.data(), nnz, dim, dim, DType::bf16});
      store.lookup(queue(), on_device.bags, distinct, {rows_cut.data(), nnz, dim, dim, DType::bf16},
                   Rounding::truncate);
      const std::vector<float> found = download<float>(rows);
      const std::vector<Bf16> found_bf16 = download<Bf16>(rows_bf16), found_cut = download<Bf16>(rows_cut);
      for (int64_t i = 0; i < nnz; ++i) {
        for (int64_t j = 0; j < dim; ++j) {
          const float expected = tables[size_t(i / batch)][size_t(bags.ids[size_t(i)] * dim + j)];
          const size_t at = size_t(inverse[size_t(i)] * dim + j);
          ASSERT_EQ(bits_of(found[at]), bits_of(expected)) << i;
          ASSERT_EQ(found_bf16[at].bits, to_bf16(expected).bits) << i;
          ASSERT_EQ(found_cut[at].bits, bits_of(expected) >> 16) << i;
        }
      }
    }
  }
}

TEST_P(LookupTest, EmptyBagSumsToZero) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store();
    HostBags bags{{1}, {0, 0, 1, 1, 1}, 4, 1};
    const std::vector<float> found = lookup(store, bags, 4 * dim_);
    for (int64_t j = 0; j < 4 * dim_; ++j) EXPECT_EQ(found[size_t(j)] == 0.0f, j / dim_ != 1) << j;
  }
}

TEST_P(LookupTest, AnIdOutsideItsTableIsAnErrorThatNamesTableAndId) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    for (int64_t bad : {int64_t(-1), int64_t(50), int64_t(1) << 31, (int64_t(1) << 32) + 1, INT64_MIN}) {
      EmbeddingStore store = make_store();
      HostBags bags = random_bags(rows_, 9, false, 3);
      bags.ids[9 + 4] = bad;
      const std::string id = "id " + std::to_string(bad);
      EXPECT_ERROR((lookup(store, bags, 4 * dim_), queue().synchronize()), "table 1", id, "expected 0 .. 49");
    }
  }
}

TEST_P(UpdateTest, AnIdOutsideItsTableIsAnErrorThatNamesTableAndId) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    for (int64_t bad : {int64_t(-1), int64_t(50), int64_t(1) << 31, (int64_t(1) << 32) + 1, INT64_MIN}) {
      EmbeddingStore store = make_store();
      HostBags bags = random_bags(rows_, 9, false, 3);
      bags.ids[9 + 4] = bad;
      const std::string id = "id " + std::to_string(bad);
      EXPECT_ERROR(update(store, bags, std::vector<float>(size_t(9 * 4 * dim_), 1.0f), 4 * dim_, 1.0f), "table 1", id,
                   "expected 0 .. 49");
    }
  }
}

TEST_P(UniqueTest, TouchedRowsAreListedOnceInOrder) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    for (bool multi_hot : {false, true}) {
      for (int64_t batch : {0, 1, 31, 33, 1000}) {
        EmbeddingStore store = make_store();
        const HostBags bags = random_bags(rows_, batch, multi_hot, 4);
        std::map<std::pair<int64_t, int64_t>, int> expected;
        for (int64_t bag = 0; bag < bags.tables * batch; ++bag)
          for (int64_t i = bags.begin(bag); i < bags.begin(bag + 1); ++i)
            ++expected[{bag / batch, bags.ids[size_t(i)]}];
        const auto found = update(store, bags, std::vector<float>(size_t(batch * 4 * dim_)), 4 * dim_, 1.0f);
        ASSERT_EQ(found.size(), expected.size());
        size_t i = 0;
        for (const auto& [row, count] : expected) EXPECT_EQ(found[i++], row);
      }
    }
  }
}

/// Gradients of each row summed in double, then the rule in double.   sums, means: states of adagrad's and adam's kinds
void naive_update(std::vector<std::vector<double>>& tables, std::vector<std::vector<double>>& sums,
                  std::vector<std::vector<double>>& means, int64_t step, const HostBags& bags,
                  const std::vector<float>& gradients, int64_t stride, OptimizerKind kind, double lr, double eps,
                  int64_t dim) {
  std::map<std::pair<int64_t, int64_t>, std::vector<double>> total;
  for (int64_t bag = 0; bag < bags.tables * bags.batch; ++bag) {
    for (int64_t i = bags.begin(bag); i < bags.begin(bag + 1); ++i) {
      std::vector<double>& sum = total[{bag / bags.batch, bags.ids[size_t(i)]}];
      sum.resize(size_t(dim));
      for (int64_t j = 0; j < dim; ++j)
        sum[size_t(j)] += gradients[size_t(bag % bags.batch * stride + bag / bags.batch * dim + j)];
    }
  }
  for (const auto& [where, g] : total) {
    const auto [t, row] = where;
    double square = 0;
    for (double x : g) square += x * x / double(dim);
    if (kind == OptimizerKind::rowwise_adagrad) sums[size_t(t)][size_t(row)] += square;
    for (int64_t j = 0; j < dim; ++j) {
      double& w = tables[size_t(t)][size_t(row * dim + j)];
      const double x = g[size_t(j)];
      if (kind == OptimizerKind::sgd) w -= lr * x;
      if (kind == OptimizerKind::rowwise_adagrad) w -= lr * x / (std::sqrt(sums[size_t(t)][size_t(row)]) + eps);
      double& s = sums[size_t(t)][size_t(row * dim + j)];
      if (kind == OptimizerKind::adam) {
        double& m = means[size_t(t)][size_t(row * dim + j)];
        m = 0.9 * m + 0.1 * x;
        s = 0.999 * s + 0.001 * x * x;
        const double t_first = 1 - std::pow(0.9, step + 1), t_second = 1 - std::pow(0.999, step + 1);
        w -= lr * std::sqrt(t_second) / t_first * m / (std::sqrt(s) + eps);
      }
      if (kind != OptimizerKind::adagrad) continue;
      s += x * x;
      w -= lr * x / (std::sqrt(s) + eps);
    }
  }
}

// A batch of 1000 names the row of the one-row table 1000 times and those of the three-row table hundreds of times, so
// that gradients are summed in many pieces; one of 4097 makes more than 64 pieces, which are summed in pieces.
TEST_P(UpdateTest, EqualsTheNaiveLoopInDouble) {
  for (int64_t dim : {20, 128}) {
    dim_ = dim;
    const int64_t stride = 4 * dim_ + 4;
    for (size_t kind = 0; kind < kOptimizerNames.size(); ++kind) {
      for (bool multi_hot : {false, true}) {
        for (int64_t batch : {0, 1, 31, 33, 64, 65, 129, 1000, 4097}) {
          EmbeddingStore store = make_store(OptimizerKind(kind));
          std::vector<std::vector<double>> tables, sums, means;
          step_ = 0;
          for (const auto& table : all_rows(store)) {
            tables.emplace_back(table.begin(), table.end());
            sums.emplace_back(table.size(), 0.0);
            means.emplace_back(table.size(), 0.0);
          }
          for (uint64_t step = 0; step < 2; ++step) {
            const HostBags bags = random_bags(rows_, batch, multi_hot, 10 + step);
            const std::vector<float> gradients = normal_row(batch * stride, step, 0.1);
            update(store, bags, gradients, stride, 0.1f);
            naive_update(tables, sums, means, int64_t(step), bags, gradients, stride, OptimizerKind(kind), double(0.1f),
                         double(1e-3f), dim_);
          }
          const auto found = all_rows(store);
          for (size_t t = 0; t < tables.size(); ++t)
            for (size_t i = 0; i < tables[t].size(); ++i)
              ASSERT_NEAR(found[t][i], tables[t][i], 2e-5)
                  << kOptimizerNames[kind] << " batch " << batch << " table " << t;
        }
      }
    }
  }
}

TEST_P(UpdateTest, Bf16RowsAreTheUpdatedFp32RowsStochasticallyRounded) {
  for (int64_t dim : {20, 128}) {
    dim_ = dim;
    const int64_t stride = 4 * dim_;
    for (size_t kind = 0; kind < kOptimizerNames.size(); ++kind) {
      for (bool multi_hot : {false, true}) {
        dtype_ = DType::bf16;
        EmbeddingStore found = make_store(OptimizerKind(kind));
        dtype_ = DType::fp32;
        EmbeddingStore exact = make_store(OptimizerKind(kind));
        for (int64_t step = 0; step < 3; ++step) {
          const auto before = all_rows(found);
          for (size_t t = 0; t < rows_.size(); ++t)
            exact.write_rows(queue(), int64_t(t), 0, rows_[t], before[t].data());
          const HostBags bags = random_bags(rows_, 300, multi_hot, uint64_t(20 + step));
          const std::vector<float> gradients = normal_row(300 * stride, uint64_t(step), 0.1);
          for (EmbeddingStore* store : {&exact, &found}) {
            step_ = step;
            update(*store, bags, gradients, stride, 0.1f);
          }
          auto expected = all_rows(exact);
          const auto rows = all_rows(found);
          for (size_t t = 0; t < rows_.size(); ++t) {
            for (int64_t i = 0; i < rows_[t] * dim; ++i) {
              const Random4 random = rounding_bits(rounding_key(3, step), int64_t(t), i / dim, i % dim / 8);
              const uint32_t bits = random.word[i % dim % 8 / 2] >> (i % dim % 2 * 16) & 0xffff;
              expected[t][size_t(i)] = stochastically_rounded(expected[t][size_t(i)], bits);
            }
            EXPECT_TRUE(same_bits(rows[t], expected[t])) << kOptimizerNames[kind] << ", dim " << dim << ", table " << t;
          }
        }
      }
    }
  }
}

TEST_P(UpdateTest, Bf16GradientsGiveTheBitsOfTheSameGradientsInFp32) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    const int64_t stride = 4 * dim_ + 8;
    for (bool multi_hot : {false, true}) {
      const HostBags bags = random_bags(rows_, 1000, multi_hot, 8);
      std::vector<Bf16> gradients(size_t(1000 * stride));
      std::vector<float> in_fp32;
      for (size_t i = 0; i < gradients.size(); ++i) {
        gradients[i] = to_bf16(float(word_at(9, int64_t(i)) % 1000) - 500);
        in_fp32.push_back(to_float(gradients[i]));
      }
      EmbeddingStore expected = make_store(), found = make_store();
      step_ = 0;
      update(expected, bags, in_fp32, stride, 1e-3f);
      const DeviceBags on_device = upload_bags(bags);
      const Buffer device_gradients = upload(gradients),
                   state = upload(std::vector<StepState>{{0, 0.0f, 1e-3f, {}, {}, rounding_key(3, 0)}});
      const DistinctRows distinct(device(), on_device.bags.nnz);
      found.find_distinct(queue(), on_device.bags, distinct);
      found.update(queue(), on_device.bags, distinct, {device_gradients.data(), stride, DType::bf16},
                   state.as<StepState>());
      const auto a = all_rows(expected), b = all_rows(found);
      for (size_t t = 0; t < rows_.size(); ++t) EXPECT_TRUE(same_bits(a[t], b[t])) << t;
    }
  }
}

TEST_P(UpdateTest, OtherRowsKeepTheirBits) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store(OptimizerKind::adagrad);
    const auto before = all_rows(store);
    const HostBags bags = random_bags(rows_, 33, false, 6);
    const auto touched = update(store, bags, normal_row(33 * 4 * dim_, 1), 4 * dim_, 0.1f);
    const auto after = all_rows(store);
    for (int64_t row = 0; row < rows_[3]; ++row) {
      const bool is_touched = std::find(touched.begin(), touched.end(), std::pair(int64_t(3), row)) != touched.end();
      EXPECT_EQ(std::memcmp(&before[3][size_t(row * dim_)], &after[3][size_t(row * dim_)], size_t(dim_) * 4) == 0,
                !is_touched);
    }
  }
}

TEST_P(UpdateTest, ThreadsDoNotChangeBits) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    std::vector<std::vector<float>> results[2];
    for (int threads : {1, 2}) {
      const ThreadLimit limit(threads);
      step_ = 0;
      EmbeddingStore store = make_store(OptimizerKind::rowwise_adagrad);
      for (uint64_t step = 0; step < 3; ++step)
        update(store, random_bags(rows_, 1000, true, step), normal_row(1000 * 4 * dim_, step), 4 * dim_, 0.1f);
      results[threads - 1] = all_rows(store);
    }
    for (size_t t = 0; t < rows_.size(); ++t) EXPECT_TRUE(same_bits(results[0][t], results[1][t]));
  }
}

TEST_P(UpdateTest, MoreIdsThanTheStoreWasMadeForAreAnError) {
  for (const auto& [dim, dtype] : kShapes) {
    dim_ = dim, dtype_ = dtype;
    EmbeddingStore store = make_store(OptimizerKind::sgd, 10);
    const HostBags bags = random_bags(rows_, 3, false, 7);
    EXPECT_ERROR(update(store, bags, std::vector<float>(size_t(3 * 4 * dim_)), 4 * dim_, 0.1f),
                 "12 ids, expected at most 10");
  }
}

DLRM_ON_ALL_DEVICES(LookupTest);
DLRM_ON_ALL_DEVICES(UniqueTest);
DLRM_ON_ALL_DEVICES(UpdateTest);

}  // namespace
}  // namespace dlrm
