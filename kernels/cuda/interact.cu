// Interaction of a sample's vectors and its gradient. Up to 32 vectors of suitable length are multiplied on tensor
// cores (bf16, tf32) or by warps in fp32; anything else by the kernels at the end.
//
// The tensor-core kernels keep a sample in the registers of one warp, with no shared memory between load and product.
// mma wants its operands spread over the lanes element by element, which would make narrow loads; but a dot product
// does not care in which order its terms come, and a matrix product not in which order its columns are computed. So the
// elements are renamed such that each lane's operands are 16 consecutive bytes of a vector. Loads are __ldg, so that
// they need not wait for stores before them.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/pack.cuh"

namespace dlrm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostVectors = 31;  // of the tensor-core kernels: two tiles of 16 rows, less one for the backward pass
constexpr int kMmaWarps = 8;      // of a block: consecutive samples, whose indices share cache lines

__device__ uint32_t tf32(uint32_t word) {
  uint32_t result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(__uint_as_float(word)));
  return result;
}

__device__ float load(const float* from) {
  return __ldg(from);
}
__device__ Bf16 load(const Bf16* from) {
  return {__ldg(&from->bits)};
}

/// The tensor cores' view of an element type: words of the operands of one m16n8 product, 4 of the left and 2 of the
/// right factor, in a lane.
template <class T>
struct Mma;

template <>
struct Mma<Bf16> {
  __device__ static uint4 prepare(uint4 words) { return words; }
  __device__ static void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                  uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

template <>
struct Mma<float> {
  __device__ static uint4 prepare(uint4 words) {
    return make_uint4(tf32(words.x), tf32(words.y), tf32(words.z), tf32(words.w));
  }
  __device__ static void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                  uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

/// Elements of `dim` that 4 lanes read at once, and so what dim must be a multiple of, forward.
template <class T>
constexpr int kForwardChunk = 4 * kPackElements<T>;
/// The same, backward: 8 lanes.
template <class T>
constexpr int kBackwardChunk = 8 * kPackElements<T>;

/// z = v v^T. Lane (g, t) = (lane / 4, lane mod 4) holds, of rows g, g + 8, g + 16 and g + 24, the t-th 16 bytes of
/// each 64; these are the left operand's words of rows g and g + 8 of two products, and the right operand's of columns
/// g.
template <class T>
__global__ void __launch_bounds__(32 * kMmaWarps, 3) interact_mma_kernel(Interaction v, Matrix out) {
  using Values = Pack<T, kPackElements<T>>;
  constexpr int kPairs = kMostVectors * (kMostVectors - 1) / 2;
  __shared__ __align__(16) T products[kMmaWarps][(kPairs / kPackElements<T> + 2) * kPackElements<T>];
  const int lane = int(threadIdx.x & 31), g = lane / 4, t = lane % 4;
  T* const z = products[threadIdx.x / 32];
  const int64_t sample = blockIdx.x * int64_t(kMmaWarps) + threadIdx.x / 32;
  if (sample >= v.batch()) return;
  const int vectors = int(v.vectors), dim = int(v.dim());
  const uint4* rows[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int i = g + 8 * r;
    rows[r] = i < vectors ? reinterpret_cast<const uint4*>(v.vector<T>(sample, i)) + t : nullptr;
  }
  T* const to = out.row<T>(sample);

  float sum[2][4][4] = {};  // [tile of 16 rows][tile of 8 columns]; of the upper triangle nothing is used
#pragma unroll 2
  for (int chunk = 0; chunk < dim / kForwardChunk<T>; ++chunk) {
    uint4 words[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) words[r] = rows[r] ? __ldg(rows[r] + 4 * chunk) : make_uint4(0, 0, 0, 0);
    if (g == 0) reinterpret_cast<uint4*>(to)[4 * chunk + t] = words[0];
#pragma unroll
    for (int r = 0; r < 4; ++r) words[r] = Mma<T>::prepare(words[r]);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint4 low = words[2 * row], high = words[2 * row + 1];
#pragma unroll
      for (int column = 0; column < 2 * row + 2; ++column) {
        const uint4 right = words[column];
        Mma<T>::multiply(sum[row][column], low.x, high.x, low.y, high.y, right.x, right.y);
        Mma<T>::multiply(sum[row][column], low.z, high.z, low.w, high.w, right.z, right.w);
      }
    }
  }

