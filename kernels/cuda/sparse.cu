// The GPU's operations on compressed tables: one warp works on one row.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/cuda/check.h"
#include "kernels/cuda/store.cuh"
#include "kernels/random.h"

namespace dlrm::cuda {
namespace {

template <class F>
__device__ void with_device_codec(const TableView& table, F&& f) {
  if (table.codec == CodecId::raw) {
    f(RawCodec{table.dtype});
  } else if (table.codec == CodecId::ibp) {
    f(IbpCodec{table.masks, table.slot_bytes, table.dtype});
  } else {
    f(PforCodec{table.dtype});
  }
}

/// Ends an operation; one block.
__global__ void settle_kernel(OverflowView pool) {
  const OverflowView::Counters before = *pool.counters;
  const int64_t reused = before.taken < before.free ? before.taken : before.free;
  const int64_t free = before.free - reused;
  for (int64_t i = threadIdx.x; i < before.returned; i += blockDim.x) pool.free_list[free + i] = pool.returned_list[i];
  __syncthreads();
  if (threadIdx.x == 0) *pool.counters = {before.fresh + before.taken - reused, free + before.returned, 0, 0};
}

void settle(cudaStream_t stream, const OverflowView& pool) {
  settle_kernel<<<1, 1024, 0, stream>>>(pool);
  check_launch("settle");
}

// Rows ----------------------------------------------------------------------------------------------------------------

template <class Codec>
__device__ void load_row(const Codec& codec, const Store& store, const TableView& table, int64_t row, float* values) {
  const Warp warp;
  const std::byte* slot = table.slot(row);
  if (!codec.is_overflow(slot, store.dim)) return codec.decode(warp, slot, store.dim, values);
  const float* from = store.overflow.rows + int64_t(codec.overflow_index(slot)) * store.dim;
  for (int64_t i = warp.lane(); i < store.dim; i += 32) values[i] = from[i];
}

/// `values` are visible to the whole warp.
template <class Codec>
__device__ void store_row(const Codec& codec, const Store& store, const TableView& table, int64_t row,
                          const float* values, FaultSink faults) {
  const Warp warp;
  std::byte* slot = table.slot(row);
  const bool had_entry = codec.is_overflow(slot, store.dim);
  uint32_t entry = had_entry ? codec.overflow_index(slot) : 0;
  warp.sync();
  if (codec.encode(warp, values, store.dim, slot)) {
    if (had_entry && warp.lane() == 0) store.overflow.returned_list[add(&store.overflow.counters->returned)] = entry;
    return;
  }
  if (!had_entry) {
    if (warp.lane() == 0) entry = take_entry(store.overflow, faults);
    entry = __shfl_sync(Warp::kAll, entry, 0);
  }
  float* to = store.overflow.rows + int64_t(entry) * store.dim;
  for (int64_t i = warp.lane(); i < store.dim; i += 32) to[i] = values[i];
  codec.write_overflow(warp, entry, store.dim, slot);
}

/// load_row() for a lookup.   row [dim]: shared memory of the warp; `out` may be row itself
template <class Codec, class T>
__device__ void look_up_row(const Codec& codec, const Store& store, const TableView& table, int64_t id,
                            Rounding rounding, float* row, T* out) {
  const Warp warp;
  load_row(codec, store, table, id, row);
  warp.sync();
  for (int64_t i = warp.lane(); i < store.dim; i += 32)
    out[i] = rounded<T>(rounding == Rounding::truncate ? truncated(row[i]) : row[i]);
  warp.sync();
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    lookup_kernel(Store store, Bags bags, BagVectors out, Rounding rounding, FaultSink faults) {
  extern __shared__ float shared[];
  const Warp warp;
  float* row = shared + threadIdx.x / 32 * 2 * store.dim;
  float* sum = row + store.dim;
  for (int64_t bag = warp_index(); bag < bags.tables * bags.batch; bag += warp_count()) {
    const TableView table = store.tables[bag / bags.batch];
    T* to = vector_of<T>(bags, out, store.dim, bag);
    with_device_codec(table, [&](const auto& codec) {
      if (!bags.offsets) {
        const int64_t id = checked_id(bags, table, bag, bag, faults);
        return look_up_row(codec, store, table, id, rounding, row, to);
      }
      for (int64_t i = warp.lane(); i < store.dim; i += 32) sum[i] = 0;
      for (int64_t position = bags.offsets[bag]; position < bags.offsets[bag + 1]; ++position) {
        look_up_row(codec, store, table, checked_id(bags, table, bag, position, faults), rounding, row, row);
        for (int64_t i = warp.lane(); i < store.dim; i += 32) sum[i] += row[i];
        warp.sync();
      }
      for (int64_t i = warp.lane(); i < store.dim; i += 32) to[i] = rounded<T>(sum[i]);
    });
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    lookup_unique_kernel(Store store, UniqueRows unique, Matrix out, Rounding rounding) {
  extern __shared__ float shared[];
  float* row = shared + threadIdx.x / 32 * store.dim;
  for (int64_t u = warp_index(); u < *unique.count; u += warp_count()) {
    const TableView table = store.tables[table_of(store, unique.rows[u])];
    with_device_codec(table, [&](const auto& codec) {
      look_up_row(codec, store, table, unique.rows[u] - table.first_row, rounding, row, out.row<T>(u));
    });
  }
}

// Unique --------------------------------------------------------------------------------------------------------------

/// Scratch of unique(), each part on a multiple of 256 bytes. The sort's own needs come last.   Key: uint32_t where
/// all global rows fit it, which makes the sort faster
template <class Key>
struct UniqueScratch {
  Key *keys, *sorted_keys;
  int32_t *positions, *ranks;
  std::byte* temporary;
  size_t temporary_bytes, bytes;

  UniqueScratch(std::byte* base, int64_t nnz) {
    const int count = int(std::max<int64_t>(nnz, 1));
    size_t sort = 0, scan = 0;
    check_cuda(cub::DeviceRadixSort::SortPairs(nullptr, sort, keys, keys, positions, positions, count), "sort");
    check_cuda(cub::DeviceScan::InclusiveSum(nullptr, scan, firsts(keys), positions, count), "scan");
    size_t used = 0;
    const auto place = [&](auto*& pointer, size_t part) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(base + used);
      used += (part + 255) / 256 * 256;
    };
    temporary_bytes = std::max(sort, scan);
    place(keys, size_t(count) * sizeof(Key));
    place(sorted_keys, size_t(count) * sizeof(Key));
    place(positions, size_t(count) * sizeof(int32_t));
    place(ranks, size_t(count) * sizeof(int32_t));
    place(temporary, temporary_bytes);
    bytes = used;
  }

  struct IsFirst {
    const Key* keys;
    __host__ __device__ int32_t operator()(int64_t i) const { return i == 0 || keys[i] != keys[i - 1]; }
  };
  /// 1 where a key is not the one before.
  static auto firsts(const Key* keys) {
    return thrust::make_transform_iterator(thrust::make_counting_iterator<int64_t>(0), IsFirst{keys});
  }
};

template <class Key>
__global__ void make_keys_kernel(Store store, Bags bags, Key* keys, int32_t* positions, FaultSink faults) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < bags.nnz; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t bag = bag_of(bags, i);
    const TableView& table = store.tables[bag / bags.batch];
    keys[i] = Key(table.first_row + checked_id(bags, table, bag, i, faults));
    positions[i] = int32_t(i);
  }
}

template <class Key>
__global__ void list_unique_kernel(const Key* keys, const int32_t* ranks, int64_t nnz, UniqueRows out) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *out.count = nnz == 0 ? 0 : ranks[nnz - 1];
    out.starts[*out.count] = nnz;
  }
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < nnz; i += int64_t(gridDim.x) * blockDim.x) {
    const int32_t rank = ranks[i] - 1;
    out.inverse[out.positions[i]] = rank;
    if (i > 0 && ranks[i - 1] - 1 == rank) continue;
    out.rows[rank] = int64_t(keys[i]);
    out.starts[rank] = i;
  }
}

