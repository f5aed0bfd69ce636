#include "kernels/device.h"

#include <charconv>

namespace dlrm {
namespace {

/// The GPU that "cuda" or "cuda<index>" names; -1 for any other name.
int gpu_index(std::string_view name) {
  if (!name.starts_with("cuda")) return -1;
  name.remove_prefix(4);
  int index = 0;
  if (name.empty()) return index;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  return error == std::errc() && end == name.data() + name.size() ? index : -1;
}

}  // namespace

Precision precision_by_name(std::string_view name) {
  for (size_t i = 0; i < kPrecisionNames.size(); ++i)
    if (kPrecisionNames[i] == name) return Precision(i);
  fail("precision '", name, "' is not known to this program");
}

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
  if (name == "auto") {
    auto device = make_cuda_device(0);
    return device ? std::move(device) : make_cpu_device();
  }
  const int gpu = gpu_index(name);
  if (gpu >= 0) {
    if (auto device = make_cuda_device(gpu)) return device;
    fail("device '", name, "': this build or machine has no such GPU. Hint: train.device=cpu");
  }
  fail("device '", name, "': expected auto, cpu, cuda or cuda0, cuda1, ...");
}

}  // namespace dlrm
