// Dense operations of the CPU. The only door to the BLAS, which runs on one thread: work is cut into tiles of a size
// that does not depend on the thread count, one gemm each, so that neither do the bits.
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/parallel.h"

namespace dlrm {
namespace {

constexpr int64_t kRowTile = 128;  // samples per gemm, forward and to the input
constexpr int64_t kOutTile = 64;   // tile of a weight gradient
constexpr int64_t kInTile = 128;
constexpr int64_t kSamples = 16;     // samples per piece of an interaction
constexpr int64_t kElements = 4096;  // elements per piece of anything element-wise

Matrix block_of(Matrix m, int64_t row, int64_t row_end, int64_t col, int64_t col_end) {
  std::byte* data = static_cast<std::byte*>(m.data) + size_t(row * m.stride + col) * size_of(m.dtype);
  return {data, row_end - row, col_end - col, m.stride, m.dtype};
}
Matrix rows_of(Matrix m, int64_t begin, int64_t end) {
  return block_of(m, begin, end, 0, m.cols);
}
Matrix columns_of(Matrix m, int64_t begin, int64_t end) {
  return block_of(m, 0, m.rows, begin, end);
}

/// A matrix in fp32: itself, or a copy.
class Floats {
 public:
  explicit Floats(Matrix m) : matrix_(m) {
    if (m.dtype == DType::fp32) return;
    copy_.resize(size_t(m.rows * m.cols));
    for (int64_t r = 0; r < m.rows; ++r)
      std::transform(m.row<Bf16>(r), m.row<Bf16>(r) + m.cols, &copy_[size_t(r * m.cols)],
                     [](Bf16 value) { return to_float(value); });
    matrix_ = {copy_.data(), m.rows, m.cols, m.cols};
  }
  operator Matrix() const { return matrix_; }

 private:
  std::vector<float> copy_;
  Matrix matrix_;
};

/// c = op(a) op(b), all fp32
void gemm(CBLAS_TRANSPOSE ta, Matrix a, CBLAS_TRANSPOSE tb, Matrix b, Matrix c) {
  const int64_t k = ta == CblasNoTrans ? a.cols : a.rows;
  cblas_sgemm(CblasRowMajor, ta, tb, int(c.rows), int(c.cols), int(k), 1.0f, a.row(0), int(a.stride), b.row(0),
              int(b.stride), 0.0f, c.row(0), int(c.stride));
}

/// Calls body with an fp32 matrix to fill: m itself, or one that is rounded into m.
template <class F>
void fill_as_floats(Matrix m, F body) {
  if (m.dtype == DType::fp32) return body(m);
  std::vector<float> values(size_t(m.rows * m.cols));
  body(Matrix{values.data(), m.rows, m.cols, m.cols});
  for (int64_t r = 0; r < m.rows; ++r)
    std::transform(&values[size_t(r * m.cols)], &values[size_t(r * m.cols)] + m.cols, m.row<Bf16>(r), to_bf16);
}

/// Masks dy where y is shut; sums its columns into bias.
template <class T>
void mask_and_sum(Matrix y, bool relu, Matrix dy, float* bias) {
  parallel_for(dy.cols, kOutTile, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) bias[j] = 0;
    for (int64_t r = 0; r < dy.rows; ++r) {
      T* gradient = dy.row<T>(r);
      const T* value = y.row<T>(r);
      for (int64_t j = begin; j < end; ++j) {
        if (relu) gradient[j] = to_float(value[j]) <= 0 ? T{} : gradient[j];  // NaN is not shut
        bias[j] += to_float(gradient[j]);
      }
    }
  });
}

/// A sample's vectors in fp32.   to [vectors, dim]
template <class T>
void gather(const Interaction& v, int64_t sample, Matrix to) {
  for (int64_t i = 0; i < v.vectors; ++i) {
    const T* from = v.vector<T>(sample, i);
    std::transform(from, from + to.cols, to.row(i), [](T value) { return to_float(value); });
  }
}

}  // namespace

void CpuDevice::linear(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Precision) {
  const Floats weight(layer.weight), bias({layer.bias, 1, y.cols, y.cols, layer.weight.dtype});
  const float* bias_values = Matrix(bias).row(0);
  parallel_for(x.rows, kRowTile, [&](int64_t begin, int64_t end) {
    fill_as_floats(rows_of(y, begin, end), [&](Matrix part) {
      gemm(CblasNoTrans, Floats(rows_of(x, begin, end)), CblasTrans, weight, part);
      for (int64_t r = 0; r < part.rows; ++r) {
        float* out = part.row(r);
        for (int64_t j = 0; j < part.cols; ++j) {
          const float sum = out[j] + bias_values[j];
          out[j] = relu && sum < 0 ? 0.0f : sum;  // NaN stays NaN
        }
      }
    });
  });
}

