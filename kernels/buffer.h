// Owns memory that a device gives.
#pragma once
#include <utility>

#include "kernels/device.h"

namespace dlrm {

template <auto kAllocate, auto kRelease>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  OwnedMemory(Device& device, size_t bytes) : device_(&device), data_((device.*kAllocate)(bytes)), bytes_(bytes) {}
  OwnedMemory(OwnedMemory&& other) noexcept { *this = std::move(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~OwnedMemory() {
    if (data_) (device_->*kRelease)(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Memory of a device.
using Buffer = OwnedMemory<&Device::allocate, &Device::release>;
/// Host memory, made for copies to and from a device.
using HostBuffer = OwnedMemory<&Device::allocate_host, &Device::release_host>;

}  // namespace dlrm
