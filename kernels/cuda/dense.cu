// Dense kernels around cuBLAS: bias, ReLU, interaction, loss, optimizer. Sums are in a fixed order.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device.h"

namespace dlrm::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t items, int per_block) {
  return unsigned(std::clamp<int64_t>((items + per_block - 1) / per_block, 1, 65535 * 16));
}

/// A block takes some rows, its threads the columns.
__global__ void add_bias_kernel(Matrix y, const float* bias, bool relu) {
  for (int64_t row = blockIdx.x * int64_t(blockDim.y) + threadIdx.y; row < y.rows;
       row += int64_t(gridDim.x) * blockDim.y) {
    float* out = y.row(row);
    for (int column = int(threadIdx.x); column < y.cols; column += int(blockDim.x)) {
      const float sum = out[column] + bias[column];
      out[column] = relu && sum < 0 ? 0.0f : sum;  // NaN stays NaN
    }
  }
}

constexpr int kChunkRows = 256;  // at least; of dy, whose columns are summed by one block

/// Block (x, y) owns columns 32 x .. 32 x + 31 of chunk y; its 8 rows of threads take every 8th row of the chunk each,
/// then their sums are added in order.   partial [chunks, cols]
__global__ void mask_and_sum_kernel(Matrix y, bool relu, Matrix dy, int64_t chunk_rows, float* partial) {
  __shared__ float sums[8][33];
  const int64_t column = blockIdx.x * int64_t(32) + threadIdx.x;
  const int64_t end = min((blockIdx.y + 1) * chunk_rows, dy.rows);
  float sum = 0;
  if (column < dy.cols) {
    for (int64_t row = blockIdx.y * chunk_rows + threadIdx.y; row < end; row += 8) {
      float* gradient = dy.row(row) + column;
      float value = *gradient;
      if (relu && y.row(row)[column] <= 0) *gradient = value = 0;  // NaN is not shut
      sum += value;
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= dy.cols) return;
  sum = 0;
  for (int i = 0; i < 8; ++i) sum += sums[i][threadIdx.x];
  partial[blockIdx.y * dy.cols + column] = sum;
}

__global__ void sum_chunks_kernel(const float* partial, int64_t chunks, int64_t cols, float* bias) {
  const int64_t column = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (column >= cols) return;
  float sum = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * cols + column];
  bias[column] = sum;
}

// Interaction of up to 28 vectors of dim 128, 256, ...: a warp per sample. In generic form below.

constexpr int kClasses = 7;              // vector i is in class i mod 7
constexpr int kVectors = 4 * kClasses;   // most vectors
constexpr int kInteractWarps = 4;        // of a block
constexpr int kForwardStride = 128 + 4;  // of a vector in shared memory: seven classes meet in different banks

