#include "kernels/cuda/gemm.h"

#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device.h"

namespace dlrm::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t(32) << 20;
constexpr int kMostAlignment = 256;

cudaDataType data_type(DType dtype) {
  return dtype == DType::fp32 ? CUDA_R_32F : CUDA_R_16BF;
}

/// Of an address, in bytes.
int alignment_of(const void* data) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data);
  return address == 0 ? kMostAlignment : int(std::min<uintptr_t>(address & -address, kMostAlignment));
}

/// A column-major matrix as cuBLASLt sees it.
class Layout {
 public:
  Layout(DType dtype, int64_t rows, int64_t cols, int64_t stride) {
    check_cublas(cublasLtMatrixLayoutCreate(&layout_, data_type(dtype), uint64_t(rows), uint64_t(cols), stride),
                 "cublasLtMatrixLayoutCreate");
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

}  // namespace

struct Gemm::Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  Layout first, second, product;
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;

  Plan(cublasLtHandle_t handle, const Key& key)
      : first(key.factor, key.transpose_first ? key.inner : key.rows, key.transpose_first ? key.rows : key.inner,
              key.first_stride),
        second(key.factor, key.transpose_second ? key.cols : key.inner, key.transpose_second ? key.inner : key.cols,
               key.second_stride),
        product(key.product, key.rows, key.cols, key.product_stride) {
    const auto compute = key.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_cublas(cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_first ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_second ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, !key.bias  ? CUBLASLT_EPILOGUE_DEFAULT
                                       : key.relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                                  : CUBLASLT_EPILOGUE_BIAS);
    if (key.bias) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(key.factor));

    cublasLtMatmulPreference_t wishes = nullptr;
    check_cublas(cublasLtMatmulPreferenceCreate(&wishes), "cublasLtMatmulPreferenceCreate");
    const auto wish = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
      check_cublas(cublasLtMatmulPreferenceSetAttribute(wishes, name, &value, sizeof value),
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t(key.first_alignment));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t(key.second_alignment));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t(key.product_alignment));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t(key.product_alignment));
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, operation, first.get(), second.get(), product.get(), product.get(), wishes, 1, &result, &count);
    cublasLtMatmulPreferenceDestroy(wishes);
    found = status == CUBLAS_STATUS_SUCCESS && count > 0;
    algorithm = result.algo;
  }
  ~Plan() { cublasLtMatmulDescDestroy(operation); }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t name, T value) const {
    check_cublas(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }
};

Gemm::Gemm() {
  check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
  check_cuda(cudaMalloc(&workspace_, kWorkspaceBytes), "cudaMalloc");
  check_cuda(cudaMalloc(&partial_, kPartialBytes), "cudaMalloc");
}

Gemm::~Gemm() {
  cudaFree(partial_);
  cudaFree(workspace_);
  plans_.clear();
  cublasLtDestroy(handle_);
}

const Gemm::Plan& Gemm::plan(const Key& key) {
  std::unique_ptr<Plan>& plan = plans_[key];
  if (!plan) plan = std::make_unique<Plan>(handle_, key);
  return *plan;
}

bool Gemm::multiply(cudaStream_t stream, Precision precision, bool transpose_a, Matrix a, bool transpose_b, Matrix b,
                    Matrix c, const void* bias, bool relu) {
  if (c.rows == 0 || c.cols == 0) return true;
  const int64_t inner = transpose_a ? a.rows : a.cols;
  const Plan& plan =
      this->plan({precision, transpose_b, transpose_a, bias != nullptr, relu, a.dtype, c.dtype, c.cols, c.rows, inner,
                  b.stride, a.stride, c.stride, alignment_of(b.data), alignment_of(a.data), alignment_of(c.data)});
  if (!plan.found) {
    check(bias != nullptr, "cublas: no algorithm for a product [", c.rows, ", ", inner, "] x [", inner, ", ", c.cols,
          "]");
    return false;
  }
  if (bias) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1, none = 0;
  check_cublas(cublasLtMatmul(handle_, plan.operation, &one, b.data, plan.first.get(), a.data, plan.second.get(), &none,
                              c.data, plan.product.get(), c.data, plan.product.get(), &plan.algorithm, workspace_,
                              kWorkspaceBytes, stream),
               "cublasLtMatmul");
  return true;
}

void CudaDevice::linear(Queue& queue, Matrix x, Linear layer, bool relu, Matrix y, Precision precision) {
  if (x.rows == 0) return;
  const cudaStream_t stream = cuda(queue).stream();
  if (y.cols == 1) return dot(stream, x, layer, relu, y);
  Gemm& gemm = cuda(queue).gemm();
  if (gemm.multiply(stream, precision, false, x, true, layer.weight, y, layer.bias, relu)) return;
  gemm.multiply(stream, precision, false, x, true, layer.weight, y);
  add_bias(stream, y, {layer.bias, 1, y.cols, y.cols, layer.weight.dtype}, relu);
}

// The mask and the bias gradient are a pass of their own: fused into the products by cuBLASLt (DRELU, BGRADB epilogues)
// they cost more, 0.60 ms against 0.20 + 0.09 (bf16, 65,536 x 1024 by 1024, H200).
void CudaDevice::linear_backward(Queue& queue, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad,
                                 Matrix dx, Precision precision) {
  const cudaStream_t stream = cuda(queue).stream();
  if (x.rows == 0) {
    for (int64_t r = 0; r < grad.weight.rows; ++r)
      zero(queue, grad.weight.row(r), size_t(grad.weight.cols) * sizeof(float));
    return zero(queue, grad.bias, size_t(grad.weight.rows) * sizeof(float));
  }
  Gemm& gemm = cuda(queue).gemm();
  if (y.cols == 1) return dot_backward(stream, x, layer, relu, y, dy, grad, dx, gemm.partial());
  mask_and_sum(stream, y, relu, dy, static_cast<float*>(grad.bias), gemm.partial());
  gemm.multiply(stream, precision, true, dy, false, x, grad.weight);
  if (dx.data) gemm.multiply(stream, precision, false, dy, false, layer.weight, dx);
}

}  // namespace dlrm::cuda
