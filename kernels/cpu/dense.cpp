// Dense operations of the CPU. The only door to the BLAS, which runs on one thread: work is cut into tiles of a size
// that does not depend on the thread count, one gemm each, so that neither do the bits.
#include <cblas.h>

#include <cmath>
#include <cstring>
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

Matrix rows_of(Matrix m, int64_t begin, int64_t end) {
  return {m.row(begin), end - begin, m.cols, m.stride};
}
Matrix columns_of(Matrix m, int64_t begin, int64_t end) {
  return {m.data + begin, m.rows, end - begin, m.stride};
}

/// c = op(a) op(b)
void gemm(CBLAS_TRANSPOSE ta, Matrix a, CBLAS_TRANSPOSE tb, Matrix b, Matrix c) {
  const int64_t k = ta == CblasNoTrans ? a.cols : a.rows;
  cblas_sgemm(CblasRowMajor, ta, tb, int(c.rows), int(c.cols), int(k), 1.0f, a.data, int(a.stride), b.data,
              int(b.stride), 0.0f, c.data, int(c.stride));
}

/// Masks dy where y is shut; sums its columns into bias.
void mask_and_sum(Matrix y, bool relu, Matrix dy, float* bias) {
  parallel_for(dy.cols, kOutTile, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) bias[j] = 0;
    for (int64_t r = 0; r < dy.rows; ++r) {
      float* gradient = dy.row(r);
      const float* value = y.row(r);
      for (int64_t j = begin; j < end; ++j) {
        if (relu) gradient[j] = value[j] <= 0 ? 0.0f : gradient[j];  // NaN is not shut
        bias[j] += gradient[j];
      }
    }
  });
}

}  // namespace

void CpuDevice::linear(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Precision) {
  parallel_for(x.rows, kRowTile, [&](int64_t begin, int64_t end) {
    gemm(CblasNoTrans, rows_of(x, begin, end), CblasTrans, layer.weight, rows_of(y, begin, end));
    for (int64_t r = begin; r < end; ++r) {
      float* out = y.row(r);
      for (int64_t j = 0; j < y.cols; ++j) {
        const float sum = out[j] + layer.bias[j];
        out[j] = relu && sum < 0 ? 0.0f : sum;  // NaN stays NaN
      }
    }
  });
}

void CpuDevice::linear_backward(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad, Matrix dx,
                                Precision) {
  mask_and_sum(y, relu, dy, grad.bias);
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
    gemm(CblasNoTrans, rows_of(dy, begin, end), CblasNoTrans, layer.weight, rows_of(dx, begin, end));
  });
}

void CpuDevice::interact(Queue&, Matrix v, int64_t vectors, Matrix out) {
  const int64_t dim = v.cols / vectors;
  parallel_for(v.rows, kSamples, [&](int64_t begin, int64_t end) {
    std::vector<float> products(size_t(vectors * vectors));
    for (int64_t sample = begin; sample < end; ++sample) {
      const Matrix x{v.row(sample), vectors, dim, dim};
      gemm(CblasNoTrans, x, CblasTrans, x, {products.data(), vectors, vectors, vectors});
      float* to = out.row(sample);
      float* const row_end = to + out.cols;
      to = std::copy_n(x.data, dim, to);
      for (int64_t i = 1; i < vectors; ++i) to = std::copy_n(&products[size_t(i * vectors)], i, to);
      std::fill(to, row_end, 0.0f);
    }
  });
}

void CpuDevice::interact_backward(Queue&, Matrix v, int64_t vectors, Matrix dout, Matrix dv) {
  const int64_t dim = v.cols / vectors;
  parallel_for(v.rows, kSamples, [&](int64_t begin, int64_t end) {
    std::vector<float> pairs(size_t(vectors * vectors), 0.0f);  // symmetric, zero diagonal
    for (int64_t sample = begin; sample < end; ++sample) {
      const float* from = dout.row(sample) + dim;
      for (int64_t i = 1; i < vectors; ++i)
        for (int64_t j = 0; j < i; ++j) pairs[size_t(i * vectors + j)] = pairs[size_t(j * vectors + i)] = *from++;
      const Matrix x{v.row(sample), vectors, dim, dim}, dx{dv.row(sample), vectors, dim, dim};
      gemm(CblasNoTrans, {pairs.data(), vectors, vectors, vectors}, CblasNoTrans, x, dx);
      for (int64_t j = 0; j < dim; ++j) dx.data[j] += dout.row(sample)[j];
    }
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

void CpuDevice::dense_update(Queue&, float* weights, const float* gradients, float* sums, int64_t count,
                             OptimizerRule rule, const StepState* state) {
  check(rule.kind != OptimizerKind::rowwise_adagrad, "optimizer ", optimizer_name(rule.kind),
        " is for tables, expected sgd or adagrad for MLPs");
  const float lr = state->dense_lr, eps = rule.eps;
  parallel_for(count, kElements, [&](int64_t begin, int64_t end) {
    if (rule.kind == OptimizerKind::sgd) {
      for (int64_t i = begin; i < end; ++i) weights[i] = sgd(weights[i], gradients[i], lr);
    } else {
      for (int64_t i = begin; i < end; ++i) weights[i] = adagrad(weights[i], gradients[i], lr, eps, sums[i]);
    }
  });
}

}  // namespace dlrm