/// Lane l < 28 owns a pair of classes, and with it the products of four vectors with four others: 8 loads of 16 bytes
/// for 64 multiplications.
__global__ void __launch_bounds__(32 * kInteractWarps) interact_warp_kernel(Matrix v, int vectors, Matrix out) {
  extern __shared__ float shared[];
  const int lane = int(threadIdx.x & 31);
  float* x = shared + threadIdx.x / 32 * (kVectors * kForwardStride);
  const int64_t sample = blockIdx.x * int64_t(kInteractWarps) + threadIdx.x / 32;
  if (sample >= v.rows) return;
  const int dim = int(v.cols) / vectors;
  int a = 0;
  while ((a + 1) * (a + 2) / 2 <= lane) ++a;
  const int b = lane - a * (a + 1) / 2;
  float* to = out.row(sample);

  float sum[4][4] = {};
  for (int chunk = 0; chunk < dim; chunk += 128) {
    __syncwarp();
    for (int i = 0; i < vectors; ++i) {
      const float4 value = *reinterpret_cast<const float4*>(v.row(sample) + i * dim + chunk + 4 * lane);
      *reinterpret_cast<float4*>(x + i * kForwardStride + 4 * lane) = value;
      if (i == 0) *reinterpret_cast<float4*>(to + chunk + 4 * lane) = value;
    }
    for (int i = vectors; i < kVectors; ++i)
      *reinterpret_cast<float4*>(x + i * kForwardStride + 4 * lane) = make_float4(0, 0, 0, 0);
    __syncwarp();
    if (lane >= kClasses * (kClasses + 1) / 2) continue;
    for (int k = 0; k < 128; k += 4) {
      float4 left[4], right[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        left[r] = *reinterpret_cast<const float4*>(x + (a + kClasses * r) * kForwardStride + k);
        right[r] = *reinterpret_cast<const float4*>(x + (b + kClasses * r) * kForwardStride + k);
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int s = 0; s < 4; ++s) {
          sum[r][s] = fmaf(left[r].x, right[s].x, sum[r][s]);
          sum[r][s] = fmaf(left[r].y, right[s].y, sum[r][s]);
          sum[r][s] = fmaf(left[r].z, right[s].z, sum[r][s]);
          sum[r][s] = fmaf(left[r].w, right[s].w, sum[r][s]);
        }
      }
    }
  }
  if (lane < kClasses * (kClasses + 1) / 2) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const int i = a + kClasses * r, j = b + kClasses * s, high = max(i, j), low = min(i, j);
        if (high < vectors && (a != b ? high != low : r > s)) to[dim + high * (high - 1) / 2 + low] = sum[r][s];
      }
    }
  }
  for (int i = dim + vectors * (vectors - 1) / 2 + lane; i < out.cols; i += 32) to[i] = 0;
}