template <class Key>
void find_unique(CudaQueue& queue, const StoreView& store, const Bags& bags, UniqueRows out, std::byte* base) {
  const cudaStream_t stream = queue.stream();
  const UniqueScratch<Key> scratch(base, bags.nnz);
  const unsigned blocks = blocks_for(bags.nnz, kElementThreads);
  if (bags.nnz > 0) {
    make_keys_kernel<<<blocks, kElementThreads, 0, stream>>>(store_of(store), bags, scratch.keys, scratch.positions,
                                                             queue.faults());
    check_launch("make_keys");
    const TableView& last = store.tables.back();
    const int bits = std::max(1, int(std::bit_width(uint64_t(last.first_row + last.rows - 1))));
    size_t bytes = scratch.temporary_bytes;
    check_cuda(cub::DeviceRadixSort::SortPairs(scratch.temporary, bytes, scratch.keys, scratch.sorted_keys,
                                               scratch.positions, out.positions, int(bags.nnz), 0, bits, stream),
               "sort");
    bytes = scratch.temporary_bytes;
    check_cuda(cub::DeviceScan::InclusiveSum(scratch.temporary, bytes, scratch.firsts(scratch.sorted_keys),
                                             scratch.ranks, int(bags.nnz), stream),
               "scan");
  }
  list_unique_kernel<<<blocks, kElementThreads, 0, stream>>>(scratch.sorted_keys, scratch.ranks, bags.nnz, out);
  check_launch("list_unique");
}