void CpuDevice::linear_backward(Queue&, Matrix given_x, Linear layer, bool relu, Matrix y, Matrix given_dy, Linear grad,
                                Matrix dx, Precision) {
  with_dtype(y.dtype, [&]<class T>(T) { mask_and_sum<T>(y, relu, given_dy, static_cast<float*>(grad.bias)); });
  const Floats x_floats(given_x), dy_floats(given_dy), weight(layer.weight);
  const Matrix x = x_floats, dy = dy_floats;
  const int64_t out_tiles = (grad.weight.rows + kOutTile - 1) / kOutTile;
  const int64_t in_tiles = (grad.weight.cols + kInTile - 1) / kInTile;
  parallel_for(out_tiles * in_tiles, 1, [&](int64_t tile, int64_t) {
    const int64_t out = tile / in_tiles * kOutTile, in = tile % in_tiles * kInTile;
    const int64_t out_end = std::min(out + kOutTile, grad.weight.rows),
                  in_end = std::min(in + kInTile, grad.weight.cols);
    gemm(CblasTrans, columns_of(dy, out, out_end), CblasNoTrans, columns_of(x, in, in_end),
         columns_of(rows_of(grad.weight, out, out_end), in, in_end));
  });
  if (!dx.data) return;
  parallel_for(x.rows, kRowTile, [&](int64_t begin, int64_t end) {
    fill_as_floats(rows_of(dx, begin, end),
                   [&](Matrix part) { gemm(CblasNoTrans, rows_of(dy, begin, end), CblasNoTrans, weight, part); });
  });
}

void CpuDevice::interact(Queue&, const Interaction& v, Matrix out, Precision) {
  with_dtype(out.dtype, [&]<class T>(T) {
    const int64_t vectors = v.vectors, dim = v.dim();
    parallel_for(v.batch(), kSamples, [&](int64_t begin, int64_t end) {
      std::vector<float> products(size_t(vectors * vectors)), values(size_t(vectors * dim));
      const Matrix x{values.data(), vectors, dim, dim};
      for (int64_t sample = begin; sample < end; ++sample) {
        gather<T>(v, sample, x);
        gemm(CblasNoTrans, x, CblasTrans, x, {products.data(), vectors, vectors, vectors});
        T* to = out.row<T>(sample);
        T* const row_end = to + out.cols;
        to = std::transform(x.row(0), x.row(1), to, rounded<T>);
        for (int64_t i = 1; i < vectors; ++i) {
          const float* from = &products[size_t(i * vectors)];
          to = std::transform(from, from + i, to, rounded<T>);
        }
        std::fill(to, row_end, T{});
      }
    });
  });
}

void CpuDevice::interact_backward(Queue&, const Interaction& v, Matrix dout, Matrix dfirst, Matrix drest, Precision) {
  with_dtype(dout.dtype, [&]<class T>(T) {
    const int64_t vectors = v.vectors, dim = v.dim();
    parallel_for(v.batch(), kSamples, [&](int64_t begin, int64_t end) {
      std::vector<float> pairs(size_t(vectors * vectors), 0.0f);  // symmetric, zero diagonal
      std::vector<float> values(size_t(vectors * dim)), gradients(size_t(vectors * dim));
      const Matrix x{values.data(), vectors, dim, dim}, dx{gradients.data(), vectors, dim, dim};
      for (int64_t sample = begin; sample < end; ++sample) {
        gather<T>(v, sample, x);
        const T* from = dout.row<T>(sample);
        const T* pair = from + dim;
        for (int64_t i = 1; i < vectors; ++i)
          for (int64_t j = 0; j < i; ++j)
            pairs[size_t(i * vectors + j)] = pairs[size_t(j * vectors + i)] = to_float(*pair++);
        gemm(CblasNoTrans, {pairs.data(), vectors, vectors, vectors}, CblasNoTrans, x, dx);
        for (int64_t j = 0; j < dim; ++j) gradients[size_t(j)] += to_float(from[j]);
        std::transform(dx.row(0), dx.row(1), dfirst.row<T>(sample), rounded<T>);
        std::transform(dx.row(1), dx.row(vectors), drest.row<T>(sample), rounded<T>);
      }
    });
  });
}

void CpuDevice::bce_with_logits(Queue&, const float* logits, const float* labels, int64_t batch, int64_t global_batch,
                                float* dlogits, float* loss) {
  std::vector<double> partial(size_t((batch + kElements - 1) / kElements));
  parallel_for(batch, kElements, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double x = logits[i], y = labels[i], tail = std::exp(-std::abs(x));
      const double sigmoid = (x >= 0 ? 1.0 : tail) / (1.0 + tail);
      sum += std::max(x, 0.0) - x * y + std::log1p(tail) + (x - x);  // x - x: NaN and infinity must not pass unseen
      dlogits[i] = float((sigmoid - y) / double(global_batch));
    }
    partial[size_t(begin / kElements)] = sum;
  });
  double sum = 0;
  for (double part : partial) sum += part;
  *loss = float(sum / double(global_batch));
}

void CpuDevice::dense_update(Queue&, float* weights, const float* gradients, float* states, int64_t count,
                             OptimizerRule rule, const StepState* state, Bf16* rounded) {
  check(rule.kind != OptimizerKind::rowwise_adagrad, "optimizer ", optimizer_name(rule.kind),
        " is for tables, expected sgd, adagrad or adam for MLPs");
  const float lr = state->dense_lr, eps = rule.eps;
  parallel_for(count, kElements, [&](int64_t begin, int64_t end) {
    if (rule.kind == OptimizerKind::sgd) {
      for (int64_t i = begin; i < end; ++i) weights[i] = sgd(weights[i], gradients[i], lr);
    } else if (rule.kind == OptimizerKind::adagrad) {
      for (int64_t i = begin; i < end; ++i) weights[i] = adagrad(weights[i], gradients[i], lr, eps, states[i]);
    } else {
      for (int64_t i = begin; i < end; ++i)
        weights[i] = adam(weights[i], gradients[i], lr, rule, state->dense_adam, states[i], states[count + i]);
    }
    if (rounded) std::transform(weights + begin, weights + end, rounded + begin, to_bf16);
  });
}

}  // namespace dlrm
