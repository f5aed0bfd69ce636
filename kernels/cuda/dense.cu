// Dense kernels around cuBLASLt: bias, ReLU, layers one wide, loss, optimizer. Sums are in a fixed order.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/pack.cuh"

namespace dlrm::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t items, int per_block) {
  return unsigned(std::clamp<int64_t>((items + per_block - 1) / per_block, 1, 65535 * 16));
}

/// A block takes some rows, its threads the columns.
template <class T>
__global__ void add_bias_kernel(Matrix y, const T* bias, bool relu) {
  for (int64_t row = blockIdx.x * int64_t(blockDim.y) + threadIdx.y; row < y.rows;
       row += int64_t(gridDim.x) * blockDim.y) {
    T* out = y.row<T>(row);
    for (int column = int(threadIdx.x); column < y.cols; column += int(blockDim.x)) {
      const float sum = to_float(out[column]) + to_float(bias[column]);
      out[column] = rounded<T>(relu && sum < 0 ? 0.0f : sum);  // NaN stays NaN
    }
  }
}

// Sums of columns. The rows are cut into chunks; a block owns a strip of columns of one chunk, its threads in x the
// packs of columns, those in y every so many rows; then a second kernel adds the chunks up.

struct Chunks {
  dim3 blocks, threads;
  int64_t rows, count;  // of a chunk; chunks

  Chunks(int64_t batch, int64_t cols, int pack) {
    constexpr int64_t kBlocks = 528;  // four for each of 132 multiprocessors
    const int64_t packs = (cols + pack - 1) / pack;
    threads.x = 1;
    while (threads.x < 32 && threads.x < packs) threads.x *= 2;
    threads.y = kThreads / threads.x;
    blocks.x = unsigned((packs + threads.x - 1) / threads.x);
    const int64_t most = std::max<int64_t>(1, int64_t(kPartialBytes / sizeof(float)) / (cols + 1));
    const int64_t wanted = std::clamp<int64_t>(kBlocks / blocks.x, 1, std::min<int64_t>(most, 4096));
    rows = std::max<int64_t>((batch + wanted - 1) / wanted, 4 * threads.y);
    count = std::max<int64_t>(1, (batch + rows - 1) / rows);
    blocks.y = unsigned(count);
  }
};

/// Adds what the threads of one column have, in order of y.   to: of this block's strip
template <int kPack>
__device__ void add_up(const float (&sum)[kPack], int64_t columns, float* to) {
  __shared__ float shared[kThreads * kPack];
  const int width = int(blockDim.x) * kPack;
#pragma unroll
  for (int i = 0; i < kPack; ++i) shared[threadIdx.y * width + threadIdx.x * kPack + i] = sum[i];
  __syncthreads();
  for (int column = int(threadIdx.y * blockDim.x + threadIdx.x); column < width && column < columns;
       column += kThreads) {
    float total = 0;
    for (unsigned y = 0; y < blockDim.y; ++y) total += shared[y * width + column];
    to[column] = total;
  }
}

/// partial [chunks, cols]
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    mask_and_sum_kernel(Matrix y, bool relu, Matrix dy, int64_t chunk_rows, float* partial) {
  using Values = Pack<T, kPack>;
  constexpr int kUnroll = 4;  // rows in flight
  const int64_t strip = blockIdx.x * int64_t(blockDim.x) * kPack, column = strip + threadIdx.x * kPack;
  const int64_t end = min((blockIdx.y + 1) * chunk_rows, dy.rows);
  float sum[kPack] = {};
  if (column < dy.cols) {
    for (int64_t row = blockIdx.y * chunk_rows + threadIdx.y; row < end; row += kUnroll * blockDim.y) {
      Values gradient[kUnroll], value[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int64_t r = row + u * int64_t(blockDim.y);
        if (r >= end) continue;
        gradient[u] = *reinterpret_cast<const Values*>(dy.row<T>(r) + column);
        if (relu) value[u] = *reinterpret_cast<const Values*>(y.row<T>(r) + column);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int64_t r = row + u * int64_t(blockDim.y);
        if (r >= end) continue;
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          if (relu && to_float(value[u].values[i]) <= 0) gradient[u].values[i] = T{};  // NaN is not shut
          sum[i] += to_float(gradient[u].values[i]);
        }
        if (relu) *reinterpret_cast<Values*>(dy.row<T>(r) + column) = gradient[u];
      }
    }
  }
  add_up(sum, dy.cols - strip, partial + blockIdx.y * dy.cols + strip);
}

__global__ void __launch_bounds__(kThreads)
    sum_chunks_kernel(const float* partial, int64_t chunks, int64_t cols, float* sums) {
  const int64_t strip = blockIdx.x * int64_t(blockDim.x), column = strip + threadIdx.x;
  float sum[1] = {};
  if (column < cols) {
#pragma unroll 8
    for (int64_t chunk = threadIdx.y; chunk < chunks; chunk += blockDim.y) sum[0] += partial[chunk * cols + column];
  }
  add_up(sum, cols - strip, sums + strip);
}