/// A lane owns 4 elements of every vector's gradient; the pairs' gradients are broadcast from shared memory.
__global__ void __launch_bounds__(32 * kInteractWarps)
    interact_backward_warp_kernel(Matrix v, int vectors, Matrix dout, Matrix dv) {
  __shared__ __align__(16) float pairs[kInteractWarps][kVectors][kVectors];  // symmetric, zero diagonal
  const int lane = int(threadIdx.x & 31);
  float(*pair)[kVectors] = pairs[threadIdx.x / 32];
  const int64_t sample = blockIdx.x * int64_t(kInteractWarps) + threadIdx.x / 32;
  if (sample >= v.rows) return;
  const int dim = int(v.cols) / vectors;
  const float* gradient = dout.row(sample);
  for (int i = lane; i < kVectors * kVectors; i += 32) (&pair[0][0])[i] = 0;
  __syncwarp();
  for (int i = 1; i < vectors; ++i)
    if (lane < i) pair[i][lane] = pair[lane][i] = gradient[dim + i * (i - 1) / 2 + lane];
  __syncwarp();
  for (int chunk = 0; chunk < dim; chunk += 128) {
    float4 sum[kVectors];
    sum[0] = *reinterpret_cast<const float4*>(gradient + chunk + 4 * lane);
#pragma unroll
    for (int i = 1; i < kVectors; ++i) sum[i] = make_float4(0, 0, 0, 0);
    for (int j = 0; j < vectors; ++j) {
      const float4 value = *reinterpret_cast<const float4*>(v.row(sample) + j * dim + chunk + 4 * lane);
#pragma unroll
      for (int i = 0; i < kVectors; i += 4) {
        const float4 weights = *reinterpret_cast<const float4*>(&pair[j][i]);
        const float weight[4] = {weights.x, weights.y, weights.z, weights.w};
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          sum[i + r].x = fmaf(weight[r], value.x, sum[i + r].x);
          sum[i + r].y = fmaf(weight[r], value.y, sum[i + r].y);
          sum[i + r].z = fmaf(weight[r], value.z, sum[i + r].z);
          sum[i + r].w = fmaf(weight[r], value.w, sum[i + r].w);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if (i < vectors) *reinterpret_cast<float4*>(dv.row(sample) + i * dim + chunk + 4 * lane) = sum[i];
  }
}

/// Whether the warp kernels serve these shapes.
bool by_warps(Matrix v, int64_t vectors, Matrix with_interactions) {
  return vectors <= kVectors && v.cols / vectors % 128 == 0 && v.stride % 4 == 0 && with_interactions.stride % 4 == 0;
}

/// A block per sample; its vectors in shared memory where they fit.
__global__ void interact_kernel(Matrix v, int64_t vectors, Matrix out, bool use_shared) {
  extern __shared__ float shared[];
  const int64_t dim = v.cols / vectors, pairs = vectors * (vectors - 1) / 2;
  const float* from = v.row(blockIdx.x);
  float* to = out.row(blockIdx.x);
  if (use_shared) {
    for (int64_t i = threadIdx.x; i < v.cols; i += blockDim.x) shared[i / dim * (dim + 1) + i % dim] = from[i];
    __syncthreads();
  }
  const float* x = use_shared ? shared : from;
  const int64_t stride = use_shared ? dim + 1 : dim;  // one word more: no bank conflicts between vectors
  for (int64_t k = threadIdx.x; k < dim; k += blockDim.x) to[k] = from[k];
  for (int64_t p = threadIdx.x; p < pairs; p += blockDim.x) {
    int64_t i = int64_t((sqrtf(8.0f * float(p) + 1.0f) + 1.0f) * 0.5f);
    while (i * (i - 1) / 2 > p) --i;
    while ((i + 1) * i / 2 <= p) ++i;
    const int64_t j = p - i * (i - 1) / 2;
    float sum = 0;
    for (int64_t k = 0; k < dim; ++k) sum = fmaf(x[i * stride + k], x[j * stride + k], sum);
    to[dim + p] = sum;
  }
  for (int64_t i = dim + pairs + threadIdx.x; i < out.cols; i += blockDim.x) to[i] = 0;
}

__global__ void interact_backward_kernel(Matrix v, int64_t vectors, Matrix dout, Matrix dv, bool use_shared) {
  extern __shared__ float shared[];
  const int64_t dim = v.cols / vectors;
  const float* from = v.row(blockIdx.x);
  const float* gradient = dout.row(blockIdx.x);
  if (use_shared) {
    for (int64_t i = threadIdx.x; i < v.cols; i += blockDim.x) shared[i] = from[i];
    __syncthreads();
  }
  const float* x = use_shared ? shared : from;
  for (int64_t at = threadIdx.x; at < v.cols; at += blockDim.x) {
    const int64_t i = at / dim, k = at % dim;
    float sum = i == 0 ? gradient[k] : 0.0f;
    for (int64_t j = 0; j < vectors; ++j) {
      if (j == i) continue;
      const int64_t high = i > j ? i : j, low = i > j ? j : i;
      sum = fmaf(gradient[dim + high * (high - 1) / 2 + low], x[j * dim + k], sum);
    }
    dv.row(blockIdx.x)[at] = sum;
  }
}

/// One block: the loss is summed in a fixed order.
__global__ void bce_kernel(const float* logits, const float* labels, int64_t batch, double global_batch, float* dlogits,
                           float* loss) {
  __shared__ double sums[1024];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < batch; i += blockDim.x) {
    const double x = logits[i], y = labels[i], tail = exp(-fabs(x));
    const double sigmoid = (x >= 0 ? 1.0 : tail) / (1.0 + tail);
    sum += fmax(x, 0.0) - x * y + log1p(tail) + (x - x);  // x - x: NaN and infinity must not pass unseen
    dlogits[i] = float((sigmoid - y) / global_batch);
  }
  sums[threadIdx.x] = sum;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *loss = float(sums[0] / global_batch);
}

__global__ void dense_update_kernel(float* weights, const float* gradients, float* sums, int64_t count,
                                    OptimizerRule rule, const StepState* state) {
  const float lr = state->dense_lr;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x)
    weights[i] = rule.kind == OptimizerKind::sgd ? sgd(weights[i], gradients[i], lr)
                                                 : adagrad(weights[i], gradients[i], lr, rule.eps, sums[i]);
}

/// Bytes of shared memory for the kernel, or 0 where they are more than a block may have.
template <class Kernel>
size_t shared_bytes(Kernel kernel, size_t wanted) {
  constexpr size_t kMost = size_t(200) << 10;
  if (wanted > kMost) return 0;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(wanted)), "shared memory");
  return wanted;
}

}  // namespace

