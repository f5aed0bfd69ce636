#include "kernels/cpu/cpu_device.h"

#include <cblas.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "kernels/parallel.h"

namespace dlrm {
namespace {

size_t whole_pages(size_t bytes) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  for (size_t kibibytes; file >> key >> kibibytes; file.ignore(64, '\n'))
    if (key == "MemAvailable:") return kibibytes * 1024;
  return size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void fail_for_memory(size_t bytes) {
  const int error = errno;
  fail("cpu: ", bytes, " bytes of memory needed, available are ", available_memory(), ": ", std::strerror(error));
}

/// Address space, zero and backed page by page when it is first written, so that a huge sparse table costs what it
/// uses.
std::byte* map(size_t bytes, int protection) {
  if (bytes == 0) return nullptr;
  void* data = mmap(nullptr, whole_pages(bytes), protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) fail_for_memory(bytes);
  madvise(data, whole_pages(bytes), MADV_HUGEPAGE);  // fewer address translations for random rows; a wish, not a need
  return static_cast<std::byte*>(data);
}

class InlineEvent : public Event {
 public:
  void wait() override {}
};

class InlineQueue : public Queue {
 public:
  void synchronize() override {}
  void check_faults() override {}
  void record(Event&) override {}
  void wait(const Event&) override {}
  std::unique_ptr<Recording> make_recording() override { return std::make_unique<Recording>(); }
  void run(Recording&, const std::vector<int64_t>&, const std::function<void()>& body) override { body(); }
};

class MappedRange : public GrowableMemory {
 public:
  explicit MappedRange(size_t bytes) : data_(map(bytes, PROT_NONE)), reserved_(whole_pages(bytes)) {}
  ~MappedRange() override {
    if (data_) munmap(data_, reserved_);
  }
  std::byte* data() const override { return data_; }
  void grow(size_t bytes) override {
    if (bytes <= grown_) return;
    check(bytes <= reserved_, "cpu: cannot grow to ", bytes, " bytes, reserved are ", reserved_);
    bytes = whole_pages(bytes);
    if (mprotect(data_, bytes, PROT_READ | PROT_WRITE) != 0) fail_for_memory(bytes);
    grown_ = bytes;
  }

 private:
  std::byte* data_;
  size_t reserved_, grown_ = 0;
};

}  // namespace

CpuDevice::CpuDevice() {
  openblas_set_num_threads(
      1);  // parallel_for is the only source of threads, so that bits do not depend on their number
}

std::unique_ptr<Queue> CpuDevice::make_queue() {
  return std::make_unique<InlineQueue>();
}
std::unique_ptr<Event> CpuDevice::make_event() {
  return std::make_unique<InlineEvent>();
}

std::byte* CpuDevice::allocate(size_t bytes) {
  return map(bytes, PROT_READ | PROT_WRITE);
}
void CpuDevice::release(std::byte* data, size_t bytes) noexcept {
  munmap(data, whole_pages(bytes));
}

size_t CpuDevice::available_bytes() {
  return available_memory();
}

std::unique_ptr<GrowableMemory> CpuDevice::reserve(size_t bytes) {
  return std::make_unique<MappedRange>(bytes);
}

void CpuDevice::copy(Queue&, void* to, const void* from, size_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
}
void CpuDevice::zero(Queue&, void* data, size_t bytes) {
  if (bytes) std::memset(data, 0, bytes);
}

std::unique_ptr<Device> make_cpu_device() {
  return std::make_unique<CpuDevice>();
}

}  // namespace dlrm
