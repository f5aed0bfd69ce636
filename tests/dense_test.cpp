// Dense operations against naive loops in double.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/parallel.h"
#include "tests/device_test.h"
#include "tests/rows.h"
#include "tests/temp_dir.h"

namespace dlrm {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// A matrix in device memory whose rows lie `stride` apart.
struct DeviceMatrix {
  Buffer buffer;
  Matrix matrix;
};

class DenseTest : public DeviceTest {
 protected:
  DeviceMatrix make(int64_t rows, int64_t cols, int64_t stride, const std::vector<float>& values) {
    std::vector<float> padded(size_t(rows * stride), kNan);
    for (int64_t r = 0; r < rows && !values.empty(); ++r)
      std::copy_n(&values[size_t(r * cols)], cols, &padded[size_t(r * stride)]);
    DeviceMatrix result{upload(padded), {}};
    result.matrix = {result.buffer.as<float>(), rows, cols, stride};
    return result;
  }
  /// Without values: NaN.
  DeviceMatrix make(int64_t rows, int64_t cols) { return make(rows, cols, cols, {}); }

  std::vector<float> values(const DeviceMatrix& m) {
    const std::vector<float> padded = download<float>(m.buffer);
    std::vector<float> result;
    for (int64_t r = 0; r < m.matrix.rows; ++r)
      result.insert(result.end(), &padded[size_t(r * m.matrix.stride)],
                    &padded[size_t(r * m.matrix.stride)] + m.matrix.cols);
    return result;
  }

  void expect_near(const std::vector<float>& found, const std::vector<double>& expected, double tolerance) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
  }
};

struct LinearCase {
  int64_t batch, in, out;
  bool relu, strided;
};

class LinearTest : public DenseTest {
 protected:
  static std::vector<LinearCase> cases() {
    std::vector<LinearCase> cases;
    for (int64_t batch : {0, 1, 31, 33, 1000})
      for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {13, 65}, {140, 33}, {64, 1}})
        for (bool relu : {false, true}) cases.push_back({batch, in, out, relu, in == 13});
    return cases;
  }
};

TEST_P(LinearTest, ForwardAndBackwardEqualTheNaiveLoop) {
  for (const auto& [batch, in, out, relu, strided] : cases()) {
    const int64_t pad = strided ? 5 : 0;
    const std::vector<float> x = normal_row(batch * in, 1, 1), w = normal_row(out * in, 2, 0.3),
                             b = normal_row(out, 3, 0.3), dy = normal_row(batch * out, 4, 1);
    const DeviceMatrix dx_m = make(batch, in, in + pad, {}), x_m = make(batch, in, in + pad, x),
                       w_m = make(out, in, in + pad, w), y_m = make(batch, out, out + pad, {}),
                       dy_m = make(batch, out, out + pad, dy), dw_m = make(out, in, in + pad, {}),
                       b_m = make(1, out, out, b), db_m = make(1, out);
    const Linear layer{w_m.matrix, b_m.matrix.data}, grad{dw_m.matrix, db_m.matrix.data};
    device().linear(queue(), x_m.matrix, layer, relu, y_m.matrix, Precision::fp32);
    device().linear_backward(queue(), x_m.matrix, layer, relu, y_m.matrix, dy_m.matrix, grad, dx_m.matrix,
                             Precision::fp32);

    std::vector<double> y(size_t(batch * out)), dw(size_t(out * in)), db(static_cast<size_t>(out)),
        dx(size_t(batch * in));
    for (int64_t r = 0; r < batch; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = b[size_t(o)];
        for (int64_t i = 0; i < in; ++i) sum += double(x[size_t(r * in + i)]) * w[size_t(o * in + i)];
        y[size_t(r * out + o)] = relu && sum < 0 ? 0 : sum;
        const double g = relu && sum <= 0 ? 0 : dy[size_t(r * out + o)];
        db[size_t(o)] += g;
        for (int64_t i = 0; i < in; ++i) {
          dw[size_t(o * in + i)] += g * x[size_t(r * in + i)];
          dx[size_t(r * in + i)] += g * w[size_t(o * in + i)];
        }
      }
    }
    expect_near(values(y_m), y, 1e-4);
    expect_near(values(db_m), db, 1e-3);
    expect_near(values(dw_m), dw, 1e-3);
    expect_near(values(dx_m), dx, 1e-4);
  }
}

TEST_P(LinearTest, ReluLetsNanPass) {
  const DeviceMatrix x = make(1, 1, 1, {kNan}), w = make(1, 1, 1, {1}), b = make(1, 1, 1, {0}), y = make(1, 1, 1, {0});
  device().linear(queue(), x.matrix, {w.matrix, b.matrix.data}, true, y.matrix, Precision::fp32);
  EXPECT_TRUE(std::isnan(values(y)[0]));
}