void add_bias(cudaStream_t stream, Matrix y, const float* bias, bool relu) {
  if (y.rows * y.cols == 0) return;
  const dim3 threads = y.cols >= 128 ? dim3(128, 2) : dim3(32, 8);
  add_bias_kernel<<<blocks_for(y.rows, int(threads.y)), threads, 0, stream>>>(y, bias, relu);
  check_launch("add_bias");
}

void mask_and_sum(CudaQueue& queue, Matrix y, bool relu, Matrix dy, float* bias) {
  const int64_t most_chunks = std::min<int64_t>(int64_t(kWorkspaceBytes / sizeof(float)) / dy.cols, 1024);
  const int64_t chunk_rows = std::max<int64_t>(kChunkRows, (dy.rows + most_chunks - 1) / most_chunks);
  const int64_t chunks = (dy.rows + chunk_rows - 1) / chunk_rows;
  float* partial = reinterpret_cast<float*>(queue.workspace());
  if (chunks > 0) {
    mask_and_sum_kernel<<<dim3(blocks_for(dy.cols, 32), unsigned(chunks)), dim3(32, 8), 0, queue.stream()>>>(
        y, relu, dy, chunk_rows, partial);
    check_launch("mask_and_sum");
  }
  sum_chunks_kernel<<<blocks_for(dy.cols, 64), 64, 0, queue.stream()>>>(partial, chunks, dy.cols, bias);
  check_launch("sum_chunks");
}

void CudaDevice::interact(Queue& queue, Matrix v, int64_t vectors, Matrix out) {
  if (v.rows == 0) return;
  const cudaStream_t stream = cuda(queue).stream();
  if (by_warps(v, vectors, out)) {
    const size_t shared =
        shared_bytes(interact_warp_kernel, size_t(kInteractWarps) * kVectors * kForwardStride * sizeof(float));
    interact_warp_kernel<<<blocks_for(v.rows, kInteractWarps), 32 * kInteractWarps, shared, stream>>>(v, int(vectors),
                                                                                                      out);
  } else {
    const size_t shared = shared_bytes(interact_kernel, size_t(v.cols + vectors) * sizeof(float));
    interact_kernel<<<unsigned(v.rows), kThreads, shared, stream>>>(v, vectors, out, shared > 0);
  }
  check_launch("interact");
}

void CudaDevice::interact_backward(Queue& queue, Matrix v, int64_t vectors, Matrix dout, Matrix dv) {
  if (v.rows == 0) return;
  const cudaStream_t stream = cuda(queue).stream();
  if (by_warps(v, vectors, dout)) {
    interact_backward_warp_kernel<<<blocks_for(v.rows, kInteractWarps), 32 * kInteractWarps, 0, stream>>>(
        v, int(vectors), dout, dv);
  } else {
    const size_t shared = shared_bytes(interact_backward_kernel, size_t(v.cols) * sizeof(float));
    interact_backward_kernel<<<unsigned(v.rows), kThreads, shared, stream>>>(v, vectors, dout, dv, shared > 0);
  }
  check_launch("interact_backward");
}

void CudaDevice::bce_with_logits(Queue& queue, const float* logits, const float* labels, int64_t batch,
                                 int64_t global_batch, float* dlogits, float* loss) {
  bce_kernel<<<1, 1024, 0, cuda(queue).stream()>>>(logits, labels, batch, double(global_batch), dlogits, loss);
  check_launch("bce_with_logits");
}

void CudaDevice::dense_update(Queue& queue, float* weights, const float* gradients, float* sums, int64_t count,
                              OptimizerRule rule, const StepState* state) {
  check(rule.kind != OptimizerKind::rowwise_adagrad, "optimizer ", optimizer_name(rule.kind),
        " is for tables, expected sgd or adagrad for MLPs");
  if (count == 0) return;
  dense_update_kernel<<<blocks_for(count, kThreads), kThreads, 0, cuda(queue).stream()>>>(weights, gradients, sums,
                                                                                          count, rule, state);
  check_launch("dense_update");
}

}  // namespace dlrm::cuda
