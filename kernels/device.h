// A processor, its memory, and the operations a training step is made of. Every pointer in a view is memory of that
// device.
//
// Operations are queued: they return before they have run, and run in the order of their queue. On the CPU a queue runs
// its work inline. Results do not depend on the number of threads, and are the same run after run.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/optimizer.h"
#include "kernels/views.h"

namespace dlrm {

/// Arithmetic of MLPs and interaction. Sums are fp32. fp32, tf32: activations are fp32; tf32 rounds the factors of
/// products to 10 bits of mantissa. bf16: activations, their gradients and the weights that products read are bf16.
enum class Precision : int32_t { fp32, tf32, bf16 };

inline constexpr std::array<std::string_view, 3> kPrecisionNames = {"fp32", "tf32", "bf16"};
Precision precision_by_name(std::string_view name);

inline DType activation_dtype(Precision precision) {
  return precision == Precision::bf16 ? DType::bf16 : DType::fp32;
}

class Event {
 public:
  virtual ~Event() = default;
  /// Returns when what the event recorded has run; at once if it recorded nothing.
  virtual void wait() = 0;
};

/// Operations that a queue has been asked to repeat; see Queue::run.
class Recording {
 public:
  virtual ~Recording() = default;
};

class Queue {
 public:
  virtual ~Queue() = default;
  /// Returns when everything queued so far has run. Throws Error where some of it failed.
  virtual void synchronize() = 0;
  /// Throws Error where something that has run so far failed.
  virtual void check_faults() = 0;
  virtual void record(Event& event) = 0;
  /// Later work of this queue starts after what the event recorded.
  virtual void wait(const Event& event) = 0;
  virtual std::unique_ptr<Recording> make_recording() = 0;
  /// Queues the operations that `body` queues. A queue that can replay a recording faster than queue its operations one
  /// by one does so, without calling body, once it has seen the same arguments: they must tell everything that body's
  /// operations depend on and that changes from call to call. Body neither waits nor allocates.
  virtual void run(Recording& recording, const std::vector<int64_t>& arguments, const std::function<void()>& body) = 0;
  /// Names what is queued between these for profilers; see Range.
  virtual void begin_range(const char*) {}
  virtual void end_range() {}
};

/// Names, for profilers, the work that is queued while it lives.
class Range {
 public:
  Range(Queue& queue, const char* name) : queue_(queue) { queue.begin_range(name); }
  ~Range() { queue_.end_range(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  Queue& queue_;
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
  /// Host memory that copies to and from the device fastest, and without holding up the host.
  virtual std::byte* allocate_host(size_t bytes) = 0;
  virtual void release_host(std::byte* data, size_t bytes) noexcept = 0;
  /// Bytes that could be allocated now, before the system begins to suffer.
  virtual size_t available_bytes() = 0;
  virtual std::unique_ptr<GrowableMemory> reserve(size_t bytes) = 0;
  /// Between host and device, or within the device.
  virtual void copy(Queue&, void* to, const void* from, size_t bytes) = 0;
  virtual void zero(Queue&, void* data, size_t bytes) = 0;

  // Dense. Matrices are of activation_dtype(precision), gradients of weights fp32 -----------------------------------
  /// y = x weight^T + bias, then ReLU if asked.   x [batch, in]   y [batch, out], overwritten; fp32 where out is 1.
  virtual void linear(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Precision precision) = 0;
  /// Gradients of linear().   dy [batch, out], of y's dtype, is masked in place where y's ReLU was shut   grad, dx
  /// [batch, in] overwritten; a dx without data is not computed.
  virtual void linear_backward(Queue&, Matrix x, Linear layer, bool relu, Matrix y, Matrix dy, Linear grad, Matrix dx,
                               Precision precision) = 0;

  /// out = [v_0, z, zeros]: z is the strict lower triangle, row-major, of the dot products of a sample's vectors v_0 ..
  /// v_n-1 (Naumov et al., arXiv 1906.00091, section 2).   out [batch, >= dim + vectors (vectors - 1) / 2]
  virtual void interact(Queue&, const Interaction& v, Matrix out, Precision precision) = 0;
  /// Gradient of interact(), overwritten.   dfirst [batch, dim]   drest [batch, (vectors - 1) * dim]
  virtual void interact_backward(Queue&, const Interaction& v, Matrix dout, Matrix dfirst, Matrix drest,
                                 Precision precision) = 0;

  /// Binary cross-entropy with logits.   logits, labels, dlogits [batch]   *loss: sum over the batch / global_batch.
  virtual void bce_with_logits(Queue&, const float* logits, const float* labels, int64_t batch, int64_t global_batch,
                               float* dlogits, float* loss) = 0;

  /// One optimizer step on `count` parameters with state->dense_lr.   states [element_states, count]   rounded
  /// [count]: the new weights in bf16, or null.
  virtual void dense_update(Queue&, float* weights, const float* gradients, float* states, int64_t count,
                            OptimizerRule rule, const StepState* state, Bf16* rounded) = 0;

  // Sparse ----------------------------------------------------------------------------------------------------------
  /// Bytes of scratch memory that unique() and update() need for a batch of nnz ids.
  virtual size_t unique_scratch_bytes(int64_t nnz) = 0;
  virtual size_t update_scratch_bytes(int64_t nnz, int64_t dim) = 0;

  /// The rows that each bag names, decoded and summed in fp32; an empty bag gives zeros.   out [tables * batch
  /// vectors], overwritten. Throws Error (at once or when synchronized) naming table and id where an id is not a row of
  /// its table.
  virtual void lookup(Queue&, const StoreView& store, const Bags& bags, BagVectors out, Rounding rounding) = 0;

  /// Sorts the batch's ids. Same check as lookup().
  virtual void unique(Queue&, const StoreView& store, const Bags& bags, UniqueRows out, std::byte* scratch) = 0;

  /// Decodes each distinct row once.   nnz: of the batch   out [>= *unique.count, dim], row i overwritten with row i.
  virtual void lookup_unique(Queue&, const StoreView& store, int64_t nnz, const UniqueRows& unique, Matrix out,
                             Rounding rounding) = 0;

  /// For each distinct row: sums its gradients in fp32 in the order of positions (where there are more than
  /// kGradientPiece, in pieces of so many, the pieces' sums in the same way, and then over those), decodes the row,
  /// applies the rule with state->table_lr, encodes and stores it; rows of bf16 tables are rounded stochastically with
  /// state->rounding_key in between.   gradients: one per bag. The overflow pool must have room for every distinct row.
  virtual void update(Queue&, const StoreView& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
                      OptimizerRule rule, const StepState* state, std::byte* scratch) = 0;

  /// Sets rows to uniform values in [-bound, bound), of bf16 tables rounded to nearest, a function of (seed, table,
  /// row, element); clears optimizer state.
  virtual void fill_uniform(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count, float bound,
                            uint64_t seed) = 0;

  /// Whole rows in and out, optimizer state untouched.   rows [count, dim], rounded to nearest by bf16 tables
  virtual void encode_rows(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count,
                           const float* rows) = 0;
  virtual void decode_rows(Queue&, const StoreView& store, int64_t table, int64_t first, int64_t count,
                           float* rows) = 0;
};

/// Gradients of a row, or sums of pieces of them, that are summed one after the other.
inline constexpr int64_t kGradientPiece = 64;
DLRM_HD int64_t gradient_pieces(int64_t count) {
  return (count + kGradientPiece - 1) / kGradientPiece;
}

std::unique_ptr<Device> make_cpu_device();
/// Null where this build has no CUDA or the machine no such GPU.
std::unique_ptr<Device> make_cuda_device(int index);

/// "cpu", then "cuda0", ... for each GPU that can be used.
std::vector<std::string> device_names();
/// By name; "auto" is the first GPU, or the CPU without one, and "cuda" is "cuda0". Throws Error where there is none.
std::unique_ptr<Device> make_device(const std::string& name);

}  // namespace dlrm
