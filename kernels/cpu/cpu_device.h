// The device that always exists. A queue runs its work inline, on all threads that parallel_for may use.
// Dense operations are in dense.cpp, those on tables in sparse.cpp.
#pragma once
#include "kernels/device.h"

namespace dlrm {

class CpuDevice : public Device {
 public:
  CpuDevice();
  std::string name() const override { return "cpu"; }
  bool supports(Precision precision) const override { return precision != Precision::tf32; }
  std::unique_ptr<Queue> make_queue() override;
  std::unique_ptr<Event> make_event() override;

  std::byte* allocate(size_t bytes) override;
  void release(std::byte* data, size_t bytes) noexcept override;
  std::byte* allocate_host(size_t bytes) override { return allocate(bytes); }
  void release_host(std::byte* data, size_t bytes) noexcept override { release(data, bytes); }
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
};

}  // namespace dlrm