// Update --------------------------------------------------------------------------------------------------------------

/// Cuts [begin, end) into pieces. Where they lie in the scratch is a matter of luck; what they hold is not.
__device__ int64_t cut(const Pieces& level, int64_t u, int64_t begin, int64_t end) {
  const int64_t count = gradient_pieces(end - begin);
  const int64_t first =
      int64_t(atomicAdd(reinterpret_cast<unsigned long long*>(level.count), (unsigned long long)(count)));
  level.first[u] = int32_t(first);
  for (int64_t p = 0; p < count; ++p) {
    const int64_t from = begin + p * kGradientPiece;
    level.pieces[first + p] = {from, from + kGradientPiece < end ? from + kGradientPiece : end};
  }
  return count;
}

__global__ void list_pieces_kernel(UniqueRows unique, UpdateScratch scratch) {
  for (int64_t u = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; u < *unique.count;
       u += int64_t(gridDim.x) * blockDim.x) {
    const int64_t begin = unique.starts[u], end = unique.starts[u + 1];
    if (end - begin <= kGradientPiece) continue;
    const int64_t pieces = cut(scratch.gradients, u, begin, end), first = scratch.gradients.first[u];
    if (pieces > kGradientPiece) cut(scratch.groups, u, first, first + pieces);
  }
}