TEST_P(LinearTest, GradientsPassWhereTheOutputIsNan) {
  const DeviceMatrix x = make(1, 1, 1, {1}), w = make(1, 1, 1, {1}), b = make(1, 1, 1, {0}), y = make(1, 1, 1, {kNan}),
                     dy = make(1, 1, 1, {3}), dw = make(1, 1), db = make(1, 1), dx = make(1, 1);
  device().linear_backward(queue(), x.matrix, {w.matrix, b.matrix.data}, true, y.matrix, dy.matrix,
                           {dw.matrix, db.matrix.data}, dx.matrix, Precision::fp32);
  EXPECT_EQ(values(db)[0], 3.0f);
}

TEST_P(LinearTest, ThreadsDoNotChangeBits) {
  std::vector<float> results[2];
  for (int threads : {1, 2}) {
    const ThreadLimit limit(threads);
    const DeviceMatrix x = make(1000, 140, 140, normal_row(140000, 1)), w = make(70, 140, 140, normal_row(9800, 2)),
                       b = make(1, 70, 70, normal_row(70, 3)), y = make(1000, 70),
                       dy = make(1000, 70, 70, normal_row(70000, 4)), dw = make(70, 140), db = make(1, 70),
                       dx = make(1000, 140);
    device().linear(queue(), x.matrix, {w.matrix, b.matrix.data}, true, y.matrix, Precision::fp32);
    device().linear_backward(queue(), x.matrix, {w.matrix, b.matrix.data}, true, y.matrix, dy.matrix,
                             {dw.matrix, db.matrix.data}, dx.matrix, Precision::fp32);
    for (const DeviceMatrix* m : {&y, &dw, &db, &dx}) {
      const std::vector<float> v = values(*m);
      results[threads - 1].insert(results[threads - 1].end(), v.begin(), v.end());
    }
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

class InteractTest : public DenseTest {};

TEST_P(InteractTest, ForwardAndBackwardEqualTheNaiveLoop) {
  for (int64_t vectors : {1, 2, 5, 27, 28, 29}) {
    for (int64_t dim : {1, 16, 33, 128, 256}) {
      for (int64_t batch : {0, 1, 33}) {
        const int64_t pairs = vectors * (vectors - 1) / 2, width = (dim + pairs + 7) / 8 * 8;
        const std::vector<float> v = normal_row(batch * vectors * dim, 1, 1), d = normal_row(batch * width, 2, 1);
        const DeviceMatrix v_m = make(batch, vectors * dim, vectors * dim, v), out_m = make(batch, width),
                           d_m = make(batch, width, width, d), dv_m = make(batch, vectors * dim);
        device().interact(queue(), v_m.matrix, vectors, out_m.matrix);
        device().interact_backward(queue(), v_m.matrix, vectors, d_m.matrix, dv_m.matrix);

        std::vector<double> out(size_t(batch * width)), dv(v.size());
        for (int64_t s = 0; s < batch; ++s) {
          const auto at = [&](int64_t i, int64_t k) { return size_t((s * vectors + i) * dim + k); };
          for (int64_t k = 0; k < dim; ++k) {
            out[size_t(s * width + k)] = v[at(0, k)];
            dv[at(0, k)] += d[size_t(s * width + k)];
          }
          for (int64_t i = 0; i < vectors; ++i) {
            for (int64_t j = 0; j < i; ++j) {
              const size_t place = size_t(s * width + dim + i * (i - 1) / 2 + j);
              for (int64_t k = 0; k < dim; ++k) {
                out[place] += double(v[at(i, k)]) * v[at(j, k)];
                dv[at(i, k)] += double(d[place]) * v[at(j, k)];
                dv[at(j, k)] += double(d[place]) * v[at(i, k)];
              }
            }
          }
        }
        expect_near(values(out_m), out, 1e-4);
        expect_near(values(dv_m), dv, 1e-4);
      }
    }
  }
}

class LossTest : public DenseTest {
 protected:
  struct Result {
    float loss;
    std::vector<float> gradient;
  };
  Result run(const std::vector<float>& logits, const std::vector<float>& labels, int64_t global_batch) {
    const Buffer x = upload(logits), y = upload(labels), dx = upload(std::vector<float>(logits.size(), kNan)),
                 loss = upload(std::vector<float>{kNan});
    device().bce_with_logits(queue(), x.as<float>(), y.as<float>(), int64_t(logits.size()), global_batch,
                             dx.as<float>(), loss.as<float>());
    return {download<float>(loss)[0], download<float>(dx)};
  }
};

TEST_P(LossTest, EqualsTheTextbookFormula) {
  for (int64_t batch : {1, 31, 33, 1000, 10000}) {
    const std::vector<float> logits = normal_row(batch, 1, 3);
    std::vector<float> labels(static_cast<size_t>(batch));
    for (int64_t i = 0; i < batch; ++i) labels[size_t(i)] = float(word_at(2, i) % 2);
    const Result result = run(logits, labels, 2 * batch);
    double loss = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double p = 1 / (1 + std::exp(-double(logits[i])));
      loss -= (labels[i] > 0 ? std::log(p) : std::log1p(-p)) / double(2 * batch);
      ASSERT_NEAR(result.gradient[i], (p - labels[i]) / double(2 * batch), 1e-6 / double(batch));
    }
    EXPECT_NEAR(result.loss, loss, 1e-6 * loss);
  }
}

TEST_P(LossTest, ExtremeLogitsHaveFiniteLosses) {
  EXPECT_EQ(run({-1e4f}, {1}, 1).loss, 1e4f);
  EXPECT_EQ(run({1e4f}, {0}, 1).loss, 1e4f);
  EXPECT_EQ(run({1e4f}, {1}, 1).loss, 0.0f);
  EXPECT_EQ(run({100.0f}, {0}, 1).gradient[0], 1.0f);
}

TEST_P(LossTest, NanAndInfinityAreSeen) {
  for (float bad : {kNan, kInf, -kInf})
    for (float label : {0.0f, 1.0f})
      EXPECT_FALSE(std::isfinite(run({0.5f, bad, 1.0f}, {1, label, 0}, 3).loss)) << bad << label;
}

class DenseUpdateTest : public DenseTest {};

TEST_P(DenseUpdateTest, EqualsPyTorchsDefinition) {
  for (int64_t count : {0, 1, 31, 33, 10000}) {
    for (OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adagrad}) {
      const std::vector<float> w = normal_row(count, 1, 1), g = normal_row(count, 2, 1);
      std::vector<float> s = normal_row(count, 3, 1);
      for (float& x : s) x = x * x;
      const Buffer w_b = upload(w), g_b = upload(g), s_b = upload(s),
                   state = upload(std::vector<StepState>{{0, 0.1f, 0.0f}});
      device().dense_update(queue(), w_b.as<float>(), g_b.as<float>(), s_b.as<float>(), count, {kind, 1e-3f},
                            state.as<StepState>());
      const std::vector<float> found = download<float>(w_b), sums = download<float>(s_b);
      for (size_t i = 0; i < w.size(); ++i) {
        const double sum = double(s[i]) + double(g[i]) * g[i];
        const bool sgd = kind == OptimizerKind::sgd;
        ASSERT_NEAR(found[i], w[i] - double(0.1f) * g[i] / (sgd ? 1 : std::sqrt(sum) + double(1e-3f)), 1e-6);
        ASSERT_NEAR(sums[i], sgd ? s[i] : sum, 1e-5);
      }
    }
  }
}

