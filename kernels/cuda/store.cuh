// What kernels on compressed tables share: the store, the bags of a batch, the overflow pool, faults.
#pragma once
#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/warp.cuh"

namespace dlrm::cuda {

constexpr int kWarps = 4;  // of a block
constexpr int kThreads = 32 * kWarps;
constexpr int kElementThreads = 256;

inline unsigned blocks_for(int64_t items, int per_block, int64_t most = 1 << 20) {
  return unsigned(std::clamp<int64_t>((items + per_block - 1) / per_block, 1, most));
}

__device__ inline int64_t warp_index() {
  return blockIdx.x * int64_t(kWarps) + threadIdx.x / 32;
}
__device__ inline int64_t warp_count() {
  return gridDim.x * int64_t(kWarps);
}

/// The store as kernels see it.
struct Store {
  const TableView* tables;
  int table_count;
  OverflowView overflow;
  int64_t dim;
  DType dtype;
};

inline Store store_of(const StoreView& view) {
  return {view.device_tables, int(view.tables.size()), view.overflow, view.dim, view.dtype()};
}

// Faults --------------------------------------------------------------------------------------------------------------

__device__ inline void report(FaultSink sink, Fault found) {
  if (atomicExch(sink.taken, 1) != 0) return;
  volatile Fault* fault = sink.fault;
  fault->table = found.table;
  fault->id = found.id;
  fault->rows = found.rows;
  fault->sample = found.sample;
  __threadfence_system();
  fault->kind = found.kind;  // last: it is what the host waits for
}

// Overflow pool -------------------------------------------------------------------------------------------------------

__device__ inline int64_t add(int64_t* counter) {
  return int64_t(atomicAdd(reinterpret_cast<unsigned long long*>(counter), 1ull));
}

__device__ inline uint32_t take_entry(const OverflowView& pool, FaultSink faults) {
  const int64_t ticket = add(&pool.counters->taken);
  if (ticket < pool.counters->free) return pool.free_list[pool.counters->free - 1 - ticket];
  const int64_t entry = pool.counters->fresh + ticket - pool.counters->free;
  if (entry < pool.capacity) return uint32_t(entry);
  report(faults, {Fault::pool_full, 0, 0, 0, 0});
  return 0;
}

// Bags ----------------------------------------------------------------------------------------------------------------

__device__ inline int64_t bag_of(const Bags& bags, int64_t position) {
  if (!bags.offsets) return position;
  int64_t low = 0, high = bags.tables * bags.batch;  // the last bag that starts at or before the position
  while (low + 1 < high) {
    const int64_t middle = (low + high) / 2;
    (bags.offsets[middle] <= position ? low : high) = middle;
  }
  return low;
}

template <class T>
__device__ T* vector_of(const Bags& bags, BagVectors vectors, int64_t dim, int64_t bag) {
  return static_cast<T*>(vectors.data) + bag % bags.batch * vectors.sample_stride + bag / bags.batch * dim;
}

/// A bad id is reported and row 0 stands in for it: the run ends when the queue is synchronized.
__device__ inline int64_t checked_id(const Bags& bags, const TableView& table, int64_t bag, int64_t position,
                                     FaultSink faults) {
  const int64_t id = bags.ids[position];
  if (uint64_t(id) < uint64_t(table.rows)) return id;
  report(faults, {Fault::bad_id, bag / bags.batch, id, table.rows, bag % bags.batch});
  return 0;
}

// Update -------------------------------------------------------------------------------------------------------------

/// Some consecutive occurrences of one row, or some consecutive pieces of it.
struct Piece {
  int64_t begin, end;
};

/// Pieces of one level and their sums. A row has its pieces side by side.
struct Pieces {
  int64_t* count;
  int32_t* first;  // per distinct row that has pieces
  Piece* pieces;
  float* sums;  // [pieces, dim]
};

struct UpdateScratch {
  Pieces gradients;  // of more than kGradientPiece occurrences
  Pieces groups;     // of more than kGradientPiece such pieces
  size_t bytes;

  static int64_t most_pieces(int64_t items) { return 2 * (items / kGradientPiece) + 1; }

  UpdateScratch(std::byte* base, int64_t nnz, int64_t dim) {
    size_t used = 0;
    const auto place = [&](auto*& pointer, int64_t count) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(base + used);
      used += (size_t(count) * sizeof(*pointer) + 255) / 256 * 256;
    };
    place(gradients.count, 2);
    groups.count = gradients.count + 1;
    int64_t most = nnz;
    for (Pieces* level : {&gradients, &groups}) {
      most = most_pieces(most);
      place(level->first, nnz);
      place(level->pieces, most);
      place(level->sums, most * dim);
    }
    bytes = used;
  }
};

/// Where the last level of a row's sums is, `count` vectors, where it has pieces.
struct LastSums {
  const float* sums;
  int count;

  __device__ LastSums(const UpdateScratch& scratch, int64_t u, int64_t occurrences, int64_t dim) {
    const int64_t pieces = gradient_pieces(occurrences);
    const bool grouped = pieces > kGradientPiece;
    const Pieces& level = grouped ? scratch.groups : scratch.gradients;
    sums = level.sums + level.first[u] * dim;
    count = int(grouped ? gradient_pieces(pieces) : pieces);
  }
};

__device__ inline float sum_of_squares(float4 v) {
  return fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, v.x * v.x)));
}

__device__ inline int table_of(const Store& store, int64_t global_row) {
  int low = 0, high = store.table_count;
  while (low + 1 < high) {
    const int middle = (low + high) / 2;
    (store.tables[middle].first_row <= global_row ? low : high) = middle;
  }
  return low;
}

// Launchers of sparse128.cu, whose kernels keep a row of 128 elements in the registers of a warp.
void lookup128(CudaQueue& queue, const Store& store, const Bags& bags, BagVectors out, Rounding rounding);
void lookup_unique128(CudaQueue& queue, const Store& store, int64_t nnz, const UniqueRows& unique, Matrix out,
                      Rounding rounding);
void sum_pieces128(CudaQueue& queue, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
                   const Pieces& pieces);
void sum_groups128(CudaQueue& queue, const Bags& bags, const UpdateScratch& scratch);
void update128(CudaQueue& queue, const Store& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
               OptimizerRule rule, const StepState* state, const UpdateScratch& scratch);

}  // namespace dlrm::cuda
