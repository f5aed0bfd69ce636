// Lookup and update of rows of 128 elements: a lane holds four of them in registers from load to store.
#include "kernels/cuda/check.h"
#include "kernels/cuda/pfor128.cuh"
#include "kernels/cuda/store.cuh"

namespace dlrm::cuda {
namespace {

__device__ float4 overflow_row(const Store& store, uint32_t entry, int lane) {
  return reinterpret_cast<const float4*>(store.overflow.rows + int64_t(entry) * 128)[lane];
}

__global__ void __launch_bounds__(kThreads) lookup128_kernel(Store store, Bags bags, BagVectors out, Fault* fault) {
  const int lane = int(threadIdx.x & 31);
  const int64_t count = bags.tables * bags.batch;
  for (int64_t bag = warp_index(); bag < count; bag += warp_count()) {
    const TableView& table = store.tables[bag / bags.batch];
    const uint32_t* slot = reinterpret_cast<const uint32_t*>(table.slot(checked_id(bags, table, bag, bag, fault)));
    float4 row;
    if (table.codec == CodecId::raw) {
      row = reinterpret_cast<const float4*>(slot)[lane];
    } else {
      const Pfor128::Words words = Pfor128::load(slot, lane);
      row = Pfor128::is_overflow(words) ? overflow_row(store, slot[0], lane) : Pfor128::decode(words, slot, lane);
    }
    __stcs(reinterpret_cast<float4*>(vector_of(bags, out, 128, bag)) + lane, row);
  }
}

__device__ float4 plus(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/// The sum of a row's gradients in the order and the pieces that Device::update promises.
__device__ float4 gradient_of(const Bags& bags, const UniqueRows& unique, BagVectors gradients,
                              const UpdateScratch& scratch, int64_t u, int lane) {
  const int64_t begin = unique.starts[u], end = unique.starts[u + 1];
  float4 sum = make_float4(0, 0, 0, 0);
  if (end - begin <= kGradientPiece) {
    for (int64_t i = begin; i < end; ++i)
      sum = plus(sum, reinterpret_cast<const float4*>(
                          vector_of(bags, gradients, 128, bag_of(bags, unique.positions[i])))[lane]);
    return sum;
  }
  const float4* sums = reinterpret_cast<const float4*>(scratch.sums + scratch.first_piece[u] * int64_t(128));
  sum = sums[lane];
  for (int64_t p = 1; p < (end - begin + kGradientPiece - 1) / kGradientPiece; ++p)
    sum = plus(sum, sums[p * 32 + lane]);
  return sum;
}

__device__ float4 updated(OptimizerRule rule, float lr, const TableView& table, int64_t row, float4 value,
                          float4 gradient, int lane) {
  if (rule.kind == OptimizerKind::adagrad) {
    float4* state = reinterpret_cast<float4*>(table.element_state(row)) + lane;
    float4 sum = *state;
    value.x = adagrad(value.x, gradient.x, lr, rule.eps, sum.x);
    value.y = adagrad(value.y, gradient.y, lr, rule.eps, sum.y);
    value.z = adagrad(value.z, gradient.z, lr, rule.eps, sum.z);
    value.w = adagrad(value.w, gradient.w, lr, rule.eps, sum.w);
    *state = sum;
    return value;
  }
  if (rule.kind == OptimizerKind::rowwise_adagrad) {
    float square = fmaf(gradient.w, gradient.w,
                        fmaf(gradient.z, gradient.z, fmaf(gradient.y, gradient.y, gradient.x * gradient.x)));
    for (int distance = 16; distance > 0; distance /= 2) square += __shfl_xor_sync(Warp::kAll, square, distance);
    float sum = table.row_state[row];
    lr = rowwise_adagrad_lr(square / 128, lr, rule.eps, sum);
    __syncwarp();
    if (lane == 0) table.row_state[row] = sum;
  }
  return make_float4(sgd(value.x, gradient.x, lr), sgd(value.y, gradient.y, lr), sgd(value.z, gradient.z, lr),
                     sgd(value.w, gradient.w, lr));
}

__device__ void store_pfor(const Store& store, uint32_t* slot, bool had_entry, uint32_t entry, float4 row, int lane,
                           Fault* fault) {
  if (Pfor128::encode(row, slot, lane)) {
    if (had_entry && lane == 0) store.overflow.returned_list[add(&store.overflow.counters->returned)] = entry;
    return;
  }
  if (!had_entry) {
    if (lane == 0) entry = take_entry(store.overflow, fault);
    entry = __shfl_sync(Warp::kAll, entry, 0);
  }
  reinterpret_cast<float4*>(store.overflow.rows + int64_t(entry) * 128)[lane] = row;
  PforCodec::write_overflow(Warp{}, entry, 128, reinterpret_cast<std::byte*>(slot));
}

__global__ void __launch_bounds__(kThreads)
    update128_kernel(Store store, Bags bags, UniqueRows unique, BagVectors gradients, OptimizerRule rule,
                     const StepState* state, UpdateScratch scratch, Fault* fault) {
  const int lane = int(threadIdx.x & 31);
  const float lr = state->table_lr;
  for (int64_t u = warp_index(); u < *unique.count; u += warp_count()) {
    const TableView& table = store.tables[table_of(store, unique.rows[u])];
    const int64_t row = unique.rows[u] - table.first_row;
    uint32_t* slot = reinterpret_cast<uint32_t*>(table.slot(row));
    if (table.codec == CodecId::raw) {
      float4* at = reinterpret_cast<float4*>(slot) + lane;
      const float4 value = *at;
      *at = updated(rule, lr, table, row, value, gradient_of(bags, unique, gradients, scratch, u, lane), lane);
      continue;
    }
    const Pfor128::Words words = Pfor128::load(slot, lane);
    const bool had_entry = Pfor128::is_overflow(words);
    const uint32_t entry = had_entry ? slot[0] : 0;
    const float4 value = had_entry ? overflow_row(store, entry, lane) : Pfor128::decode(words, slot, lane);
    const float4 gradient = gradient_of(bags, unique, gradients, scratch, u, lane);
    __syncwarp();
    store_pfor(store, slot, had_entry, entry, updated(rule, lr, table, row, value, gradient, lane), lane, fault);
  }
}

}  // namespace

void lookup128(CudaQueue& queue, const Store& store, const Bags& bags, BagVectors out) {
  lookup128_kernel<<<blocks_for(bags.tables * bags.batch, kWarps), kThreads, 0, queue.stream()>>>(store, bags, out,
                                                                                                  queue.fault());
  check_launch("lookup128");
}

void update128(CudaQueue& queue, const Store& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
               OptimizerRule rule, const StepState* state, const UpdateScratch& scratch) {
  update128_kernel<<<blocks_for(bags.nnz, kWarps), kThreads, 0, queue.stream()>>>(store, bags, unique, gradients, rule,
                                                                                  state, scratch, queue.fault());
  check_launch("update128");
}

}  // namespace dlrm::cuda
