// One NVIDIA GPU. A queue is a stream. Dense operations are in gemm.cpp (cuBLASLt), dense.cu and interact.cu, those on
// tables in sparse.cu and sparse128.cu.
#pragma once
#include <cuda_runtime.h>

#include <memory>

#include "kernels/buffer.h"
#include "kernels/device.h"

namespace dlrm::cuda {

/// What a kernel found wrong first. Written over the bus into host memory, so that it can be read at any time.
struct Fault {
  enum Kind : int32_t { none, bad_id, pool_full };
  int32_t kind;
  int64_t table, id, rows, sample;
};

/// Where kernels report to.
struct FaultSink {
  int32_t* taken;  // device memory: whether somebody has reported
  Fault* fault;    // pinned host memory
};

class Gemm;

class CudaQueue : public Queue {
 public:
  explicit CudaQueue(int device);
  ~CudaQueue() override;
  void synchronize() override;
  void check_faults() override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  std::unique_ptr<Recording> make_recording() override;
  void run(Recording& recording, const std::vector<int64_t>& arguments, const std::function<void()>& body) override;
  void begin_range(const char* name) override;
  void end_range() override;

  cudaStream_t stream() const { return stream_; }
  FaultSink faults() const { return {fault_taken_, fault_}; }
  Gemm& gemm();

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  int32_t* fault_taken_ = nullptr;
  Fault* fault_ = nullptr;
  std::unique_ptr<Gemm> gemm_;  // made when first asked for
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int index);
  std::string name() const override;
  bool supports(Precision) const override { return true; }
  std::unique_ptr<Queue> make_queue() override;
  std::unique_ptr<Event> make_event() override;

  std::byte* allocate(size_t bytes) override;
  void release(std::byte* data, size_t bytes) noexcept override;
  std::byte* allocate_host(size_t bytes) override;
  void release_host(std::byte* data, size_t bytes) noexcept override;
  size_t available_bytes() override;
  std::unique_ptr<GrowableMemory> reserve(size_t bytes) override;
  void copy(Queue&, void* to, const void* from, size_t bytes) override;
  void zero(Queue&, void* data, size_t bytes) override;

  void linear(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Precision precision) override;
  void linear_backward(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad, Matrix dx,
                       Precision precision) override;
  void interact(Queue&, const Interaction& v, Matrix out, Precision precision) override;
  void interact_backward(Queue&, const Interaction& v, Matrix dout, Matrix dfirst, Matrix drest,
                         Precision precision) override;
  void bce_with_logits(Queue&, const float* logits, const float* labels, int64_t batch, int64_t global_batch,
                       float* dlogits, float* loss) override;
  void dense_update(Queue&, float* weights, const float* gradients, float* states, int64_t count, OptimizerRule rule,
                    const StepState* state, Bf16* rounded) override;

  size_t unique_scratch_bytes(int64_t nnz) override;
  size_t update_scratch_bytes(int64_t nnz, int64_t dim) override;
  void lookup(Queue&, const StoreView& store, const Bags& bags, BagVectors out, Rounding rounding) override;
  void unique(Queue&, const StoreView& store, const Bags& bags, UniqueRows out, std::byte* scratch) override;
  void lookup_unique(Queue&, const StoreView& store, int64_t nnz, const UniqueRows& unique, Matrix out,
                     Rounding rounding) override;
  void update(Queue&, const StoreView& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
              OptimizerRule rule, const StepState* state, std::byte* scratch) override;
  void fill_uniform(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count, float bound,
                    uint64_t seed) override;
  void encode_rows(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count,
                   const float* rows) override;
  void decode_rows(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count, float* rows) override;

 private:
  int index_;
};

// Launchers of dense.cu that gemm.cpp uses.   partial: scratch of kPartialBytes
inline constexpr size_t kPartialBytes = size_t(16) << 20;
void add_bias(cudaStream_t stream, Matrix y, Matrix bias, bool relu);
void mask_and_sum(cudaStream_t stream, Matrix y, bool relu, Matrix dy, float* bias, float* partial);
/// Layers one wide: y = x weight^T + bias, and their gradients.
void dot(cudaStream_t stream, Matrix x, Linear layer, bool relu, Matrix y);
void dot_backward(cudaStream_t stream, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad, Matrix dx,
                  float* partial);

inline CudaQueue& cuda(Queue& queue) {
  return static_cast<CudaQueue&>(queue);
}

}  // namespace dlrm::cuda