void sum_chunks(cudaStream_t stream, const float* partial, int64_t chunks, int64_t cols, float* sums) {
  const dim3 threads(8, kThreads / 8);
  sum_chunks_kernel<<<blocks_for(cols, int(threads.x)), threads, 0, stream>>>(partial, chunks, cols, sums);
  check_launch("sum_chunks");
}

// Layers one wide -----------------------------------------------------------------------------------------------------

/// A warp per sample.
template <class T, class Y, int kPack>
__global__ void __launch_bounds__(kThreads) dot_kernel(Matrix x, const T* weight, const T* bias, bool relu, Matrix y) {
  using Values = Pack<T, kPack>;
  const int lane = int(threadIdx.x & 31);
  for (int64_t row = (blockIdx.x * int64_t(kThreads) + threadIdx.x) / 32; row < x.rows;
       row += int64_t(gridDim.x) * (kThreads / 32)) {
    float sum = 0;
    for (int64_t column = lane * kPack; column < x.cols; column += 32 * kPack) {
      const Values a = *reinterpret_cast<const Values*>(x.row<T>(row) + column),
                   b = *reinterpret_cast<const Values*>(weight + column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum = fmaf(to_float(a.values[i]), to_float(b.values[i]), sum);
    }
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    sum += to_float(*bias);
    if (lane == 0) *y.row<Y>(row) = rounded<Y>(relu && sum < 0 ? 0.0f : sum);
  }
}

/// partial [chunks, in]   partial_bias [chunks]
template <class T, class Y, int kPack>
__global__ void __launch_bounds__(kThreads)
    dot_backward_kernel(Matrix x, const T* weight, bool relu, Matrix y, Matrix dy, Matrix dx, int64_t chunk_rows,
                        float* partial, float* partial_bias) {
  using Values = Pack<T, kPack>;
  const int64_t strip = blockIdx.x * int64_t(blockDim.x) * kPack, column = strip + threadIdx.x * kPack;
  const int64_t end = min((blockIdx.y + 1) * chunk_rows, dy.rows);
  float sum[kPack] = {}, bias_sum[1] = {};
  if (column < x.cols) {
    const Values w = *reinterpret_cast<const Values*>(weight + column);
#pragma unroll 4
    for (int64_t row = blockIdx.y * chunk_rows + threadIdx.y; row < end; row += blockDim.y) {
      const bool shut = relu && to_float(*y.row<Y>(row)) <= 0;
      const float gradient = shut ? 0.0f : to_float(*dy.row<Y>(row));
      const Values value = *reinterpret_cast<const Values*>(x.row<T>(row) + column);
      Values to;
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        sum[i] = fmaf(gradient, to_float(value.values[i]), sum[i]);
        to.values[i] = rounded<T>(gradient * to_float(w.values[i]));
      }
      if (dx.data) *reinterpret_cast<Values*>(dx.row<T>(row) + column) = to;
      bias_sum[0] += gradient;
      if (shut && column == 0) *dy.row<Y>(row) = Y{};
    }
  }
  add_up(sum, x.cols - strip, partial + blockIdx.y * x.cols + strip);
  if (blockIdx.x != 0) return;
  __syncthreads();
  add_up(bias_sum, 1, partial_bias + blockIdx.y);
}

// Loss ----------------------------------------------------------------------------------------------------------------

constexpr int kLossThreads = 256;

