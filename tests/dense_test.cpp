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
  DeviceMatrix make(int64_t rows, int64_t cols, int64_t stride, const std::vector<float>& values,
                    DType dtype = DType::fp32) {
    return with_dtype(dtype, [&]<class T>(T) {
      std::vector<T> padded(size_t(rows * stride), rounded<T>(kNan));
      for (int64_t r = 0; r < rows && !values.empty(); ++r)
        std::transform(&values[size_t(r * cols)], &values[size_t(r * cols)] + cols, &padded[size_t(r * stride)],
                       rounded<T>);
      DeviceMatrix result{upload(padded), {}};
      result.matrix = {result.buffer.data(), rows, cols, stride, dtype};
      return result;
    });
  }
  /// Without values: NaN.
  DeviceMatrix make(int64_t rows, int64_t cols) { return make(rows, cols, cols, {}); }

  std::vector<float> values(const DeviceMatrix& m) {
    return with_dtype(m.matrix.dtype, [&]<class T>(T) {
      const std::vector<T> padded = download<T>(m.buffer);
      std::vector<float> result;
      for (int64_t r = 0; r < m.matrix.rows; ++r)
        for (int64_t c = 0; c < m.matrix.cols; ++c) result.push_back(to_float(padded[size_t(r * m.matrix.stride + c)]));
      return result;
    });
  }

  /// |found - expected| <= tolerance, and relative: roundings of the largest value's size
  void expect_near(const std::vector<float>& found, const std::vector<double>& expected, double tolerance,
                   double relative = 0) {
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0;
    for (double value : expected) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance + relative * largest) << i;
  }

  std::vector<Precision> precisions() {
    std::vector<Precision> all;
    for (Precision p : {Precision::fp32, Precision::tf32, Precision::bf16})
      if (device().supports(p)) all.push_back(p);
    return all;
  }

  /// Inputs that tf32 and bf16 hold exactly, so that only sums and results are rounded.
  static std::vector<float> coarse(std::vector<float> values) {
    for (float& value : values) value = to_float(to_bf16(value));
    return values;
  }

  /// Of results, relative to the largest: bf16 has 8 bits, and a bias may be added to a rounded sum.
  static double relative_error(Precision precision) { return precision == Precision::bf16 ? 2.0 / 256 : 0; }
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
      for (const auto& [in, out] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {13, 65}, {140, 33}, {64, 1}, {64, 128}, {480, 256}})
        for (bool relu : {false, true}) cases.push_back({batch, in, out, relu, in == 13});
    return cases;
  }
};

TEST_P(LinearTest, ForwardAndBackwardEqualTheNaiveLoop) {
  for (Precision precision : precisions()) {
    const DType dtype = activation_dtype(precision);
    for (const auto& [batch, in, out, relu, strided] : cases()) {
      SCOPED_TRACE(text(kPrecisionNames[size_t(precision)], ", batch ", batch, ", ", in, " to ", out));
      const int64_t pad = strided ? 5 : 0;
      const std::vector<float> x = coarse(normal_row(batch * in, 1, 1)), w = coarse(normal_row(out * in, 2, 0.3)),
                               b = coarse(normal_row(out, 3, 0.3)), dy = coarse(normal_row(batch * out, 4, 1));
      const DType y_dtype = out == 1 ? DType::fp32 : dtype;
      const DeviceMatrix dx_m = make(batch, in, in + pad, {}, dtype), x_m = make(batch, in, in + pad, x, dtype),
                         w_m = make(out, in, in + pad, w, dtype), y_m = make(batch, out, out + pad, {}, y_dtype),
                         dy_m = make(batch, out, out + pad, dy, y_dtype), dw_m = make(out, in, in + pad, {}),
                         b_m = make(1, out, out, b, dtype), db_m = make(1, out);
      const Linear layer{w_m.matrix, b_m.matrix.data}, grad{dw_m.matrix, db_m.matrix.data};
      device().linear(queue(), x_m.matrix, layer, relu, y_m.matrix, precision);
      device().linear_backward(queue(), x_m.matrix, layer, relu, y_m.matrix, dy_m.matrix, grad, dx_m.matrix, precision);

      std::vector<double> y(size_t(batch * out)), dw(size_t(out * in)), db(static_cast<size_t>(out)),
          dx(size_t(batch * in));
      const std::vector<float> y_found = values(y_m);
      for (int64_t r = 0; r < batch; ++r) {
        for (int64_t o = 0; o < out; ++o) {
          double sum = b[size_t(o)];
          for (int64_t i = 0; i < in; ++i) sum += double(x[size_t(r * in + i)]) * w[size_t(o * in + i)];
          y[size_t(r * out + o)] = relu && sum < 0 ? 0 : sum;
          const double g = relu && y_found[size_t(r * out + o)] <= 0 ? 0 : dy[size_t(r * out + o)];
          db[size_t(o)] += g;
          for (int64_t i = 0; i < in; ++i) {
            dw[size_t(o * in + i)] += g * x[size_t(r * in + i)];
            dx[size_t(r * in + i)] += g * w[size_t(o * in + i)];
          }
        }
      }
      const double relative = relative_error(precision);
      expect_near(values(y_m), y, 1e-4, y_dtype == DType::bf16 ? relative : 0);
      expect_near(values(db_m), db, 1e-3);
      expect_near(values(dw_m), dw, 1e-3);
      expect_near(values(dx_m), dx, 1e-4, relative);
      if (HasFailure()) return;
    }
  }
}

