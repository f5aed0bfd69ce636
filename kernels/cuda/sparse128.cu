// Lookup and update of rows of 128 elements: half a warp works on a row, a lane holds eight consecutive elements in
// registers from load to store.
#include "kernels/cuda/check.h"
#include "kernels/cuda/pfor128.cuh"
#include "kernels/cuda/store.cuh"
#include "kernels/random.h"

namespace dlrm::cuda {
namespace {

constexpr int kHalves = 2 * kWarps;  // of a block
constexpr int kLookupRows = 2;       // in flight per half
// Gradients in flight per half, of a row and of a piece of one.
constexpr int kGradients = 2;
constexpr int kPieceGradients = 8;
constexpr int kUpdateBlocks = 8;  // of a multiprocessor at once
// Of kernels whose work is known on the device only: enough to fill it, few enough that idle ones cost nothing.
constexpr int64_t kMostBlocks = 132 * 64;

__device__ int64_t half_index() {
  return blockIdx.x * int64_t(kHalves) + threadIdx.x / 16;
}
__device__ int64_t half_count() {
  return gridDim.x * int64_t(kHalves);
}
/// The first index of this warp's halves: what loops that all lanes must leave together count by.
__device__ int64_t warp_first() {
  return blockIdx.x * int64_t(kHalves) + threadIdx.x / 32 * 2;
}

__device__ Eight plus(const Eight& a, const Eight& b) {
  return {make_float4(a.low.x + b.low.x, a.low.y + b.low.y, a.low.z + b.low.z, a.low.w + b.low.w),
          make_float4(a.high.x + b.high.x, a.high.y + b.high.y, a.high.z + b.high.z, a.high.w + b.high.w)};
}

/// Eight numbers of bf16, two in a word.
__device__ Eight widened(uint4 halves) {
  const auto low = [](uint32_t word) { return __uint_as_float(word << 16); };
  const auto high = [](uint32_t word) { return __uint_as_float(word & 0xffff0000u); };
  return {make_float4(low(halves.x), high(halves.x), low(halves.y), high(halves.y)),
          make_float4(low(halves.z), high(halves.z), low(halves.w), high(halves.w))};
}
__device__ uint4 upper_halves(const Eight& v) {
  const auto join = [](float first, float second) {
    return __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);
  };
  return make_uint4(join(v.low.x, v.low.y), join(v.low.z, v.low.w), join(v.high.x, v.high.y), join(v.high.z, v.high.w));
}
__device__ uint4 nearest_halves(const Eight& v) {
  const auto join = [](float first, float second) {
    uint32_t halves;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
    return halves;
  };
  return make_uint4(join(v.low.x, v.low.y), join(v.low.z, v.low.w), join(v.high.x, v.high.y), join(v.high.z, v.high.w));
}

__device__ Eight load_eight(const float* row, int lane) {
  const float4* at = reinterpret_cast<const float4*>(row) + 2 * lane;
  return {at[0], at[1]};
}
__device__ void store_eight(float* row, int lane, const Eight& values) {
  float4* at = reinterpret_cast<float4*>(row) + 2 * lane;
  at[0] = values.low;
  at[1] = values.high;
}

/// Finds rows' tables. Each lane of a half knows where two tables begin.
class TableFinder {
 public:
  __device__ TableFinder(const Store& store, HalfWarp half)
      : store_(store), half_(half), first_(first_row(half.lane())), second_(first_row(half.lane() + 16)) {}

  /// All lanes of the warp must ask.
  __device__ int operator()(int64_t global_row) const {
    if (store_.table_count > 32) return table_of(store_, global_row);
    return __popc(half_.ballot(first_ <= global_row)) + __popc(half_.ballot(second_ <= global_row)) - 1;
  }

 private:
  __device__ int64_t first_row(int table) const {
    return table < store_.table_count ? store_.tables[table].first_row : INT64_MAX;
  }