  const int pairs = vectors * (vectors - 1) / 2, width = int(out.cols) - dim;
  for (int i = pairs + lane; i < min(width, pairs + kPackElements<T>); i += 32) z[i] = T{};
#pragma unroll
  for (int row = 0; row < 2; ++row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 16 * row + g + 8 * half, first = i * (i - 1) / 2;
#pragma unroll
      for (int column = 0; column < 2 * row + 2; ++column) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int j = 8 * column + 2 * t + k;
          if (j < i && i < vectors) z[first + j] = rounded<T>(sum[row][column][2 * half + k]);
        }
      }
    }
  }
  __syncwarp();
  const int packs = min(width, pairs + kPackElements<T> - 1) / kPackElements<T>;
  for (int i = lane; i < packs; i += 32) reinterpret_cast<Values*>(to + dim)[i] = reinterpret_cast<const Values*>(z)[i];
  for (int i = packs * kPackElements<T> + lane; i < width; i += 32) to[dim + i] = i < pairs ? z[i] : T{};
}

/// dv = s v, s the symmetric matrix of the pairs' gradients. Lane (g, t) holds one 16 bytes, the piece of g, of each
/// 128 of those rows j that are its share of the right operand: 2 t, 2 t + 1 and 8 more of each 16 (bf16), t and t + 4
/// of each 8 (tf32). Column g of product q is element q of the piece of g. A lane receives the results of columns 2 t
/// and 2 t + 1: their pieces are t and t + 4, so that four lanes write 64 consecutive bytes at a time. What v_0
/// receives beside the pairs' gradients comes in as a 32nd row with weight 1 for v_0.
template <class T>
__global__ void __launch_bounds__(32 * kMmaWarps, 2)
    interact_backward_mma_kernel(Interaction v, Matrix dout, Matrix dfirst, Matrix drest) {
  constexpr int kElements = kPackElements<T>;
  constexpr int kSteps = 32 / (sizeof(T) == 2 ? 16 : 8);  // products, each over so many j
  constexpr int kStride = sizeof(T) == 2 ? 34 : 36;       // keeps the lanes' reads in different banks
  __shared__ __align__(16) T matrices[kMmaWarps][32 * kStride];
  const int lane = int(threadIdx.x & 31), g = lane / 4, t = lane % 4;
  T* const s = matrices[threadIdx.x / 32];
  const int64_t sample = blockIdx.x * int64_t(kMmaWarps) + threadIdx.x / 32;
  if (sample >= v.batch()) return;
  const int vectors = int(v.vectors), dim = int(v.dim());
  const T* const from = dout.row<T>(sample);
  const uint4* rows[8];  // in the order in which products take them
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const int j = sizeof(T) == 2 ? 16 * (r / 4) + 2 * t + r % 2 + 8 * (r / 2 % 2) : 8 * (r / 2) + t + 4 * (r % 2);
    const T* const row = j < vectors ? v.vector<T>(sample, j) : j == kMostVectors ? from : nullptr;
    rows[r] = row ? reinterpret_cast<const uint4*>(row) + (g % 2 * 4 + g / 2) : nullptr;
  }

  for (int i = lane; i < 32 * kStride / kElements; i += 32) reinterpret_cast<uint4*>(s)[i] = make_uint4(0, 0, 0, 0);
  __syncwarp();
