// A processor, its memory, and the operations a training step is made of. Every pointer in a view is memory of that
// device.
//
// Operations are queued: they return before they have run, and run in the order of their queue. On the CPU a queue runs
// its work inline. Results do not depend on the number of threads, and are the same run after run.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/optimizer.h"
#include "kernels/views.h"

namespace dlrm {

/// Arithmetic of matrix products. Storage and sums are fp32; tf32 rounds the factors to 10 bits of mantissa (GPU only).
enum class Precision : int32_t { fp32, tf32 };

class Event {
 public:
  virtual ~Event() = default;
};

class Queue {
 public:
  virtual ~Queue() = default;
  /// Returns when everything queued so far has run. Throws Error where some of it failed.
  virtual void synchronize() = 0;
  virtual void record(Event& event) = 0;
  /// Later work of this queue starts after what the event recorded.
  virtual void wait(const Event& event) = 0;
};

/// A reserved range of addresses that is backed with memory bit by bit, so that it grows without moving.
class GrowableMemory {
 public:
  virtual ~GrowableMemory() = default;
  virtual std::byte* data() const = 0;
  /// Backs at least the first `bytes` bytes; never shrinks. Throws Error past the reserved range or out of memory.
  virtual void grow(size_t bytes) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  /// "cpu", "cuda0", ...
  virtual std::string name() const = 0;
  virtual bool supports(Precision precision) const = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  // Memory ----------------------------------------------------------------------------------------------------------
  /// Aligned to 256 bytes and zero. Throws Error naming needed and available bytes.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* data, size_t bytes) noexcept = 0;
  /// Bytes that could be allocated now, before the system begins to suffer.
  virtual size_t available_bytes() = 0;
  virtual std::unique_ptr<GrowableMemory> reserve(size_t bytes) = 0;
  /// Between host and device, or within the device.
  virtual void copy(Queue&, void* to, const void* from, size_t bytes) = 0;
  virtual void zero(Queue&, void* data, size_t bytes) = 0;

  // Dense -----------------------------------------------------------------------------------------------------------
  /// y = x weight^T + bias, then ReLU if asked.   x [batch, in]   y [batch, out], overwritten.
  virtual void linear(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Precision precision) = 0;
  /// Gradients of linear().   dy [batch, out] is masked in place where y's ReLU was shut   grad, dx [batch, in]
  /// overwritten; a dx without data is not computed.
  virtual void linear_backward(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad, Matrix dx,
                               Precision precision) = 0;

  /// out = [v_0, z, zeros]: z is the strict lower triangle, row-major, of the dot products of a sample's vectors v_0 ..
  /// v_n-1 (Naumov et al., arXiv 1906.00091, section 2).   v [batch, vectors * dim]   out [batch, >= dim + vectors
  /// (vectors - 1) / 2]
  virtual void interact(Queue&, Matrix v, int64_t vectors, Matrix out) = 0;
  /// Gradient of interact().   dv [batch, vectors * dim], overwritten.
  virtual void interact_backward(Queue&, Matrix v, int64_t vectors, Matrix dout, Matrix dv) = 0;

  /// Binary cross-entropy with logits.   logits, labels, dlogits [batch]   *loss: sum over the batch / global_batch.
  virtual void bce_with_logits(Queue&, const float* logits, const float* labels, int64_t batch, int64_t global_batch,
                               float* dlogits, float* loss) = 0;

  /// One optimizer step on `count` parameters with state->dense_lr.   sums [count], of adagrad only.
  virtual void dense_update(Queue&, float* weights, const float* gradients, float* sums, int64_t count,
                            OptimizerRule rule, const StepState* state) = 0;

  // Sparse ----------------------------------------------------------------------------------------------------------
  /// Bytes of scratch memory that unique() and update() need for a batch of nnz ids.
  virtual size_t sparse_scratch_bytes(int64_t nnz, int64_t dim) = 0;

  /// The rows that each bag names, decoded and summed; an empty bag gives zeros.   out [tables * batch vectors],
  /// overwritten. Throws Error (at once or when synchronized) naming table and id where an id is not a row of its
  /// table.
  virtual void lookup(Queue&, const StoreView& store, const Bags& bags, BagVectors out) = 0;

  /// Sorts the batch's ids. Same check as lookup().
  virtual void unique(Queue&, const StoreView& store, const Bags& bags, UniqueRows out, std::byte* scratch) = 0;

  /// For each distinct row: sums its gradients in fp32 in the order of positions (in pieces of kGradientPiece, then
  /// over the pieces), decodes the row, applies the rule with state->table_lr, encodes and stores it.   gradients: one
  /// per bag. The overflow pool must have room for every distinct row.
  virtual void update(Queue&, const StoreView& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
                      OptimizerRule rule, const StepState* state, std::byte* scratch) = 0;

  /// Sets rows to uniform values in [-bound, bound), a function of (seed, table, row, element); clears optimizer state.
  virtual void fill_uniform(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count, float bound,
                            uint64_t seed) = 0;

  /// Whole rows in and out, optimizer state untouched.   rows [count, dim]
  virtual void encode_rows(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count,
                           const float* rows) = 0;
  virtual void decode_rows(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count,
                           float* rows) = 0;
};

/// Occurrences of a row that are summed one after the other.
inline constexpr int64_t kGradientPiece = 64;

std::unique_ptr<Device> make_cpu_device();
/// Null where this build has no CUDA or the machine no such GPU.
std::unique_ptr<Device> make_cuda_device(int index);

/// "cpu", then "cuda0", ... for each GPU that can be used.
std::vector<std::string> device_names();
/// By name; "auto" is the first GPU, or the CPU without one, and "cuda" is "cuda0". Throws Error where there is none.
std::unique_ptr<Device> make_device(const std::string& name);

}  // namespace dlrm