  const Store& store_;
  HalfWarp half_;
  int64_t first_, second_;
};

/// A lane's share of a slot on its way through the registers.
struct LoadedRow {
  const uint32_t* slot;
  Pfor128::Words words;  // or, of a raw row, its eight elements: of fp32 in a, codes and low, of bf16 in low
  bool raw;
};

/// kUpper: no more than the upper halves will be asked for, which are all that bf16 rows have.
template <DType kDType, bool kUpper = kDType == DType::bf16>
__device__ LoadedRow load_slot(const TableView& table, int64_t row, int lane) {
  LoadedRow loaded{reinterpret_cast<const uint32_t*>(table.slot(row)), {}, table.codec == CodecId::raw};
  if (loaded.raw) {
    if constexpr (kDType == DType::bf16) {
      loaded.words.low = reinterpret_cast<const uint4*>(loaded.slot)[lane];
    } else {
      const uint4* at = reinterpret_cast<const uint4*>(loaded.slot) + 2 * lane;
      const uint4 words = at[0];
      loaded.words = {make_uint2(words.x, words.y), words.z, words.w, 0, at[1]};
    }
  } else {
    loaded.words = Pfor128::load<kUpper>(loaded.slot, lane);
  }
  return loaded;
}

__device__ bool is_verbatim(const LoadedRow& row) {
  return row.raw || Pfor128::is_overflow(row.words.tail);
}

/// Values of an fp32 row that is raw, or of a row in the overflow pool.
__device__ Eight verbatim(const Store& store, const LoadedRow& row, int lane) {
  if (!row.raw) return load_eight(store.overflow.rows + int64_t(row.slot[0]) * 128, lane);
  const Pfor128::Words& words = row.words;
  return {make_float4(__uint_as_float(words.a.x), __uint_as_float(words.a.y), __uint_as_float(words.codes0),
                      __uint_as_float(words.codes1)),
          make_float4(__uint_as_float(words.low.x), __uint_as_float(words.low.y), __uint_as_float(words.low.z),
                      __uint_as_float(words.low.w))};
}

/// The upper halves of a row. All lanes of the warp must call it.
template <DType kDType>
__device__ uint4 halves_of(const Store& store, const LoadedRow& row, HalfWarp half) {
  const bool decoded = !is_verbatim(row);
  uint4 halves{};
  if (__any_sync(kAllLanes, decoded)) halves = Pfor128::decode_upper(row.words, row.slot, decoded, half);
  if (decoded) return halves;
  if (kDType == DType::bf16 && row.raw) return row.words.low;
  return upper_halves(verbatim(store, row, half.lane()));
}

/// A row. All lanes of the warp must call it.
template <DType kDType>
__device__ Eight values_of(const Store& store, const LoadedRow& row, HalfWarp half) {
  if constexpr (kDType == DType::bf16) {
    return widened(halves_of<kDType>(store, row, half));
  } else {
    const bool decoded = !is_verbatim(row);
    Eight values{};
    if (__any_sync(kAllLanes, decoded)) values = Pfor128::decode(row.words, row.slot, decoded, half);
    return decoded ? values : verbatim(store, row, half.lane());
  }
}

// Lookup --------------------------------------------------------------------------------------------------------------

/// kStream: the values will not be read again soon.
template <bool kStream, class V>
__device__ void put(V* to, V value) {
  if constexpr (kStream) {
    __stcs(to, value);
  } else {
    *to = value;
  }
}

/// Decodes, rounds and, if `wanted`, stores. All lanes of the warp must call it.
template <class T, DType kDType, bool kUpper, bool kStream>
__device__ void finish(const Store& store, const LoadedRow& row, bool wanted, T* out, HalfWarp half) {
  if constexpr (sizeof(T) == 2) {
    uint4 halves;
    if constexpr (kUpper) {
      halves = halves_of<kDType>(store, row, half);
    } else {
      halves = nearest_halves(values_of<kDType>(store, row, half));
    }
    if (wanted) put<kStream>(reinterpret_cast<uint4*>(out) + half.lane(), halves);
  } else {
    Eight values;
    if constexpr (kUpper) {
      values = widened(halves_of<kDType>(store, row, half));
    } else {
      values = values_of<kDType>(store, row, half);
    }
    if (!wanted) return;
    put<kStream>(reinterpret_cast<float4*>(out) + 2 * half.lane(), values.low);
    put<kStream>(reinterpret_cast<float4*>(out) + 2 * half.lane() + 1, values.high);
  }
}

/// Blocks in y are tables.
template <class T, DType kDType, bool kUpper>
__global__ void __launch_bounds__(kThreads) lookup128_kernel(Store store, Bags bags, BagVectors out, FaultSink faults) {
  const HalfWarp half;
  const TableView& table = store.tables[blockIdx.y];
  const int64_t* const ids = bags.ids + blockIdx.y * bags.batch;
  T* const to = static_cast<T*>(out.data) + blockIdx.y * int64_t(128);
  const int64_t offset = half_index() - warp_first();
  for (int64_t first = warp_first() * kLookupRows; first < bags.batch; first += half_count() * kLookupRows) {
    LoadedRow rows[kLookupRows];
#pragma unroll
    for (int r = 0; r < kLookupRows; ++r) {
      const int64_t sample = min(first + 2 * r + offset, bags.batch - 1), id = ids[sample];
      const bool good = uint64_t(id) < uint64_t(table.rows);
      if (!good) report(faults, {Fault::bad_id, int64_t(blockIdx.y), id, table.rows, sample});
      rows[r] = load_slot<kDType, kUpper>(table, good ? id : 0, half.lane());
    }
#pragma unroll
    for (int r = 0; r < kLookupRows; ++r) {
      const int64_t sample = first + 2 * r + offset;
      finish<T, kDType, kUpper, true>(store, rows[r], sample < bags.batch, to + sample * out.sample_stride, half);
    }
  }
}

template <class T, DType kDType, bool kUpper>
__global__ void __launch_bounds__(kThreads) lookup_unique128_kernel(Store store, UniqueRows unique, Matrix out) {
  const HalfWarp half;
  const int64_t count = *unique.count, offset = half_index() - warp_first();
  const TableFinder find(store, half);
  for (int64_t first = warp_first() * kLookupRows; first < count; first += half_count() * kLookupRows) {
    LoadedRow rows[kLookupRows];
#pragma unroll
    for (int r = 0; r < kLookupRows; ++r) {
      const int64_t row = unique.rows[min(first + 2 * r + offset, count - 1)];
      const TableView& table = store.tables[find(row)];
      rows[r] = load_slot<kDType, kUpper>(table, row - table.first_row, half.lane());
    }
#pragma unroll
    for (int r = 0; r < kLookupRows; ++r) {
      const int64_t u = first + 2 * r + offset;
      finish<T, kDType, kUpper, false>(store, rows[r], u < count, out.row<T>(u), half);
    }
  }
}

// Update --------------------------------------------------------------------------------------------------------------

/// A lane's eight elements of a gradient as they are in memory, which is read once.
template <class T>
struct Gradient {
  float4 low, high;
  __device__ void load(const T* gradient, int lane) {
    const float4* at = reinterpret_cast<const float4*>(gradient) + 2 * lane;
    low = __ldcs(at);
    high = __ldcs(at + 1);
  }
  __device__ Eight values() const { return {low, high}; }
};
template <>
struct Gradient<Bf16> {
  uint4 halves;
  __device__ void load(const Bf16* gradient, int lane) {
    halves = __ldcs(reinterpret_cast<const uint4*>(gradient) + lane);
  }
  __device__ Eight values() const { return widened(halves); }
};

/// Sums the gradients of occurrences [begin, begin + count) of a row of `table` in their order. Each lane finds out
/// where one of 16 lies. All lanes of the warp must call it, each half for its own occurrences.
template <class T, int kInFlight>
__device__ Eight sum_gradients(const Bags& bags, const UniqueRows& unique, BagVectors gradients, int table,
                               int64_t begin, int count, HalfWarp half) {
  const T* const column = static_cast<const T*>(gradients.data) + table * int64_t(128);
  const int32_t* const positions = unique.positions + begin;
  Eight sum{};
  for (int some = 0; __any_sync(kAllLanes, some < count); some += 16) {
    const int last = min(count, some + 16);
    int sample = 0;
    if (some + half.lane() < count) sample = int(bag_of(bags, positions[some + half.lane()])) - table * int(bags.batch);
    for (int i = some; __any_sync(kAllLanes, i < last); i += kInFlight) {
      Gradient<T> some_gradients[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t row = half.broadcast(sample, (i + k) & 15);
        if (i + k < last) some_gradients[k].load(column + row * gradients.sample_stride, half.lane());
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        if (i + k < last) sum = plus(sum, some_gradients[k].values());
    }
  }
  return sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_pieces128_kernel(Bags bags, UniqueRows unique, BagVectors gradients, Pieces pieces) {
  const HalfWarp half;
  const int64_t count = *pieces.count, offset = half_index() - warp_first();
  for (int64_t first = warp_first(); first < count; first += half_count()) {
    const int64_t p = first + offset;
    const Piece piece = p < count ? pieces.pieces[p] : Piece{0, 0};
    const int table = p < count ? int(bag_of(bags, unique.positions[piece.begin]) / bags.batch) : 0;
    const Eight sum = sum_gradients<T, kPieceGradients>(bags, unique, gradients, table, piece.begin,
                                                        int(piece.end - piece.begin), half);
    if (p < count) store_eight(pieces.sums + p * 128, half.lane(), sum);
  }
}

/// Adds `count` vectors that follow each other, one after the other.
__device__ Eight sum_vectors(const float* from, int count, int lane) {
  Eight sum = load_eight(from, lane);
#pragma unroll 4
  for (int i = 1; i < count; ++i) sum = plus(sum, load_eight(from + i * 128, lane));
  return sum;
}

__global__ void __launch_bounds__(kThreads) sum_groups128_kernel(UpdateScratch scratch) {
  const int lane = HalfWarp().lane();
  for (int64_t g = half_index(); g < *scratch.groups.count; g += half_count()) {
    const Piece group = scratch.groups.pieces[g];
    store_eight(scratch.groups.sums + g * 128, lane,
                sum_vectors(scratch.gradients.sums + group.begin * 128, int(group.end - group.begin), lane));
  }
}

/// The sum of a row's gradients in the order and the pieces that Device::update promises. All lanes of the warp must
/// call it.
template <class T>
__device__ Eight gradient_of(const Bags& bags, const UniqueRows& unique, BagVectors gradients,
                             const UpdateScratch& scratch, int table, int64_t u, bool active, HalfWarp half) {
  const int64_t begin = unique.starts[u];
  const int count = active ? int(unique.starts[u + 1] - begin) : 0;
  const bool in_pieces = count > kGradientPiece;
  const Eight sum = sum_gradients<T, kGradients>(bags, unique, gradients, table, begin, in_pieces ? 0 : count, half);
  if (!in_pieces) return sum;
  const LastSums last(scratch, u, count, 128);
  return sum_vectors(last.sums, last.count, half.lane());
}

__device__ float4 sgd(float4 value, float4 gradient, float lr) {
  return make_float4(dlrm::sgd(value.x, gradient.x, lr), dlrm::sgd(value.y, gradient.y, lr),
                     dlrm::sgd(value.z, gradient.z, lr), dlrm::sgd(value.w, gradient.w, lr));
}
__device__ float4 adagrad(float4 value, float4 gradient, float lr, float eps, float4& sum) {
  return make_float4(
      dlrm::adagrad(value.x, gradient.x, lr, eps, sum.x), dlrm::adagrad(value.y, gradient.y, lr, eps, sum.y),
      dlrm::adagrad(value.z, gradient.z, lr, eps, sum.z), dlrm::adagrad(value.w, gradient.w, lr, eps, sum.w));
}
__device__ float4 adam(float4 value, float4 gradient, float lr, const OptimizerRule& rule, AdamCorrection correction,
                       float4& mean, float4& square) {
  return make_float4(sparse_adam(value.x, gradient.x, lr, rule, correction, mean.x, square.x),
                     sparse_adam(value.y, gradient.y, lr, rule, correction, mean.y, square.y),
                     sparse_adam(value.z, gradient.z, lr, rule, correction, mean.z, square.z),
                     sparse_adam(value.w, gradient.w, lr, rule, correction, mean.w, square.w));
}

/// The row after the step. All lanes of the warp must call it; the optimizer's state changes where `active`.
__device__ Eight updated(OptimizerRule rule, const StepState& state, const TableView& table, int64_t row,
                         const Eight& values, const Eight& gradient, bool active, HalfWarp half) {
  float lr = state.table_lr;
  if (rule.kind == OptimizerKind::adam) {
    if (!active) return values;
    float *const mean_at = table.element_state(row), *const square_at = mean_at + 128;
    Eight means = load_eight(mean_at, half.lane()), squares = load_eight(square_at, half.lane());
    const Eight result{adam(values.low, gradient.low, lr, rule, state.table_adam, means.low, squares.low),
                       adam(values.high, gradient.high, lr, rule, state.table_adam, means.high, squares.high)};
    store_eight(mean_at, half.lane(), means);
    store_eight(square_at, half.lane(), squares);
    return result;
  }
  if (rule.kind == OptimizerKind::adagrad) {
    if (!active) return values;
    float* const sums_at = table.element_state(row);
    Eight sums = load_eight(sums_at, half.lane());
    const Eight result{adagrad(values.low, gradient.low, lr, rule.eps, sums.low),
                       adagrad(values.high, gradient.high, lr, rule.eps, sums.high)};
    store_eight(sums_at, half.lane(), sums);
    return result;
  }
  if (rule.kind == OptimizerKind::rowwise_adagrad) {
    const float squares = half.sum(sum_of_squares(gradient.low) + sum_of_squares(gradient.high));
    float sum = table.row_state[row];
    lr = rowwise_adagrad_lr(squares / 128, lr, rule.eps, sum);
    __syncwarp();
    if (active && half.lane() == 0) table.row_state[row] = sum;
  }
  return {sgd(values.low, gradient.low, lr), sgd(values.high, gradient.high, lr)};
}

/// What a bf16 table can hold of a lane's eight elements.
__device__ Eight rounded(uint64_t key, int table, int64_t row, Eight values, int lane) {
  const Random4 random = rounding_bits(key, table, row, lane);
  const auto low = [](float value, uint32_t word) { return stochastically_rounded(value, word & 0xffff); };
  const auto high = [](float value, uint32_t word) { return stochastically_rounded(value, word >> 16); };
  const uint32_t* const w = random.word;
  return {
      make_float4(low(values.low.x, w[0]), high(values.low.y, w[0]), low(values.low.z, w[1]), high(values.low.w, w[1])),
      make_float4(low(values.high.x, w[2]), high(values.high.y, w[2]), low(values.high.z, w[3]),
                  high(values.high.w, w[3]))};
}

template <DType kDType>
__device__ void store_raw(uint32_t* slot, int lane, const Eight& values) {
  if constexpr (kDType == DType::bf16) {
    reinterpret_cast<uint4*>(slot)[lane] = upper_halves(values);
  } else {
    store_eight(reinterpret_cast<float*>(slot), lane, values);
  }
}

/// Encodes a row of a pfor table and stores it, in its slot or in the overflow pool. All lanes of the warp must call
/// it; stores where `active`.
template <DType kDType>
__device__ void store_pfor(const Store& store, const LoadedRow& old, const Eight& values, bool active, HalfWarp half,
                           FaultSink faults) {
  const int lane = half.lane();
  const bool had_entry = Pfor128::is_overflow(old.words.tail);
  uint32_t entry = active && had_entry ? old.slot[0] : 0;
  const Pfor128::Encoded encoded = Pfor128::encode(values, half);  // its shuffles part the load above and stores below
  uint32_t* const slot = const_cast<uint32_t*>(old.slot);
  if (active && encoded.fits) {
    encoded.store<kDType>(slot, lane);
    if (had_entry && lane == 0) store.overflow.returned_list[add(&store.overflow.counters->returned)] = entry;
  }
  const bool pooled = active && !encoded.fits;
  if (!__any_sync(kAllLanes, pooled)) return;
  if (pooled && !had_entry && lane == 0) entry = take_entry(store.overflow, faults);
  entry = half.broadcast(entry, 0);
  if (!pooled) return;
  store_eight(store.overflow.rows + int64_t(entry) * 128, lane, values);
  Pfor128::overflow(entry, lane).store<kDType>(slot, lane);
}

template <class T, DType kDType>
__global__ void __launch_bounds__(kThreads, kUpdateBlocks)
    update128_kernel(Store store, Bags bags, UniqueRows unique, BagVectors gradients, OptimizerRule rule,
                     const StepState* state, UpdateScratch scratch, FaultSink faults) {
  const HalfWarp half;
  const int64_t count = *unique.count, offset = half_index() - warp_first();
  const TableFinder find(store, half);
  for (int64_t first = warp_first(); first < count; first += half_count()) {
    const bool active = first + offset < count;
    const int64_t u = min(first + offset, count - 1), global_row = unique.rows[u];
    const int table_index = find(global_row);
    const TableView& table = store.tables[table_index];
    const int64_t row = global_row - table.first_row;
    const LoadedRow loaded = load_slot<kDType>(table, row, half.lane());
    const Eight gradient = gradient_of<T>(bags, unique, gradients, scratch, table_index, u, active, half);
    Eight values = values_of<kDType>(store, loaded, half);
    values = updated(rule, *state, table, row, values, gradient, active, half);
    if constexpr (kDType == DType::bf16) values = rounded(state->rounding_key, table_index, row, values, half.lane());
    if (active && loaded.raw) store_raw<kDType>(const_cast<uint32_t*>(loaded.slot), half.lane(), values);
    if (__any_sync(kAllLanes, !loaded.raw))
      store_pfor<kDType>(store, loaded, values, active && !loaded.raw, half, faults);
  }
}

/// Calls f with the type of the output, the dtype of the rows, and whether their upper halves suffice.
template <class F>
void with_output(DType output, DType rows, Rounding rounding, F&& f) {
  with_dtype(output, [&]<class T>(T) {
    if (rows == DType::bf16) return f.template operator()<T, DType::bf16, true>();
    rounding == Rounding::nearest ? f.template operator()<T, DType::fp32, false>()
                                  : f.template operator()<T, DType::fp32, true>();
  });
}

}  // namespace

void lookup128(CudaQueue& queue, const Store& store, const Bags& bags, BagVectors out, Rounding rounding) {
  const dim3 blocks(blocks_for(bags.batch, kHalves * kLookupRows), unsigned(bags.tables));
  with_output(out.dtype, store.dtype, rounding, [&]<class T, DType kDType, bool kUpper>() {
    lookup128_kernel<T, kDType, kUpper><<<blocks, kThreads, 0, queue.stream()>>>(store, bags, out, queue.faults());
  });
  check_launch("lookup128");
}

void lookup_unique128(CudaQueue& queue, const Store& store, int64_t nnz, const UniqueRows& unique, Matrix out,
                      Rounding rounding) {
  const unsigned blocks = blocks_for(nnz, kHalves * kLookupRows, kMostBlocks);
  with_output(out.dtype, store.dtype, rounding, [&]<class T, DType kDType, bool kUpper>() {
    lookup_unique128_kernel<T, kDType, kUpper><<<blocks, kThreads, 0, queue.stream()>>>(store, unique, out);
  });
  check_launch("lookup_unique128");
}

void sum_pieces128(CudaQueue& queue, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
                   const Pieces& pieces) {
  const unsigned blocks = blocks_for(UpdateScratch::most_pieces(bags.nnz), kHalves, kMostBlocks);
  with_dtype(gradients.dtype, [&]<class T>(T) {
    sum_pieces128_kernel<T><<<blocks, kThreads, 0, queue.stream()>>>(bags, unique, gradients, pieces);
  });
  check_launch("sum_pieces128");
}

void sum_groups128(CudaQueue& queue, const Bags& bags, const UpdateScratch& scratch) {
  const int64_t most = UpdateScratch::most_pieces(UpdateScratch::most_pieces(bags.nnz));
  sum_groups128_kernel<<<blocks_for(most, kHalves), kThreads, 0, queue.stream()>>>(scratch);
  check_launch("sum_groups128");
}

void update128(CudaQueue& queue, const Store& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
               OptimizerRule rule, const StepState* state, const UpdateScratch& scratch) {
  const unsigned blocks = blocks_for(bags.nnz, kHalves, kMostBlocks);
  with_dtype(gradients.dtype, [&]<class T>(T) {
    const auto kernel =
        store.dtype == DType::bf16 ? update128_kernel<T, DType::bf16> : update128_kernel<T, DType::fp32>;
    kernel<<<blocks, kThreads, 0, queue.stream()>>>(store, bags, unique, gradients, rule, state, scratch,
                                                    queue.faults());
  });
  check_launch("update128");
}

}  // namespace dlrm::cuda
