#include "kernels/cuda/device.h"

#include <cuda.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <map>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/gemm.h"

namespace dlrm::cuda {
namespace {

class CudaEvent : public Event {
 public:
  CudaEvent() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  cudaEvent_t event() const { return event_; }
  void wait() override { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// CUDA graphs. Arguments that come for the first time are not recorded: they may never come again, as those of the
/// last batch of an epoch, and the first run makes what cannot be made while recording.
class GraphRecording : public Recording {
 public:
  ~GraphRecording() override { clear(); }

  void run(cudaStream_t stream, const std::vector<int64_t>& arguments, const std::function<void()>& body) {
    if (graphs_.size() > kMostGraphs) clear();
    const auto [entry, is_new] = graphs_.try_emplace(arguments, nullptr);
    if (is_new) return body();
    if (!entry->second) entry->second = record(stream, body);
    check_cuda(cudaGraphLaunch(entry->second, stream), "cudaGraphLaunch");
  }

 private:
  static constexpr size_t kMostGraphs = 8;

  static cudaGraphExec_t record(cudaStream_t stream, const std::function<void()>& body) {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
      body();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph) cudaGraphDestroy(graph);
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "cudaGraphInstantiate");
    return executable;
  }

  void clear() {
    cudaDeviceSynchronize();  // some may be running
    for (const auto& [arguments, graph] : graphs_)
      if (graph) cudaGraphExecDestroy(graph);
    graphs_.clear();
  }

  std::map<std::vector<int64_t>, cudaGraphExec_t> graphs_;
};

/// The driver's functions for virtual memory, found at run time, so that the program starts on machines without a
/// driver.
struct Driver {
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuMemGetAllocationGranularity) granularity;

  Driver() {
    find("cuMemAddressReserve", reserve);
    find("cuMemAddressFree", free);
    find("cuMemCreate", create);
    find("cuMemRelease", release);
    find("cuMemMap", map);
    find("cuMemUnmap", unmap);
    find("cuMemSetAccess", set_access);
    find("cuMemGetAllocationGranularity", granularity);
  }

 private:
  template <class F>
  static void find(const char* name, F& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
    check_cuda(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status), name);
    check(status == cudaDriverEntryPointSuccess, "cuda: the driver has no ", name);
    function = reinterpret_cast<F>(found);
  }
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

void check_driver(CUresult status, const char* what, size_t bytes) {
  check(status == CUDA_SUCCESS, "cuda: ", what, " of ", bytes, " bytes failed, driver error ", int(status));
}

class MappedRange : public GrowableMemory {
 public:
  MappedRange(int device, size_t bytes) : name_("cuda" + std::to_string(device)) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    size_t granularity = 0;
    check_driver(driver().granularity(&granularity, &properties_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "granularity",
                 0);
    chunk_ = std::max(granularity, size_t(32) << 20);
    reserved_ = (bytes + chunk_ - 1) / chunk_ * chunk_;
    check_driver(driver().reserve(&base_, reserved_, 0, 0, 0), "reserving addresses", reserved_);
  }
  ~MappedRange() override {
    if (grown_ > 0) driver().unmap(base_, grown_);
    for (CUmemGenericAllocationHandle handle : handles_) driver().release(handle);
    driver().free(base_, reserved_);
  }

