#include "kernels/device.h"

namespace dlrm {

std::vector<std::string> device_names() {
  std::vector<std::string> names = {"cpu"};
  for (int gpu = 0;; ++gpu) {
    const auto device = make_cuda_device(gpu);
    if (!device) return names;
    names.push_back(device->name());
  }
}

std::unique_ptr<Device> make_device(const std::string& name) {
  if (name == "cpu") return make_cpu_device();
  const int gpu = name.size() > 4 && name.starts_with("cuda") ? std::atoi(name.c_str() + 4) : 0;
  if (name == "auto" || name.starts_with("cuda")) {
    if (auto device = make_cuda_device(gpu)) return device;
    if (name == "auto") return make_cpu_device();
    fail("device '", name, "': this build or machine has no such GPU. Hint: train.device=cpu");
  }
  fail("device '", name, "': expected auto, cpu, cuda or cuda0, cuda1, ...");
}

}  // namespace dlrm