#pragma unroll 8
  for (int i = 1; i < vectors; ++i)
    if (lane < i) s[i * kStride + lane] = s[lane * kStride + i] = load(from + dim + i * (i - 1) / 2 + lane);
  if (lane == 0) s[kMostVectors] = rounded<T>(1.0f);
  __syncwarp();

  for (int chunk = 0; chunk < dim / kBackwardChunk<T>; ++chunk) {
    uint4 words[8];
#pragma unroll
    for (int r = 0; r < 8; ++r)
      words[r] = Mma<T>::prepare(rows[r] ? __ldg(rows[r] + 8 * chunk) : make_uint4(0, 0, 0, 0));
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      float sum[kElements][4] = {};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t left[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const T* const row = s + (16 * tile + g + 8 * (k % 2)) * kStride;
          left[k] = sizeof(T) == 2 ? *reinterpret_cast<const uint32_t*>(row + 16 * step + 2 * t + 8 * (k / 2))
                                   : tf32(*reinterpret_cast<const uint32_t*>(row + 8 * step + t + 4 * (k / 2)));
        }
#pragma unroll
        for (int q = 0; q < kElements; ++q) {
          const auto word = [&](int r, int w) {
            return w == 0 ? words[r].x : w == 1 ? words[r].y : w == 2 ? words[r].z : words[r].w;
          };
          uint32_t right0, right1;
          if constexpr (sizeof(T) == 2) {
            const uint32_t halves = q % 2 ? 0x7632 : 0x5410;
            right0 = __byte_perm(word(4 * step, q / 2), word(4 * step + 1, q / 2), halves);
            right1 = __byte_perm(word(4 * step + 2, q / 2), word(4 * step + 3, q / 2), halves);
          } else {
            right0 = word(2 * step, q);
            right1 = word(2 * step + 1, q);
          }
          Mma<T>::multiply(sum[q], left[0], left[1], left[2], left[3], right0, right1);
        }
      }
#pragma unroll
      for (int half_tile = 0; half_tile < 2; ++half_tile) {
        const int i = 16 * tile + g + 8 * half_tile;
        if (i >= vectors) continue;
        T* const to = (i == 0 ? dfirst.row<T>(sample) : drest.row<T>(sample) + (i - 1) * dim) +
                      chunk * kBackwardChunk<T> + t * kElements;
#pragma unroll
        for (int pack = 0; pack < 2; ++pack) {
          Pack<T, kElements> result;
#pragma unroll
          for (int q = 0; q < kElements; ++q) result.values[q] = rounded<T>(sum[q][2 * half_tile + pack]);
          *reinterpret_cast<Pack<T, kElements>*>(to + 4 * pack * kElements) = result;
        }
      }
    }
  }
}

// fp32 ----------------------------------------------------------------------------------------------------------------

constexpr int kClasses = 7;                 // vector i is in class i mod 7
constexpr int kWarpVectors = 4 * kClasses;  // most vectors
constexpr int kInteractWarps = 4;           // of a block
constexpr int kForwardStride = 128 + 4;     // of a vector in shared memory: seven classes meet in different banks