TEST_P(LinearTest, ReluLetsNanPass) {
  for (Precision precision : precisions()) {
    const DType dtype = activation_dtype(precision);
    for (int64_t out : {1, 64}) {
      std::vector<float> inputs(64, 1.0f);
      inputs[5] = kNan;
      const DeviceMatrix x = make(1, 64, 64, inputs, dtype),
                         w = make(out, 64, 64, std::vector<float>(size_t(out * 64), 1.0f), dtype),
                         b = make(1, out, out, std::vector<float>(size_t(out), 0.0f), dtype),
                         y = make(1, out, out, {}, out == 1 ? DType::fp32 : dtype);
      device().linear(queue(), x.matrix, {w.matrix, b.matrix.data}, true, y.matrix, precision);
      for (float value : values(y)) EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST_P(LinearTest, GradientsPassWhereTheOutputIsNan) {
  for (Precision precision : precisions()) {
    const DType dtype = activation_dtype(precision);
    for (int64_t out : {1, 64}) {
      const std::vector<float> ones(64, 1.0f);
      const DType y_dtype = out == 1 ? DType::fp32 : dtype;
      const DeviceMatrix x = make(1, 1, 1, {1}, dtype), w = make(out, 1, 1, ones, dtype),
                         b = make(1, out, out, ones, dtype),
                         y = make(1, out, out, std::vector<float>(size_t(out), kNan), y_dtype),
                         dy = make(1, out, out, std::vector<float>(size_t(out), 3), y_dtype), dw = make(out, 1),
                         db = make(1, out), dx = make(1, 1, 1, {}, dtype);
      device().linear_backward(queue(), x.matrix, {w.matrix, b.matrix.data}, true, y.matrix, dy.matrix,
                               {dw.matrix, db.matrix.data}, dx.matrix, precision);
      EXPECT_EQ(values(db)[0], 3.0f);
    }
  }
}

TEST_P(LinearTest, ThreadsDoNotChangeBits) {
  for (Precision precision : precisions()) {
    const DType dtype = activation_dtype(precision);
    std::vector<float> results[2];
    for (int threads : {1, 2}) {
      const ThreadLimit limit(threads);
      const DeviceMatrix x = make(1000, 140, 140, normal_row(140000, 1), dtype),
                         w = make(70, 140, 140, normal_row(9800, 2), dtype),
                         b = make(1, 70, 70, normal_row(70, 3), dtype), y = make(1000, 70, 70, {}, dtype),
                         dy = make(1000, 70, 70, normal_row(70000, 4), dtype), dw = make(70, 140), db = make(1, 70),
                         dx = make(1000, 140, 140, {}, dtype);
      device().linear(queue(), x.matrix, {w.matrix, b.matrix.data}, true, y.matrix, precision);
      device().linear_backward(queue(), x.matrix, {w.matrix, b.matrix.data}, true, y.matrix, dy.matrix,
                               {dw.matrix, db.matrix.data}, dx.matrix, precision);
      for (const DeviceMatrix* m : {&y, &dw, &db, &dx}) {
        const std::vector<float> v = values(*m);
        results[threads - 1].insert(results[threads - 1].end(), v.begin(), v.end());
      }
    }
    EXPECT_TRUE(same_bits(results[0], results[1]));
  }
}

class InteractTest : public DenseTest {};

TEST_P(InteractTest, ForwardAndBackwardEqualTheNaiveLoop) {
  for (Precision precision : precisions()) {
    const DType dtype = activation_dtype(precision);
    for (int64_t vectors : {1, 2, 5, 27, 28, 31, 32, 33}) {
      for (int64_t dim : {1, 16, 33, 64, 128, 256}) {
        for (int64_t batch : {0, 1, 33}) {
          for (bool indexed : {false, true}) {
            SCOPED_TRACE(text(kPrecisionNames[size_t(precision)], ", ", vectors, " x ", dim, ", batch ", batch,
                              indexed ? ", indexed" : ""));
            const int64_t rest = vectors - 1, pairs = vectors * rest / 2, width = (dim + pairs + 7) / 8 * 8;
            const std::vector<float> first = coarse(normal_row(batch * dim, 1, 1)),
                                     others = coarse(normal_row(batch * rest * dim, 3, 1)),
                                     d = coarse(normal_row(batch * width, 2, 1));
            // Row r of `others` is vector i of sample s by a shuffle, or by position.
            std::vector<int32_t> index(size_t(rest * batch));
            const auto row_of = [&](int64_t s, int64_t i) {
              return indexed ? int64_t(index[size_t((i - 1) * batch + s)]) : s * rest + i - 1;
            };
            for (size_t i = 0; i < index.size(); ++i) index[i] = int32_t((i * 7 + 3) % index.size());
            const DeviceMatrix first_m = make(batch, dim, dim, first, dtype),
                               rest_m = indexed ? make(batch * rest, dim, dim, others, dtype)
                                                : make(batch, rest * dim, rest * dim, others, dtype),
                               out_m = make(batch, width, width, {}, dtype), d_m = make(batch, width, width, d, dtype),
                               dfirst_m = make(batch, dim, dim, {}, dtype),
                               drest_m = make(batch, rest * dim, rest * dim, {}, dtype);
            const Buffer index_m = upload(index);
            const Interaction v{vectors, first_m.matrix, rest_m.matrix, indexed ? index_m.as<int32_t>() : nullptr};
            device().interact(queue(), v, out_m.matrix, precision);
            device().interact_backward(queue(), v, d_m.matrix, dfirst_m.matrix, drest_m.matrix, precision);

            std::vector<double> out(size_t(batch * width)), dv(size_t(batch * vectors * dim));
            for (int64_t s = 0; s < batch; ++s) {
              const auto value = [&](int64_t i, int64_t k) {
                return double(i == 0 ? first[size_t(s * dim + k)] : others[size_t(row_of(s, i) * dim + k)]);
              };
              const auto at = [&](int64_t i, int64_t k) { return size_t((s * vectors + i) * dim + k); };
              for (int64_t k = 0; k < dim; ++k) {
                out[size_t(s * width + k)] = value(0, k);
                dv[at(0, k)] += d[size_t(s * width + k)];
              }
              for (int64_t i = 0; i < vectors; ++i) {
                for (int64_t j = 0; j < i; ++j) {
                  const size_t place = size_t(s * width + dim + i * (i - 1) / 2 + j);
                  for (int64_t k = 0; k < dim; ++k) {
                    out[place] += value(i, k) * value(j, k);
                    dv[at(i, k)] += double(d[place]) * value(j, k);
                    dv[at(j, k)] += double(d[place]) * value(i, k);
                  }
                }
              }
            }
            std::vector<double> dfirst, drest;
            for (size_t i = 0; i < dv.size(); ++i) (int64_t(i) / dim % vectors == 0 ? dfirst : drest).push_back(dv[i]);
            const double relative = relative_error(precision);
            expect_near(values(out_m), out, 1e-4, relative);
            expect_near(values(dfirst_m), dfirst, 1e-4, relative);
            expect_near(values(drest_m), drest, 1e-4, relative);
            if (HasFailure()) return;
          }
        }
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
    for (OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adagrad, OptimizerKind::adam}) {
      const OptimizerRule rule{kind, 1e-3f};
      const std::vector<float> w = normal_row(count, 1, 1), g = normal_row(count, 2, 1);
      std::vector<float> states = normal_row(2 * count, 3, 1);  // adagrad's first half and adam's second are squares
      for (float& x : states) x = x * x;
      const Buffer w_b = upload(w), g_b = upload(g), states_b = upload(states),
                   rounded_b(device(), size_t(count) * sizeof(Bf16)),
                   state = upload(std::vector<StepState>{{4, 0.1f, 0.0f, adam_correction(rule, 4)}});
      device().dense_update(queue(), w_b.as<float>(), g_b.as<float>(), states_b.as<float>(), count, rule,
                            state.as<StepState>(), rounded_b.as<Bf16>());
      const std::vector<float> found = download<float>(w_b), found_states = download<float>(states_b);
      const std::vector<Bf16> rounded = download<Bf16>(rounded_b);
      for (size_t i = 0; i < w.size(); ++i) ASSERT_EQ(rounded[i].bits, to_bf16(found[i]).bits);
      const double lr = double(0.1f), eps = double(1e-3f), beta1 = double(0.9f), beta2 = double(0.999f);
      for (size_t i = 0; i < w.size(); ++i) {
        double first = states[i], second = states[i + w.size()], step = lr * g[i];
        if (kind == OptimizerKind::adagrad) {
          first += double(g[i]) * g[i];
          step = lr * g[i] / (std::sqrt(first) + eps);
        } else if (kind == OptimizerKind::adam) {
          first = beta1 * first + (1 - beta1) * g[i];
          second = beta2 * second + (1 - beta2) * g[i] * g[i];
          step = lr / (1 - std::pow(beta1, 5)) * first / (std::sqrt(second) / std::sqrt(1 - std::pow(beta2, 5)) + eps);
        }
        ASSERT_NEAR(found[i], w[i] - step, 1e-5);
        ASSERT_NEAR(found_states[i], first, 1e-5);
        ASSERT_NEAR(found_states[i + w.size()], second, 1e-5);
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
