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

__global__ void add_bias_kernel(Matrix y, const float* bias, bool relu) {
  const int64_t count = y.rows * y.cols;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    float* out = y.row(i / y.cols) + i % y.cols;
    const float sum = *out + bias[i % y.cols];
    *out = relu && sum < 0 ? 0.0f : sum;  // NaN stays NaN
  }
}

/// A block owns 32 columns; its 32 rows of threads take every 32nd row each, then their sums are added in order.
__global__ void mask_and_sum_kernel(Matrix y, bool relu, Matrix dy, float* bias) {
  __shared__ float sums[32][33];
  const int64_t column = blockIdx.x * int64_t(32) + threadIdx.x;
  float sum = 0;
  if (column < dy.cols) {
    for (int64_t row = threadIdx.y; row < dy.rows; row += 32) {
      float* gradient = dy.row(row) + column;
      if (relu && !(y.row(row)[column] > 0)) *gradient = 0;
      sum += *gradient;
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= dy.cols) return;
  sum = 0;
  for (int i = 0; i < 32; ++i) sum += sums[i][threadIdx.x];
  bias[column] = sum;
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
  add_bias_kernel<<<blocks_for(y.rows * y.cols, kThreads), kThreads, 0, stream>>>(y, bias, relu);
  check_launch("add_bias");
}

void mask_and_sum(cudaStream_t stream, Matrix y, bool relu, Matrix dy, float* bias) {
  mask_and_sum_kernel<<<blocks_for(dy.cols, 32), dim3(32, 32), 0, stream>>>(y, relu, dy, bias);
  check_launch("mask_and_sum");
}

void CudaDevice::interact(Queue& queue, Matrix v, int64_t vectors, Matrix out) {
  if (v.rows == 0) return;
  const size_t shared = shared_bytes(interact_kernel, size_t(v.cols + vectors) * sizeof(float));
  interact_kernel<<<unsigned(v.rows), kThreads, shared, cuda(queue).stream()>>>(v, vectors, out, shared > 0);
  check_launch("interact");
}

void CudaDevice::interact_backward(Queue& queue, Matrix v, int64_t vectors, Matrix dout, Matrix dv) {
  if (v.rows == 0) return;
  const size_t shared = shared_bytes(interact_backward_kernel, size_t(v.cols) * sizeof(float));
  interact_backward_kernel<<<unsigned(v.rows), kThreads, shared, cuda(queue).stream()>>>(v, vectors, dout, dv,
                                                                                         shared > 0);
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
