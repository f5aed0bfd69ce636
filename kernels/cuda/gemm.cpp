// Fully connected layers by cuBLAS. cuBLAS is column-major: it sees each of our row-major matrices transposed.
#include "kernels/cuda/check.h"
#include "kernels/cuda/device.h"

namespace dlrm::cuda {
namespace {

/// c = op(a) op(b), row-major, c [rows, cols].
void gemm(CudaQueue& queue, Precision precision, bool transpose_a, Matrix a, bool transpose_b, Matrix b, Matrix c) {
  if (c.rows == 0 || c.cols == 0) return;
  const int64_t inner = transpose_a ? a.rows : a.cols;
  const float one = 1, none = 0;
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const cublasMath_t math = precision == Precision::tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
  check_cublas(cublasSetMathMode(queue.cublas(), math), "cublasSetMathMode");
  check_cublas(cublasSgemm(queue.cublas(), op(transpose_b), op(transpose_a), int(c.cols), int(c.rows), int(inner), &one,
                           b.data, int(b.stride), a.data, int(a.stride), &none, c.data, int(c.stride)),
               "cublasSgemm");
}

}  // namespace

void CudaDevice::linear(Queue& queue, Matrix x, Linear layer, bool relu, Matrix y, Precision precision) {
  gemm(cuda(queue), precision, false, x, true, layer.weight, y);
  add_bias(cuda(queue).stream(), y, layer.bias, relu);
}

void CudaDevice::linear_backward(Queue& queue, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad,
                                 Matrix dx, Precision precision) {
  mask_and_sum(cuda(queue), y, relu, dy, grad.bias);
  if (x.rows == 0) {
    for (int64_t r = 0; r < grad.weight.rows; ++r)
      zero(queue, grad.weight.row(r), size_t(grad.weight.cols) * sizeof(float));
    return;
  }
  gemm(cuda(queue), precision, true, dy, false, x, grad.weight);
  if (dx.data) gemm(cuda(queue), precision, false, dy, false, layer.weight, dx);
}

}  // namespace dlrm::cuda
