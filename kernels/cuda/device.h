// One NVIDIA GPU. A queue is a stream. Dense operations are in gemm.cpp (cuBLAS) and dense.cu, those on tables in
// sparse.cu.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <memory>

#include "kernels/buffer.h"
#include "kernels/device.h"

namespace dlrm::cuda {

/// What a kernel found wrong; read when a queue is synchronized.
struct Fault {
  enum Kind : int32_t { none, bad_id, pool_full };
  int32_t kind;
  int64_t table, id, rows, sample;
};

inline constexpr size_t kWorkspaceBytes = size_t(32) << 20;

class CudaQueue : public Queue {
 public:
  explicit CudaQueue(int device);
  ~CudaQueue() override;
  void synchronize() override;
  void record(Event& event) override;
  void wait(const Event& event) override;

  cudaStream_t stream() const { return stream_; }
  Fault* fault() const { return fault_; }
  cublasHandle_t cublas() const { return cublas_; }
  std::byte* workspace() const { return workspace_; }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  Fault* fault_ = nullptr;
  Fault* host_fault_ = nullptr;  // pinned
  std::byte* workspace_ =
      nullptr;  // of cuBLAS and of mask_and_sum, by turns; its size is fixed, so that cuBLAS's choices are
  cublasHandle_t cublas_ = nullptr;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int index);
  std::string name() const override;
  bool supports(Precision precision) const override {
    return precision == Precision::fp32 || precision == Precision::tf32;
  }
  std::unique_ptr<Queue> make_queue() override;
  std::unique_ptr<Event> make_event() override;

  std::byte* allocate(size_t bytes) override;
  void release(std::byte* data, size_t bytes) noexcept override;
  size_t available_bytes() override;
  std::unique_ptr<GrowableMemory> reserve(size_t bytes) override;
  void copy(Queue&, void* to, const void* from, size_t bytes) override;
  void zero(Queue&, void* data, size_t bytes) override;

  void linear(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Precision precision) override;
  void linear_backward(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad, Matrix dx,
                       Precision precision) override;
  void interact(Queue&, Matrix v, int64_t vectors, Matrix out) override;
  void interact_backward(Queue&, Matrix v, int64_t vectors, Matrix dout, Matrix dv) override;
  void bce_with_logits(Queue&, const float* logits, const float* labels, int64_t batch, int64_t global_batch,
                       float* dlogits, float* loss) override;
  void dense_update(Queue&, float* weights, const float* gradients, float* sums, int64_t count, OptimizerRule rule,
                    const StepState* state) override;

  size_t sparse_scratch_bytes(int64_t nnz, int64_t dim) override;
  void lookup(Queue&, const StoreView& store, const Bags& bags, BagVectors out) override;
  void unique(Queue&, const StoreView& store, const Bags& bags, UniqueRows out, std::byte* scratch) override;
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

// Launchers of dense.cu that gemm.cpp uses.
void add_bias(cudaStream_t stream, Matrix y, const float* bias, bool relu);
void mask_and_sum(CudaQueue& queue, Matrix y, bool relu, Matrix dy, float* bias);

inline CudaQueue& cuda(Queue& queue) {
  return static_cast<CudaQueue&>(queue);
}

}  // namespace dlrm::cuda
