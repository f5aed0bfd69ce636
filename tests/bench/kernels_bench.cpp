// Speed of the CPU's operations, raw beside the other codecs:  build/tests/dlrm_kernels_bench
// Rates are per second of wall time; rows of tables far larger than the caches unless said otherwise.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "data/criteo_tsv.h"
#include "data/text_input.h"
#include "embedding/store.h"
#include "kernels/cpu/vectors.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

constexpr int64_t kBatch = 2048, kTables = 26, kTableRows = 150000;

std::vector<float> normal_rows(int64_t values, DType dtype) {
  std::vector<float> rows(static_cast<size_t>(values));
  for (size_t i = 0; i < rows.size(); ++i) {
    const Random4 random = philox(1, i, 0);
    rows[i] = float(1e-3 * normal_double(random.word[0], random.word[1]));
    if (dtype == DType::bf16) rows[i] = nearest_bf16(rows[i]);
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
template <bool kDecode>
void code(benchmark::State& state, CodecId id, DType dtype, int64_t dim, const std::string& target) {
  use_vector_target(target);
  const std::vector<float> rows = normal_rows(kRows * dim, dtype);
  std::vector<float> out(static_cast<size_t>(dim));
  const CodecFit fit = fit_codec(id, dtype, rows.data(), kRows, dim);
  std::vector<std::byte> slots(kRows * fit.slot_bytes);
  const auto slot = [&](int64_t row) { return &slots[size_t(row) * fit.slot_bytes]; };
  with_codec(fit.codec, fit.params(), [&](auto codec) {
    for (int64_t row = 0; row < kRows; ++row) codec.encode(Solo{}, &rows[size_t(row * dim)], dim, slot(row));
    time_code<kDecode>(state, codec, dim, rows, slot, out.data());
  });
  state.SetItemsProcessed(state.iterations() * kRows);
  use_vector_target(vector_targets().front());
}

void stochastic_rounding(benchmark::State& state, int64_t dim, const std::string& target) {
  use_vector_target(target);
  std::vector<float> rows = normal_rows(kRows * dim, DType::fp32);
  for (auto _ : state)
    for (int64_t row = 0; row < kRows; ++row) round_row(1, 2, row, dim, &rows[size_t(row * dim)]);
  state.SetItemsProcessed(state.iterations() * kRows);
  use_vector_target(vector_targets().front());
}

/// A store of 26 tables and the ids of some batches.
struct Tables {
  Tables(CodecId codec, DType dtype, int64_t dim) : device(make_cpu_device()), queue(device->make_queue()) {
    StoreConfig config{{}, dim, {OptimizerKind::sgd}, kBatch * kTables, dtype};
    for (int64_t t = 0; t < kTables; ++t) config.tables.push_back({"t", kTableRows, codec});
    store = std::make_unique<EmbeddingStore>(*device, config);
    store->initialize(*queue, 1);
    vectors = Buffer(*device, size_t(kBatch * kTables * dim) * sizeof(float));
    for (size_t batch = 0; batch < ids.size(); ++batch)
      for (int64_t i = 0; i < kBatch * kTables; ++i)
        ids[batch].push_back(philox(2, uint64_t(i), batch).word[0] % kTableRows);
  }
  Bags bags(size_t batch) const { return {ids[batch % ids.size()].data(), nullptr, kTables, kBatch, kBatch * kTables}; }
  BagVectors bag_vectors(int64_t dim) { return {vectors.data(), kTables * dim}; }

  std::unique_ptr<Device> device;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<EmbeddingStore> store;
  Buffer vectors;
  std::array<std::vector<int64_t>, 16> ids;
};

void lookup(benchmark::State& state, CodecId codec, DType dtype, int64_t dim) {
  Tables tables(codec, dtype, dim);
  size_t batch = 0;
  for (auto _ : state) tables.store->lookup(*tables.queue, tables.bags(batch++), tables.bag_vectors(dim));
  state.SetItemsProcessed(state.iterations() * kBatch * kTables);
}

void update(benchmark::State& state, CodecId codec, DType dtype, int64_t dim) {
  Tables tables(codec, dtype, dim);
  const std::vector<float> gradients = normal_rows(kBatch * kTables * dim, DType::fp32);
  std::copy(gradients.begin(), gradients.end(), tables.vectors.as<float>());
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

/// Rows as Criteo's look: some fields missing, integers mostly short.
std::string criteo_text(int64_t rows) {
  std::string lines;
  char field[16];
  for (int64_t row = 0; row < rows; ++row) {
    lines += row % 30 == 0 ? '1' : '0';
    for (uint64_t c = 0; c < kCriteoIntegers + kCriteoCategories; ++c) {
      const Random4 random = philox(9, uint64_t(row), c);
      lines += '\t';
      if (random.word[0] % 8 == 0) continue;
      const uint32_t digits = random.word[1] % 5, integer = random.word[2] % uint32_t(std::pow(10, digits));
      std::snprintf(field, sizeof field, c < kCriteoIntegers ? "%u" : "%08x",
                    c < kCriteoIntegers ? integer : random.word[2]);
      lines += field;
    }
    lines += '\n';
  }
  return lines;
}

/// Lines of a file in the page cache to rows, on one core.
void parse_tsv(benchmark::State& state) {
  const std::string path = std::filesystem::temp_directory_path() / text("dlrm_bench_", getpid(), ".tsv");
  const std::string content = criteo_text(100000);
  std::ofstream(path, std::ios::binary) << content;
  int64_t clicks = 0;
  for (auto _ : state) {
    TextInput input(path);
    std::string_view line;
    while (input.next(line)) clicks += parse_criteo_row(line, path, input.line_number()).label;
  }
  benchmark::DoNotOptimize(clicks);
  state.SetBytesProcessed(state.iterations() * int64_t(content.size()));
  std::filesystem::remove(path);
}

void register_all() {
  const auto add = [](const std::string& name, auto run) { return benchmark::RegisterBenchmark(name.c_str(), run); };
  benchmark::RegisterBenchmark("parse_tsv", parse_tsv);
  for (int64_t dim : {64, 128}) {
    for (DType dtype : {DType::fp32, DType::bf16}) {
      const std::string shape = text("/", dtype_name(dtype), "/", dim);
      for (CodecId id : kCodecs) {
        const std::string codec = text("/", codec_name(id));
        for (const std::string& target : vector_targets()) {
          const std::string by = id == CodecId::pfor ? text("/", target) : "";
          if (by.empty() && target != vector_targets().front()) continue;
          add("decode" + codec + shape + by, [=](benchmark::State& s) { code<true>(s, id, dtype, dim, target); });
          add("encode" + codec + shape + by, [=](benchmark::State& s) { code<false>(s, id, dtype, dim, target); });
        }
        add("lookup" + codec + shape, [=](benchmark::State& s) { lookup(s, id, dtype, dim); })->UseRealTime();
        add("update" + codec + shape, [=](benchmark::State& s) { update(s, id, dtype, dim); })->UseRealTime();
      }
    }
    for (const std::string& target : vector_targets())
      add(text("stochastic_rounding/", dim, "/", target),
          [=](benchmark::State& s) { stochastic_rounding(s, dim, target); });
  }
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  dlrm::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
