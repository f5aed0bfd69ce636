// CUDA calls that fail become Error.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime.h>

#include "kernels/error.h"

namespace dlrm::cuda {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail("cuda: ", what, ": ", cudaGetErrorString(status));
}

inline void check_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cublas: ", what, ": ", cublasLtGetStatusString(status));
}

/// After a launch.
inline void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), kernel);
}

}  // namespace dlrm::cuda
