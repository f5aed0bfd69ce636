// Speed of the CPU's operations, raw beside the other codecs:  build/tests/dlrm_kernels_bench
// Rates are per second of wall time; rows of tables far larger than the caches unless said otherwise.
#include <benchmark/benchmark.h>

#include "embedding/store.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

constexpr int64_t kBatch = 2048, kTables = 26;

std::vector<float> normal_rows(int64_t values) {
  std::vector<float> rows(static_cast<size_t>(values));
  for (size_t i = 0; i < rows.size(); ++i) {
    const Random4 random = philox(1, i, 0);
    rows[i] = float(1e-3 * normal_double(random.word[0], random.word[1]));
  }
  return rows;
}

constexpr int64_t kRows = 64;  // in the caches

template <bool kDecode, class Codec, class Slot>
void time_code(benchmark::State& state, const Codec& codec, int64_t dim, const std::vector<float>& rows, Slot slot,
               float* out) {
  for (auto _ : state) {
    for (int64_t row = 0; row < kRows; ++row) {
      if (kDecode) {
        codec.decode(Solo{}, slot(row), dim, out);
      } else {
        codec.encode(Solo{}, &rows[size_t(row * dim)], dim, slot(row));
      }
      benchmark::DoNotOptimize(out);
      benchmark::ClobberMemory();
    }
  }
}

/// One row after the other, all in the caches.
template <class Codec, bool kDecode>
void code(benchmark::State& state) {
  const int64_t dim = state.range(0);
  const std::vector<float> rows = normal_rows(kRows * dim);
  std::vector<float> out(static_cast<size_t>(dim));
  const CodecFit fit = fit_codec(CodecId(Codec::id), DType::fp32, rows.data(), kRows, dim);
  std::vector<std::byte> slots(kRows * fit.slot_bytes);
  const auto slot = [&](int64_t row) { return &slots[size_t(row) * fit.slot_bytes]; };
  with_codec(fit.codec, fit.params(), [&](auto codec) {
    for (int64_t row = 0; row < kRows; ++row) codec.encode(Solo{}, &rows[size_t(row * dim)], dim, slot(row));
    time_code<kDecode>(state, codec, dim, rows, slot, out.data());
  });
  state.SetItemsProcessed(state.iterations() * kRows);
}
template <class Codec>
void encode(benchmark::State& state) {
  code<Codec, false>(state);
}
template <class Codec>
void decode(benchmark::State& state) {
  code<Codec, true>(state);
}

/// A store of 26 tables and the ids of some batches.
struct Tables {
  Tables(CodecId codec, int64_t dim, OptimizerKind kind) : device(make_cpu_device()), queue(device->make_queue()) {
    StoreConfig config{{}, dim, {kind, 1e-8f}, kBatch * kTables};
    for (int64_t t = 0; t < kTables; ++t) config.tables.push_back({"t", 50000, codec});
    store = std::make_unique<EmbeddingStore>(*device, config);
    store->initialize(*queue, 1);
    vectors.resize(size_t(kBatch * kTables * dim));
    for (size_t batch = 0; batch < ids.size(); ++batch)
      for (int64_t i = 0; i < kBatch * kTables; ++i)
        ids[batch].push_back(philox(2, uint64_t(i), batch).word[0] % 50000);
  }
  Bags bags(size_t batch) const { return {ids[batch % ids.size()].data(), nullptr, kTables, kBatch, kBatch * kTables}; }
  BagVectors bag_vectors(int64_t dim) { return {vectors.data(), kTables * dim}; }

  std::unique_ptr<Device> device;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<EmbeddingStore> store;
  std::vector<float> vectors;
  std::array<std::vector<int64_t>, 8> ids;
};

template <class Codec>
void lookup(benchmark::State& state) {
  const int64_t dim = state.range(0);
  Tables tables(CodecId(Codec::id), dim, OptimizerKind::sgd);
  size_t batch = 0;
  for (auto _ : state) tables.store->lookup(*tables.queue, tables.bags(batch++), tables.bag_vectors(dim));
  state.SetItemsProcessed(state.iterations() * kBatch * kTables);
}

template <class Codec>
void update(benchmark::State& state) {
  const int64_t dim = state.range(0);
  Tables tables(CodecId(Codec::id), dim, OptimizerKind::sgd);
  tables.vectors = normal_rows(kBatch * kTables * dim);
  const StepState step{0, 0.0f, 1e-3f};
  size_t batch = 0;
  const DistinctRows distinct(*tables.device, kBatch * kTables);
  for (auto _ : state) {
    const Bags bags = tables.bags(batch++);
    tables.store->find_distinct(*tables.queue, bags, distinct);
    tables.store->update(*tables.queue, bags, distinct, tables.bag_vectors(dim), &step);
  }
  state.SetItemsProcessed(state.iterations() * kBatch * kTables);
}

BENCHMARK_TEMPLATE(decode, RawCodec)->Arg(64)->Arg(128);
BENCHMARK_TEMPLATE(decode, PforCodec)->Arg(64)->Arg(128);
BENCHMARK_TEMPLATE(decode, IbpCodec)->Arg(64)->Arg(128);
BENCHMARK_TEMPLATE(encode, RawCodec)->Arg(64)->Arg(128);
BENCHMARK_TEMPLATE(encode, PforCodec)->Arg(64)->Arg(128);
BENCHMARK_TEMPLATE(encode, IbpCodec)->Arg(64)->Arg(128);
BENCHMARK_TEMPLATE(lookup, RawCodec)->Arg(64)->Arg(128)->UseRealTime();
BENCHMARK_TEMPLATE(lookup, PforCodec)->Arg(64)->Arg(128)->UseRealTime();
BENCHMARK_TEMPLATE(lookup, IbpCodec)->Arg(64)->Arg(128)->UseRealTime();
BENCHMARK_TEMPLATE(update, RawCodec)->Arg(64)->Arg(128)->UseRealTime();
BENCHMARK_TEMPLATE(update, PforCodec)->Arg(64)->Arg(128)->UseRealTime();
BENCHMARK_TEMPLATE(update, IbpCodec)->Arg(64)->Arg(128)->UseRealTime();

}  // namespace
}  // namespace dlrm

BENCHMARK_MAIN();
