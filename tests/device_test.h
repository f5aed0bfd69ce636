// The base of tests that run on every device present: TEST_P(LookupTest, EmptyBagSumsToZero) becomes
// LookupTest.EmptyBagSumsToZero/cpu, .../cuda0 and so on.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "kernels/buffer.h"
#include "kernels/device.h"

namespace dlrm {

class DeviceTest : public testing::TestWithParam<std::string> {
 protected:
  DeviceTest() : device_(make_device(GetParam())), queue_(device_->make_queue()) {}

  Device& device() { return *device_; }
  Queue& queue() { return *queue_; }

  /// A copy of host values in device memory.
  template <class T>
  Buffer upload(const std::vector<T>& values) {
    Buffer buffer(device(), values.size() * sizeof(T));
    device().copy(queue(), buffer.data(), values.data(), values.size() * sizeof(T));
    queue().synchronize();
    return buffer;
  }

  template <class T>
  std::vector<T> download(const Buffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    device().copy(queue(), values.data(), buffer.data(), buffer.bytes());
    queue().synchronize();
    return values;
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
};

inline std::string device_test_name(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

#define DLRM_ON_ALL_DEVICES(Suite) \
  INSTANTIATE_TEST_SUITE_P(, Suite, testing::ValuesIn(::dlrm::device_names()), ::dlrm::device_test_name)

}  // namespace dlrm