  std::byte* data() const override { return reinterpret_cast<std::byte*>(base_); }
  void grow(size_t bytes) override {
    check(bytes <= reserved_, name_, ": cannot grow to ", bytes, " bytes, reserved are ", reserved_);
    while (grown_ < bytes) {
      CUmemGenericAllocationHandle handle;
      check_driver(driver().create(&handle, chunk_, &properties_, 0), "allocation", chunk_);
      handles_.push_back(handle);
      check_driver(driver().map(base_ + grown_, chunk_, 0, handle, 0), "mapping", chunk_);
      const CUmemAccessDesc access{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      check_driver(driver().set_access(base_ + grown_, chunk_, &access, 1), "access", chunk_);
      grown_ += chunk_;
    }
  }

 private:
  std::string name_;
  CUmemAllocationProp properties_{};
  CUdeviceptr base_ = 0;
  size_t chunk_ = 0, reserved_ = 0, grown_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;
};

}  // namespace

CudaQueue::CudaQueue(int device) : device_(device) {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  check_cuda(cudaHostAlloc(&fault_, sizeof(Fault), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  *fault_ = {};
  check_cuda(cudaMalloc(&fault_taken_, sizeof(int32_t)), "cudaMalloc");
  check_cuda(cudaMemsetAsync(fault_taken_, 0, sizeof(int32_t), stream_), "cudaMemsetAsync");
}

CudaQueue::~CudaQueue() {
  cudaStreamSynchronize(stream_);
  gemm_.reset();
  cudaFree(fault_taken_);
  cudaFreeHost(fault_);
  cudaStreamDestroy(stream_);
}

void CudaQueue::synchronize() {
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  check_faults();
}

void CudaQueue::check_faults() {
  if (std::atomic_ref(fault_->kind).load(std::memory_order_acquire) == Fault::none) return;
  const Fault fault = *fault_;
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  *fault_ = {};
  check_cuda(cudaMemsetAsync(fault_taken_, 0, sizeof(int32_t), stream_), "cudaMemsetAsync");
  check(fault.kind != Fault::pool_full, "overflow pool: all entries are in use");
  fail("table ", fault.table, ": id ", fault.id, " of sample ", fault.sample, " of the batch, expected 0 .. ",
       fault.rows - 1);
}

Gemm& CudaQueue::gemm() {
  if (!gemm_) gemm_ = std::make_unique<Gemm>();
  return *gemm_;
}

void CudaQueue::record(Event& event) {
  check_cuda(cudaEventRecord(static_cast<CudaEvent&>(event).event(), stream_), "cudaEventRecord");
}
void CudaQueue::wait(const Event& event) {
  check_cuda(cudaStreamWaitEvent(stream_, static_cast<const CudaEvent&>(event).event(), 0), "cudaStreamWaitEvent");
}

std::unique_ptr<Recording> CudaQueue::make_recording() {
  return std::make_unique<GraphRecording>();
}
void CudaQueue::run(Recording& recording, const std::vector<int64_t>& arguments, const std::function<void()>& body) {
  static_cast<GraphRecording&>(recording).run(stream_, arguments, body);
}

void CudaQueue::begin_range(const char* name) {
  nvtxRangePushA(name);
}
void CudaQueue::end_range() {
  nvtxRangePop();
}

CudaDevice::CudaDevice(int index) : index_(index) {
  check_cuda(cudaSetDevice(index), "cudaSetDevice");
}

std::string CudaDevice::name() const {
  return "cuda" + std::to_string(index_);
}
std::unique_ptr<Queue> CudaDevice::make_queue() {
  return std::make_unique<CudaQueue>(index_);
}
std::unique_ptr<Event> CudaDevice::make_event() {
  return std::make_unique<CudaEvent>();
}

std::byte* CudaDevice::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail(name(), ": ", bytes, " bytes of memory are not to be had, available are ", available_bytes());
  }
  check_cuda(status, "cudaMalloc");
  check_cuda(cudaMemset(data, 0, bytes), "cudaMemset");
  check_cuda(cudaDeviceSynchronize(), "cudaMemset");
  return static_cast<std::byte*>(data);
}

void CudaDevice::release(std::byte* data, size_t) noexcept {
  const cudaError_t status = cudaFree(data);
  if (status != cudaSuccess) std::cerr << "cuda: cudaFree: " << cudaGetErrorString(status) << "\n";
}

std::byte* CudaDevice::allocate_host(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  check_cuda(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  std::memset(data, 0, bytes);
  return static_cast<std::byte*>(data);
}

void CudaDevice::release_host(std::byte* data, size_t) noexcept {
  const cudaError_t status = cudaFreeHost(data);
  if (status != cudaSuccess) std::cerr << "cuda: cudaFreeHost: " << cudaGetErrorString(status) << "\n";
}

size_t CudaDevice::available_bytes() {
  size_t available = 0, total = 0;
  check_cuda(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  return available;
}

std::unique_ptr<GrowableMemory> CudaDevice::reserve(size_t bytes) {
  return std::make_unique<MappedRange>(index_, bytes);
}

void CudaDevice::copy(Queue& queue, void* to, const void* from, size_t bytes) {
  if (bytes) check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda(queue).stream()), "cudaMemcpyAsync");
}

void CudaDevice::zero(Queue& queue, void* data, size_t bytes) {
  if (bytes) check_cuda(cudaMemsetAsync(data, 0, bytes, cuda(queue).stream()), "cudaMemsetAsync");
}

}  // namespace dlrm::cuda

namespace dlrm {

std::unique_ptr<Device> make_cuda_device(int index) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return index < count ? std::make_unique<cuda::CudaDevice>(index) : nullptr;
}

}  // namespace dlrm