class MemoryTest : public DenseTest {};

TEST_P(MemoryTest, NewMemoryIsZeroAndAligned) {
  const Buffer buffer(device(), 100000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
  EXPECT_EQ(download<char>(buffer), std::vector<char>(100000, 0));
}

TEST_P(MemoryTest, GrownMemoryKeepsItsPlaceAndContent) {
  const auto memory = device().reserve(size_t(1) << 32);
  memory->grow(1000);
  const std::vector<float> written = normal_row(250, 1);
  device().copy(queue(), memory->data(), written.data(), 1000);
  const std::byte* place = memory->data();
  memory->grow(size_t(100) << 20);
  EXPECT_EQ(memory->data(), place);
  std::vector<float> found(250);
  device().copy(queue(), found.data(), memory->data(), 1000);
  queue().synchronize();
  EXPECT_TRUE(same_bits(found, written));
  EXPECT_ERROR(memory->grow((size_t(1) << 32) + (size_t(64) << 20)), GetParam());
}

TEST(DeviceNameTest, ANameThatIsNoDevicesIsAnError) {
  for (const std::string name : {"gpu", "cudax", "cuda-1", "cuda0x", ""})
    EXPECT_ERROR(make_device(name), "device '" + name);
  EXPECT_EQ(make_device("cpu")->name(), "cpu");
}

DLRM_ON_ALL_DEVICES(LinearTest);
DLRM_ON_ALL_DEVICES(InteractTest);
DLRM_ON_ALL_DEVICES(LossTest);
DLRM_ON_ALL_DEVICES(DenseUpdateTest);
DLRM_ON_ALL_DEVICES(MemoryTest);

}  // namespace
}  // namespace dlrm
