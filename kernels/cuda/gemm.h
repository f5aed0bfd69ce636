// The door to cuBLASLt: products of matrices with a bias and ReLU fused in. Each queue has its own, with a workspace of
// fixed size; the algorithm for a shape is chosen once, by cuBLASLt's heuristic and never by timing, so that a run's
// bits do not depend on what else the machine does.
#pragma once
#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>

#include "kernels/device.h"

namespace dlrm::cuda {

class Gemm {
 public:
  Gemm();
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Row-major: c [rows, cols] = op(a) op(b), overwritten, or with `bias` [cols] and ReLU: relu(c + bias). The dtype of
  /// a, b and bias is the same. False, and nothing done, where cuBLASLt has no kernel that fuses the bias.
  bool multiply(cudaStream_t stream, Precision precision, bool transpose_a, Matrix a, bool transpose_b, Matrix b,
                Matrix c, const void* bias = nullptr, bool relu = false);

  /// Scratch of the reductions beside the products.
  float* partial() const { return partial_; }

 private:
  /// Everything that the choice of an algorithm depends on. `first` and `second` are the factors in cuBLASLt's order:
  /// it is column-major and sees each of our row-major matrices transposed, so it is asked for c^T = op(b)^T op(a)^T.
  struct Key {
    Precision precision;
    bool transpose_first, transpose_second, bias, relu;
    DType factor, product;
    int64_t rows, cols, inner;  // of the column-major product
    int64_t first_stride, second_stride, product_stride;
    int first_alignment, second_alignment, product_alignment;
    auto operator<=>(const Key&) const = default;
  };
  struct Plan;
  const Plan& plan(const Key& key);

  cublasLtHandle_t handle_ = nullptr;
  std::byte* workspace_ = nullptr;
  float* partial_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace dlrm::cuda