/// Adds the threads' values in a fixed order; the sum is thread 0's.
__device__ double add_threads(double value) {
  __shared__ double sums[kLossThreads];
  sums[threadIdx.x] = value;
  for (unsigned half = kLossThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

/// partial: one per block
__global__ void bce_kernel(const float* logits, const float* labels, int64_t batch, double global_batch, float* dlogits,
                           double* partial) {
  double sum = 0;
  for (int64_t i = blockIdx.x * int64_t(kLossThreads) + threadIdx.x; i < batch;
       i += int64_t(gridDim.x) * kLossThreads) {
    const double x = logits[i], y = labels[i], tail = exp(-fabs(x));
    const double sigmoid = (x >= 0 ? 1.0 : tail) / (1.0 + tail);
    sum += fmax(x, 0.0) - x * y + log1p(tail) + (x - x);  // x - x: NaN and infinity must not pass unseen
    dlogits[i] = float((sigmoid - y) / global_batch);
  }
  sum = add_threads(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void sum_loss_kernel(const double* partial, int count, double global_batch, float* loss) {
  double sum = 0;
  for (int i = int(threadIdx.x); i < count; i += kLossThreads) sum += partial[i];
  sum = add_threads(sum);
  if (threadIdx.x == 0) *loss = float(sum / global_batch);
}

__global__ void dense_update_kernel(float* weights, const float* gradients, float* states, int64_t count,
                                    OptimizerRule rule, const StepState* state, Bf16* rounded_weights) {
  const float lr = state->dense_lr;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    float weight = weights[i];
    if (rule.kind == OptimizerKind::sgd) {
      weight = sgd(weight, gradients[i], lr);
    } else if (rule.kind == OptimizerKind::adagrad) {
      weight = adagrad(weight, gradients[i], lr, rule.eps, states[i]);
    } else {
      weight = adam(weight, gradients[i], lr, rule, state->dense_adam, states[i], states[count + i]);
    }
    weights[i] = weight;
    if (rounded_weights) rounded_weights[i] = to_bf16(weight);
  }
}

/// Calls f with the type of the matrix's elements and how many of them are moved at once.
template <class F>
void with_packs(const Matrix& m, bool packed, F&& f) {
  with_dtype(m.dtype, [&]<class T>(T) {
    packed ? f.template operator()<T, kPackElements<T>>() : f.template operator()<T, 1>();
  });
}

}  // namespace

void add_bias(cudaStream_t stream, Matrix y, Matrix bias, bool relu) {
  if (y.rows * y.cols == 0) return;
  const dim3 threads = y.cols >= 128 ? dim3(128, 2) : dim3(32, 8);
  with_dtype(y.dtype, [&]<class T>(T) {
    add_bias_kernel<T><<<blocks_for(y.rows, int(threads.y)), threads, 0, stream>>>(y, bias.row<T>(0), relu);
  });
  check_launch("add_bias");
}

void mask_and_sum(cudaStream_t stream, Matrix y, bool relu, Matrix dy, float* bias, float* partial) {
  with_packs(dy, packs(y) && packs(dy), [&]<class T, int kPack>() {
    const Chunks chunks(dy.rows, dy.cols, kPack);
    mask_and_sum_kernel<T, kPack><<<chunks.blocks, chunks.threads, 0, stream>>>(y, relu, dy, chunks.rows, partial);
    check_launch("mask_and_sum");
    sum_chunks(stream, partial, chunks.count, dy.cols, bias);
  });
}

void dot(cudaStream_t stream, Matrix x, Linear layer, bool relu, Matrix y) {
  with_packs(x, packs(x) && packs(layer.weight), [&]<class T, int kPack>() {
    with_dtype(y.dtype, [&]<class Y>(Y) {
      dot_kernel<T, Y, kPack><<<blocks_for(x.rows, kThreads / 32), kThreads, 0, stream>>>(
          x, layer.weight.row<T>(0), static_cast<const T*>(layer.bias), relu, y);
    });
  });
  check_launch("dot");
}

void dot_backward(cudaStream_t stream, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad, Matrix dx,
                  float* partial) {
  const bool packed = packs(x) && packs(layer.weight) && (!dx.data || packs(dx));
  with_packs(x, packed, [&]<class T, int kPack>() {
    const Chunks chunks(x.rows, x.cols, kPack);
    float* const partial_bias = partial + chunks.count * x.cols;
    with_dtype(y.dtype, [&]<class Y>(Y) {
      dot_backward_kernel<T, Y, kPack><<<chunks.blocks, chunks.threads, 0, stream>>>(
          x, layer.weight.row<T>(0), relu, y, dy, dx, chunks.rows, partial, partial_bias);
    });
    check_launch("dot_backward");
    sum_chunks(stream, partial, chunks.count, x.cols, grad.weight.row(0));
    sum_chunks(stream, partial_bias, chunks.count, 1, static_cast<float*>(grad.bias));
  });
}

void CudaDevice::bce_with_logits(Queue& queue, const float* logits, const float* labels, int64_t batch,
                                 int64_t global_batch, float* dlogits, float* loss) {
  const cudaStream_t stream = cuda(queue).stream();
  double* const partial = reinterpret_cast<double*>(cuda(queue).gemm().partial());
  const unsigned blocks = unsigned(std::min<int64_t>(blocks_for(batch, kLossThreads), 1024));
  bce_kernel<<<blocks, kLossThreads, 0, stream>>>(logits, labels, batch, double(global_batch), dlogits, partial);
  check_launch("bce_with_logits");
  sum_loss_kernel<<<1, kLossThreads, 0, stream>>>(partial, int(blocks), double(global_batch), loss);
  check_launch("sum_loss");
}

void CudaDevice::dense_update(Queue& queue, float* weights, const float* gradients, float* states, int64_t count,
                              OptimizerRule rule, const StepState* state, Bf16* rounded) {
  check(rule.kind != OptimizerKind::rowwise_adagrad, "optimizer ", optimizer_name(rule.kind),
        " is for tables, expected sgd, adagrad or adam for MLPs");
  if (count == 0) return;
  dense_update_kernel<<<blocks_for(count, kThreads), kThreads, 0, cuda(queue).stream()>>>(weights, gradients, states,
                                                                                          count, rule, state, rounded);
  check_launch("dense_update");
}

}  // namespace dlrm::cuda
