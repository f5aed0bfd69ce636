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
};

inline Store store_of(const StoreView& view) {
  return {view.device_tables, int(view.tables.size()), view.overflow, view.dim};
}

// Faults --------------------------------------------------------------------------------------------------------------

__device__ inline void report(Fault* fault, Fault found) {
  if (atomicCAS(&fault->kind, int32_t(Fault::none), found.kind) != Fault::none) return;
  fault->table = found.table;
  fault->id = found.id;
  fault->rows = found.rows;
  fault->sample = found.sample;
}

// Overflow pool -------------------------------------------------------------------------------------------------------

__device__ inline int64_t add(int64_t* counter) {
  return int64_t(atomicAdd(reinterpret_cast<unsigned long long*>(counter), 1ull));
}

__device__ inline uint32_t take_entry(const OverflowView& pool, Fault* fault) {
  const int64_t ticket = add(&pool.counters->taken);
  if (ticket < pool.counters->free) return pool.free_list[pool.counters->free - 1 - ticket];
  const int64_t entry = pool.counters->fresh + ticket - pool.counters->free;
  if (entry < pool.capacity) return uint32_t(entry);
  report(fault, {Fault::pool_full, 0, 0, 0, 0});
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

__device__ inline float* vector_of(const Bags& bags, BagVectors vectors, int64_t dim, int64_t bag) {
  return vectors.data + bag % bags.batch * vectors.sample_stride + bag / bags.batch * dim;
}

/// A bad id is reported and row 0 stands in for it: the run ends when the queue is synchronized.
__device__ inline int64_t checked_id(const Bags& bags, const TableView& table, int64_t bag, int64_t position,
                                     Fault* fault) {
  const int64_t id = bags.ids[position];
  if (uint64_t(id) < uint64_t(table.rows)) return id;
  report(fault, {Fault::bad_id, bag / bags.batch, id, table.rows, bag % bags.batch});
  return 0;
}

// Update -------------------------------------------------------------------------------------------------------------

/// Some consecutive occurrences of one row.
struct Piece {
  int64_t begin, end;
};

struct UpdateScratch {
  int64_t* piece_count;
  int32_t* first_piece;  // per distinct row that has more than one
  Piece* pieces;
  float* sums;  // [pieces, dim]
  size_t bytes;

  UpdateScratch(std::byte* base, int64_t nnz, int64_t dim) {
    const int64_t most = 2 * (nnz / kGradientPiece) + 1;
    size_t used = 0;
    const auto place = [&](auto*& pointer, int64_t count) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(base + used);
      used += (size_t(count) * sizeof(*pointer) + 255) / 256 * 256;
    };
    place(piece_count, 1);
    place(first_piece, nnz);
    place(pieces, most);
    place(sums, most * dim);
    bytes = used;
  }
};

__device__ inline int table_of(const Store& store, int64_t global_row) {
  int low = 0, high = store.table_count;
  while (low + 1 < high) {
    const int middle = (low + high) / 2;
    (store.tables[middle].first_row <= global_row ? low : high) = middle;
  }
  return low;
}

// Launchers of sparse128.cu, whose kernels keep a row of 128 elements in the registers of a warp.
void lookup128(CudaQueue& queue, const Store& store, const Bags& bags, BagVectors out);
void update128(CudaQueue& queue, const Store& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
               OptimizerRule rule, const StepState* state, const UpdateScratch& scratch);

}  // namespace dlrm::cuda
