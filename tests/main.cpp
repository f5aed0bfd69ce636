// Says which devices the tests run on. DLRM_REQUIRE_CUDA=1: without a GPU the tests fail.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "kernels/cpu/blas.h"
#include "kernels/device.h"

int main(int argc, char** argv) {
  dlrm::use_fast_blas(argv);
  testing::InitGoogleTest(&argc, argv);
  const std::vector<std::string> devices = dlrm::device_names();
  std::cout << "devices:";
  for (const std::string& device : devices) std::cout << " " << device;
  std::cout << std::endl;
  const char* require = std::getenv("DLRM_REQUIRE_CUDA");
  if (require && std::string(require) == "1" && devices.size() < 2) {
    std::cerr << "DLRM_REQUIRE_CUDA=1, but there is no GPU that can be used\n";
    return 1;
  }
  return RUN_ALL_TESTS();
}