template <class T>
__device__ void sum_gradients(const Bags& bags, const UniqueRows& unique, BagVectors gradients, int64_t dim,
                              Piece piece, float* sum) {
  for (int64_t j = threadIdx.x & 31; j < dim; j += 32) sum[j] = 0;
  for (int64_t i = piece.begin; i < piece.end; ++i) {
    const T* gradient = vector_of<T>(bags, gradients, dim, bag_of(bags, unique.positions[i]));
    for (int64_t j = threadIdx.x & 31; j < dim; j += 32) sum[j] += to_float(gradient[j]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_pieces_kernel(Bags bags, UniqueRows unique, BagVectors gradients, int64_t dim, Pieces pieces) {
  for (int64_t p = warp_index(); p < *pieces.count; p += warp_count())
    sum_gradients<T>(bags, unique, gradients, dim, pieces.pieces[p], pieces.sums + p * dim);
}

/// Adds `count` vectors that follow each other, one after the other.
__device__ void sum_vectors(const float* from, int64_t count, int64_t dim, float* to) {
  for (int64_t j = threadIdx.x & 31; j < dim; j += 32) {
    float sum = from[j];
    for (int64_t i = 1; i < count; ++i) sum += from[i * dim + j];
    to[j] = sum;
  }
}

__global__ void __launch_bounds__(kThreads) sum_groups_kernel(int64_t dim, UpdateScratch scratch) {
  for (int64_t g = warp_index(); g < *scratch.groups.count; g += warp_count()) {
    const Piece group = scratch.groups.pieces[g];
    sum_vectors(scratch.gradients.sums + group.begin * dim, group.end - group.begin, dim,
                scratch.groups.sums + g * dim);
  }
}

/// The order of the sum is that of sparse128.cu, so that a row's bits do not depend on the kernel that its store takes:
/// 16 lanes have eight elements each in turn, and both halves of the warp do the same.
__device__ float mean_square(const float* gradient, int64_t dim) {
  const HalfWarp half;
  const auto element = [&](int64_t i) { return i < dim ? gradient[i] : 0.0f; };
  float sum = 0;
  for (int64_t i = 8 * half.lane(); i < dim; i += 8 * 16)
    sum += sum_of_squares(make_float4(element(i), element(i + 1), element(i + 2), element(i + 3))) +
           sum_of_squares(make_float4(element(i + 4), element(i + 5), element(i + 6), element(i + 7)));
  return half.sum(sum) / float(dim);
}

__device__ void apply_rule(OptimizerRule rule, const StepState& state, const TableView& table, int64_t row, int64_t dim,
                           const float* gradient, float* values) {
  const int lane = int(threadIdx.x & 31);
  float lr = state.table_lr;
  if (rule.kind == OptimizerKind::adam) {
    float *means = table.element_state(row), *squares = means + dim;
    for (int64_t i = lane; i < dim; i += 32)
      values[i] = sparse_adam(values[i], gradient[i], lr, rule, state.table_adam, means[i], squares[i]);
    return;
  }
  if (rule.kind == OptimizerKind::adagrad) {
    float* sums = table.element_state(row);
    for (int64_t i = lane; i < dim; i += 32) values[i] = adagrad(values[i], gradient[i], lr, rule.eps, sums[i]);
    return;
  }
  if (rule.kind == OptimizerKind::rowwise_adagrad) {
    float sum = table.row_state[row];
    lr = rowwise_adagrad_lr(mean_square(gradient, dim), lr, rule.eps, sum);
    __syncwarp();
    if (lane == 0) table.row_state[row] = sum;
  }
  for (int64_t i = lane; i < dim; i += 32) values[i] = sgd(values[i], gradient[i], lr);
}

/// What a bf16 table can hold of a row's new values, which are visible to the whole warp.
__device__ void round_row(uint64_t key, int64_t table, int64_t row, int64_t dim, float* values) {
  for (int64_t octet = threadIdx.x & 31; 8 * octet < dim; octet += 32) {
    const Random4 random = rounding_bits(key, table, row, octet);
    for (int64_t k = 0; k < 8 && 8 * octet + k < dim; ++k)
      values[8 * octet + k] =
          stochastically_rounded(values[8 * octet + k], random.word[k / 2] >> (16 * (k % 2)) & 0xffff);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Store store, Bags bags, UniqueRows unique, BagVectors gradients, OptimizerRule rule,
                  const StepState* state, UpdateScratch scratch, FaultSink faults) {
  extern __shared__ float shared[];
  const Warp warp;
  const int64_t dim = store.dim;
  float* values = shared + threadIdx.x / 32 * 2 * dim;
  float* gradient = values + dim;
  for (int64_t u = warp_index(); u < *unique.count; u += warp_count()) {
    const int table_index = table_of(store, unique.rows[u]);
    const TableView table = store.tables[table_index];
    const int64_t row = unique.rows[u] - table.first_row;
    const Piece all{unique.starts[u], unique.starts[u + 1]};
    if (all.end - all.begin <= kGradientPiece) {
      sum_gradients<T>(bags, unique, gradients, dim, all, gradient);
    } else {
      const LastSums last(scratch, u, all.end - all.begin, dim);
      sum_vectors(last.sums, last.count, dim, gradient);
    }
    with_device_codec(table, [&](const auto& codec) {
      load_row(codec, store, table, row, values);
      warp.sync();
      apply_rule(rule, *state, table, row, dim, gradient, values);
      warp.sync();
      if (table.dtype == DType::bf16) {
        round_row(state->rounding_key, table_index, row, dim, values);
        warp.sync();
      }
      store_row(codec, store, table, row, values, faults);
      warp.sync();
    });
  }
}

// Whole rows ----------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(kThreads)
    fill_uniform_kernel(Store store, int table_index, int64_t first, int64_t count, float bound, uint64_t seed,
                        int64_t record_floats, FaultSink faults) {
  extern __shared__ float shared[];
  const Warp warp;
  const TableView table = store.tables[table_index];
  float* values = shared + threadIdx.x / 32 * store.dim;
  for (int64_t row = first + warp_index(); row < first + count; row += warp_count()) {
    for (int64_t i = 4 * warp.lane(); i < store.dim; i += 4 * 32) {
      const Random4 random = philox(seed, uint64_t(row), uint64_t(table_index) << 32 | uint64_t(i / 4));
      for (int64_t k = 0; k < 4 && i + k < store.dim; ++k)
        values[i + k] = (2 * uniform_float(random.word[k]) - 1) * bound;
      if (table.dtype == DType::bf16)
        for (int64_t k = 0; k < 4 && i + k < store.dim; ++k) values[i + k] = nearest_bf16(values[i + k]);
    }
    warp.sync();
    with_device_codec(table, [&](const auto& codec) { store_row(codec, store, table, row, values, faults); });
    for (int64_t i = warp.lane(); i < record_floats; i += 32) table.element_state(row)[i] = 0;
    if (table.row_state && warp.lane() == 0) table.row_state[row] = 0;
    warp.sync();
  }
}

__global__ void __launch_bounds__(kThreads) encode_rows_kernel(Store store, int table_index, int64_t first,
                                                               int64_t count, const float* rows, FaultSink faults) {
  extern __shared__ float shared[];
  const Warp warp;
  const TableView table = store.tables[table_index];
  for (int64_t i = warp_index(); i < count; i += warp_count()) {
    const float* row = rows + i * store.dim;
    if (table.dtype == DType::bf16) {
      float* nearest = shared + threadIdx.x / 32 * store.dim;
      for (int64_t k = warp.lane(); k < store.dim; k += 32) nearest[k] = nearest_bf16(row[k]);
      warp.sync();
      row = nearest;
    }
    with_device_codec(table, [&](const auto& codec) { store_row(codec, store, table, first + i, row, faults); });
    warp.sync();
  }
}

__global__ void __launch_bounds__(kThreads)
    decode_rows_kernel(Store store, int table_index, int64_t first, int64_t count, float* rows) {
  const TableView table = store.tables[table_index];
  for (int64_t i = warp_index(); i < count; i += warp_count())
    with_device_codec(table,
                      [&](const auto& codec) { load_row(codec, store, table, first + i, rows + i * store.dim); });
}

/// Shared memory of `rows` rows for each warp of a block.
template <class Kernel>
size_t shared_rows(Kernel kernel, int64_t rows, int64_t dim) {
  const size_t bytes = size_t(kWarps * rows * dim) * sizeof(float);
  check(bytes <= size_t(200) << 10, "cuda: rows of ", dim, " elements are too long, expected at most ",
        (size_t(200) << 10) / (kWarps * rows * sizeof(float)));
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)), "shared memory");
  return bytes;
}

/// Whether the kernels of sparse128.cu serve: rows of 128, raw or in pfor, and vectors that can be moved 16 bytes at a
/// time.
bool fits_registers(const StoreView& store, const void* data, int64_t stride, DType dtype) {
  const auto is_ibp = [](const TableView& table) { return table.codec == CodecId::ibp; };
  return store.dim == 128 && std::none_of(store.tables.begin(), store.tables.end(), is_ibp) &&
         stride % int64_t(16 / size_of(dtype)) == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

}  // namespace

size_t CudaDevice::unique_scratch_bytes(int64_t nnz) {
  return UniqueScratch<uint64_t>(nullptr, nnz).bytes;
}
size_t CudaDevice::update_scratch_bytes(int64_t nnz, int64_t dim) {
  return UpdateScratch(nullptr, nnz, dim).bytes;
}

void CudaDevice::lookup(Queue& queue, const StoreView& store, const Bags& bags, BagVectors out, Rounding rounding) {
  const int64_t count = bags.tables * bags.batch;
  if (count == 0) return;
  if (!bags.offsets && fits_registers(store, out.data, out.sample_stride, out.dtype))
    return lookup128(cuda(queue), store_of(store), bags, out, rounding);
  with_dtype(out.dtype, [&]<class T>(T) {
    const size_t shared = shared_rows(lookup_kernel<T>, 2, store.dim);
    lookup_kernel<T><<<blocks_for(count, kWarps), kThreads, shared, cuda(queue).stream()>>>(
        store_of(store), bags, out, rounding, cuda(queue).faults());
  });
  check_launch("lookup");
}

void CudaDevice::unique(Queue& queue, const StoreView& store, const Bags& bags, UniqueRows out, std::byte* scratch) {
  const TableView& last = store.tables.back();
  if (last.first_row + last.rows <= int64_t(UINT32_MAX)) {
    find_unique<uint32_t>(cuda(queue), store, bags, out, scratch);
  } else {
    find_unique<uint64_t>(cuda(queue), store, bags, out, scratch);
  }
}

void CudaDevice::lookup_unique(Queue& queue, const StoreView& store, int64_t nnz, const UniqueRows& unique, Matrix out,
                               Rounding rounding) {
  if (nnz == 0) return;
  if (fits_registers(store, out.data, out.stride, out.dtype))
    return lookup_unique128(cuda(queue), store_of(store), nnz, unique, out, rounding);
  with_dtype(out.dtype, [&]<class T>(T) {
    const size_t shared = shared_rows(lookup_unique_kernel<T>, 1, store.dim);
    lookup_unique_kernel<T>
        <<<blocks_for(nnz, kWarps), kThreads, shared, cuda(queue).stream()>>>(store_of(store), unique, out, rounding);
  });
  check_launch("lookup_unique");
}

void CudaDevice::update(Queue& queue, const StoreView& store, const Bags& bags, const UniqueRows& unique,
                        BagVectors gradients, OptimizerRule rule, const StepState* state, std::byte* base) {
  if (bags.nnz == 0) return;
  const cudaStream_t stream = cuda(queue).stream();
  const UpdateScratch scratch(base, bags.nnz, store.dim);
  zero(queue, scratch.gradients.count, 2 * sizeof(int64_t));
  list_pieces_kernel<<<blocks_for(bags.nnz, kElementThreads), kElementThreads, 0, stream>>>(unique, scratch);
  check_launch("list_pieces");
  if (fits_registers(store, gradients.data, gradients.sample_stride, gradients.dtype)) {
    sum_pieces128(cuda(queue), bags, unique, gradients, scratch.gradients);
    sum_groups128(cuda(queue), bags, scratch);
    update128(cuda(queue), store_of(store), bags, unique, gradients, rule, state, scratch);
    return settle(stream, store.overflow);
  }
  const int64_t most_pieces = UpdateScratch::most_pieces(bags.nnz);
  with_dtype(gradients.dtype, [&]<class T>(T) {
    sum_pieces_kernel<T><<<blocks_for(most_pieces, kWarps), kThreads, 0, stream>>>(bags, unique, gradients, store.dim,
                                                                                   scratch.gradients);
    check_launch("sum_pieces");
    sum_groups_kernel<<<blocks_for(UpdateScratch::most_pieces(most_pieces), kWarps), kThreads, 0, stream>>>(store.dim,
                                                                                                            scratch);
    check_launch("sum_groups");
    const size_t shared = shared_rows(update_kernel<T>, 2, store.dim);
    update_kernel<T><<<blocks_for(bags.nnz, kWarps), kThreads, shared, stream>>>(
        store_of(store), bags, unique, gradients, rule, state, scratch, cuda(queue).faults());
    check_launch("update");
  });
  settle(stream, store.overflow);
}

void CudaDevice::fill_uniform(Queue& queue, const StoreView& store, int64_t table, int64_t first, int64_t count,
                              float bound, uint64_t seed) {
  const TableView& view = store.tables[size_t(table)];
  const int64_t state_floats = int64_t((view.record_bytes - view.slot_bytes) / sizeof(float));
  const size_t shared = shared_rows(fill_uniform_kernel, 1, store.dim);
  fill_uniform_kernel<<<blocks_for(count, kWarps), kThreads, shared, cuda(queue).stream()>>>(
      store_of(store), int(table), first, count, bound, seed, state_floats, cuda(queue).faults());
  check_launch("fill_uniform");
  settle(cuda(queue).stream(), store.overflow);
}

void CudaDevice::encode_rows(Queue& queue, const StoreView& store, int64_t table, int64_t first, int64_t count,
                             const float* rows) {
  if (count == 0) return;
  const size_t shared = store.dtype() == DType::bf16 ? shared_rows(encode_rows_kernel, 1, store.dim) : 0;
  encode_rows_kernel<<<blocks_for(count, kWarps), kThreads, shared, cuda(queue).stream()>>>(
      store_of(store), int(table), first, count, rows, cuda(queue).faults());
  check_launch("encode_rows");
  settle(cuda(queue).stream(), store.overflow);
}

void CudaDevice::decode_rows(Queue& queue, const StoreView& store, int64_t table, int64_t first, int64_t count,
                             float* rows) {
  if (count == 0) return;
  decode_rows_kernel<<<blocks_for(count, kWarps), kThreads, 0, cuda(queue).stream()>>>(store_of(store), int(table),
                                                                                       first, count, rows);
  check_launch("decode_rows");
}

}  // namespace dlrm::cuda