/// Lane l < 28 owns a pair of classes, and with it the products of four vectors with four others: 8 loads of 16 bytes
/// for 64 multiplications.
__global__ void __launch_bounds__(32 * kInteractWarps) interact_warp_kernel(Interaction v, Matrix out) {
  extern __shared__ float shared[];
  const int lane = int(threadIdx.x & 31), vectors = int(v.vectors), dim = int(v.dim());
  float* x = shared + threadIdx.x / 32 * (kWarpVectors * kForwardStride);
  const int64_t sample = blockIdx.x * int64_t(kInteractWarps) + threadIdx.x / 32;
  if (sample >= v.batch()) return;
  int a = 0;
  while ((a + 1) * (a + 2) / 2 <= lane) ++a;
  const int b = lane - a * (a + 1) / 2;
  float* to = out.row(sample);

  float sum[4][4] = {};
  for (int chunk = 0; chunk < dim; chunk += 128) {
    __syncwarp();
    for (int i = 0; i < vectors; ++i) {
      const float4 value = *reinterpret_cast<const float4*>(v.vector<float>(sample, i) + chunk + 4 * lane);
      *reinterpret_cast<float4*>(x + i * kForwardStride + 4 * lane) = value;
      if (i == 0) *reinterpret_cast<float4*>(to + chunk + 4 * lane) = value;
    }
    for (int i = vectors; i < kWarpVectors; ++i)
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
    interact_backward_warp_kernel(Interaction v, Matrix dout, Matrix dfirst, Matrix drest) {
  __shared__ __align__(16) float pairs[kInteractWarps][kWarpVectors][kWarpVectors];  // symmetric, zero diagonal
  const int lane = int(threadIdx.x & 31), vectors = int(v.vectors), dim = int(v.dim());
  float(*pair)[kWarpVectors] = pairs[threadIdx.x / 32];
  const int64_t sample = blockIdx.x * int64_t(kInteractWarps) + threadIdx.x / 32;
  if (sample >= v.batch()) return;
  const float* gradient = dout.row(sample);
  for (int i = lane; i < kWarpVectors * kWarpVectors; i += 32) (&pair[0][0])[i] = 0;
  __syncwarp();
  for (int i = 1; i < vectors; ++i)
    if (lane < i) pair[i][lane] = pair[lane][i] = gradient[dim + i * (i - 1) / 2 + lane];
  __syncwarp();
  for (int chunk = 0; chunk < dim; chunk += 128) {
    float4 sum[kWarpVectors];
    sum[0] = *reinterpret_cast<const float4*>(gradient + chunk + 4 * lane);
#pragma unroll
    for (int i = 1; i < kWarpVectors; ++i) sum[i] = make_float4(0, 0, 0, 0);
    for (int j = 0; j < vectors; ++j) {
      const float4 value = *reinterpret_cast<const float4*>(v.vector<float>(sample, j) + chunk + 4 * lane);
#pragma unroll
      for (int i = 0; i < kWarpVectors; i += 4) {
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
    *reinterpret_cast<float4*>(dfirst.row(sample) + chunk + 4 * lane) = sum[0];
#pragma unroll
    for (int i = 1; i < kWarpVectors; ++i)
      if (i < vectors) *reinterpret_cast<float4*>(drest.row(sample) + (i - 1) * dim + chunk + 4 * lane) = sum[i];
  }
}

// Any shape -----------------------------------------------------------------------------------------------------------

/// A block per sample; its vectors in shared memory where they fit.
template <class T>
__global__ void interact_kernel(Interaction v, Matrix out, bool use_shared) {
  extern __shared__ float shared[];
  const int64_t dim = v.dim(), pairs = v.vectors * (v.vectors - 1) / 2, sample = blockIdx.x;
  T* to = out.row<T>(sample);
  const int64_t stride = dim + 1;  // one word more: no bank conflicts between vectors
  if (use_shared) {
    for (int64_t i = threadIdx.x; i < v.vectors * dim; i += blockDim.x)
      shared[i / dim * stride + i % dim] = to_float(v.vector<T>(sample, i / dim)[i % dim]);
    __syncthreads();
  }
  const auto value = [&](int64_t i, int64_t k) {
    return use_shared ? shared[i * stride + k] : to_float(v.vector<T>(sample, i)[k]);
  };
  for (int64_t k = threadIdx.x; k < dim; k += blockDim.x) to[k] = v.vector<T>(sample, 0)[k];
  for (int64_t p = threadIdx.x; p < pairs; p += blockDim.x) {
    int64_t i = int64_t((sqrtf(8.0f * float(p) + 1.0f) + 1.0f) * 0.5f);
    while (i * (i - 1) / 2 > p) --i;
    while ((i + 1) * i / 2 <= p) ++i;
    const int64_t j = p - i * (i - 1) / 2;
    float sum = 0;
    for (int64_t k = 0; k < dim; ++k) sum = fmaf(value(i, k), value(j, k), sum);
    to[dim + p] = rounded<T>(sum);
  }
  for (int64_t i = dim + pairs + threadIdx.x; i < out.cols; i += blockDim.x) to[i] = T{};
}

template <class T>
__global__ void interact_backward_kernel(Interaction v, Matrix dout, Matrix dfirst, Matrix drest, bool use_shared) {
  extern __shared__ float shared[];
  const int64_t dim = v.dim(), sample = blockIdx.x;
  const T* gradient = dout.row<T>(sample);
  if (use_shared) {
    for (int64_t i = threadIdx.x; i < v.vectors * dim; i += blockDim.x)
      shared[i] = to_float(v.vector<T>(sample, i / dim)[i % dim]);
    __syncthreads();
  }
  for (int64_t at = threadIdx.x; at < v.vectors * dim; at += blockDim.x) {
    const int64_t i = at / dim, k = at % dim;
    float sum = i == 0 ? to_float(gradient[k]) : 0.0f;
    for (int64_t j = 0; j < v.vectors; ++j) {
      if (j == i) continue;
      const int64_t high = i > j ? i : j, low = i > j ? j : i;
      const float value = use_shared ? shared[j * dim + k] : to_float(v.vector<T>(sample, j)[k]);
      sum = fmaf(to_float(gradient[dim + high * (high - 1) / 2 + low]), value, sum);
    }
    (i == 0 ? dfirst.row<T>(sample)[k] : drest.row<T>(sample)[at - dim]) = rounded<T>(sum);
  }
}

/// Bytes of shared memory for the kernel, or 0 where they are more than a block may have.
template <class Kernel>
size_t shared_bytes(Kernel kernel, size_t wanted) {
  constexpr size_t kMost = size_t(200) << 10;
  if (wanted > kMost) return 0;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(wanted)), "shared memory");
  return wanted;
}

/// Whether the vectors can be read 16 bytes at a time.
bool packs(const Interaction& v) {
  Matrix rest = v.rest;
  rest.cols = v.dim();
  return cuda::packs(v.first) && (v.vectors == 1 || cuda::packs(rest));
}

unsigned blocks_for(int64_t samples, int per_block) {
  return unsigned((samples + per_block - 1) / per_block);
}

}  // namespace

void CudaDevice::interact(Queue& queue, const Interaction& v, Matrix out, Precision precision) {
  if (v.batch() == 0) return;
  const cudaStream_t stream = cuda(queue).stream();
  with_dtype(out.dtype, [&]<class T>(T) {
    const bool aligned =
        packs(v) && out.stride % kPackElements<T> == 0 && reinterpret_cast<uintptr_t>(out.data) % 16 == 0;
    if (precision != Precision::fp32 && aligned && v.vectors <= kMostVectors && v.dim() % kForwardChunk<T> == 0) {
      interact_mma_kernel<T><<<blocks_for(v.batch(), kMmaWarps), 32 * kMmaWarps, 0, stream>>>(v, out);
    } else if (precision == Precision::fp32 && aligned && v.vectors <= kWarpVectors && v.dim() % 128 == 0) {
      const size_t shared =
          shared_bytes(interact_warp_kernel, size_t(kInteractWarps) * kWarpVectors * kForwardStride * sizeof(float));
      interact_warp_kernel<<<blocks_for(v.batch(), kInteractWarps), 32 * kInteractWarps, shared, stream>>>(v, out);
    } else {
      const size_t shared = shared_bytes(interact_kernel<T>, size_t(v.vectors * (v.dim() + 1)) * sizeof(float));
      interact_kernel<T><<<unsigned(v.batch()), kThreads, shared, stream>>>(v, out, shared > 0);
    }
  });
  check_launch("interact");
}

void CudaDevice::interact_backward(Queue& queue, const Interaction& v, Matrix dout, Matrix dfirst, Matrix drest,
                                   Precision precision) {
  if (v.batch() == 0) return;
  const cudaStream_t stream = cuda(queue).stream();
  with_dtype(dout.dtype, [&]<class T>(T) {
    const bool aligned = packs(v) && cuda::packs(dfirst) && (v.vectors == 1 || cuda::packs(drest)) &&
                         dout.stride % kPackElements<T> == 0 && reinterpret_cast<uintptr_t>(dout.data) % 16 == 0;
    if (precision != Precision::fp32 && aligned && v.vectors <= kMostVectors && v.dim() % kBackwardChunk<T> == 0) {
      interact_backward_mma_kernel<T>
          <<<blocks_for(v.batch(), kMmaWarps), 32 * kMmaWarps, 0, stream>>>(v, dout, dfirst, drest);
    } else if (precision == Precision::fp32 && aligned && v.vectors <= kWarpVectors && v.dim() % 128 == 0) {
      interact_backward_warp_kernel<<<blocks_for(v.batch(), kInteractWarps), 32 * kInteractWarps, 0, stream>>>(
          v, dout, dfirst, drest);
    } else {
      const size_t shared = shared_bytes(interact_backward_kernel<T>, size_t(v.vectors * v.dim()) * sizeof(float));
      interact_backward_kernel<T>
          <<<unsigned(v.batch()), kThreads, shared, stream>>>(v, dout, dfirst, drest, shared > 0);
    }
  });
  check_launch("interact_backward");
}

}  // namespace dlrm::cuda
