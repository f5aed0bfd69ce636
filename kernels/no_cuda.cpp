// Stands in for kernels/cuda in a build without CUDA.
#include "kernels/device.h"

namespace dlrm {

std::unique_ptr<Device> make_cuda_device(int) {
  return nullptr;
}

}  // namespace dlrm
