// dlrm bench: how fast the operations of a training step are on this machine, every codec beside raw in the same run.
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "dlrm/commands/commands.h"
#include "dlrm/model.h"
#include "dlrm/table_text.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

// Rows of the MLPerf DLRM v1 tables (Criteo Terabyte, capped at 40 M rows).
constexpr int64_t kCriteoRows[26] = {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
                                     38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
                                     14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36};
constexpr int kBatches = 4;  // that take turns

struct Options {
  std::string what, device = "auto", precision = "fp32", optimizer = "sgd", json;
  int64_t batch = 65536, dim = 128, max_rows = 10000000, steps = 20;
  double power = 1.05;
  std::vector<int64_t> bottom = {512, 256, 128}, top = {1024, 1024, 512, 256, 1};
};

/// An id of a power law over `rows`, the frequent ones scattered over the table; power 0: uniform.
int64_t draw_id(int64_t rows, double power, double u) {
  const double s = 1 - power;
  const double x = power == 0           ? 1 + u * double(rows)
                   : std::abs(s) < 1e-9 ? std::pow(double(rows + 1), u)
                                        : std::pow(1 + u * (std::pow(double(rows + 1), s) - 1), 1 / s);
  const int64_t rank = std::clamp<int64_t>(int64_t(x) - 1, 0, rows - 1);
  return rows > 1000 ? int64_t(uint64_t(rank) * 2654435761u % uint64_t(rows)) : rank;
}

std::vector<int64_t> table_rows(const Options& options) {
  std::vector<int64_t> rows;
  for (int64_t count : kCriteoRows) rows.push_back(std::min(count, options.max_rows));
  return rows;
}

Batch make_batch(const Options& options, uint64_t number) {
  Batch batch;
  batch.size = options.batch;
  batch.numerical.resize(size_t(13 * options.batch));
  batch.labels.resize(size_t(options.batch));
  for (size_t i = 0; i < batch.numerical.size(); ++i) batch.numerical[i] = uniform_float(philox(number, i, 1).word[0]);
  for (size_t i = 0; i < batch.labels.size(); ++i) batch.labels[i] = float(philox(number, i, 2).word[0] & 1);
  const std::vector<int64_t> rows = table_rows(options);
  batch.ids.resize(rows.size() * size_t(options.batch));
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const Random4 random = philox(number, i, 3);
    batch.ids[i] =
        draw_id(rows[i / size_t(options.batch)], options.power, uniform_double(random.word[0], random.word[1]));
  }
  return batch;
}

/// Seconds of one call, the mean of `steps` after some to warm up.
template <class F>
double time_of(Queue& queue, int64_t steps, F&& call) {
  for (int64_t i = 0; i < 5; ++i) call(i);
  queue.synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i) call(i);
  queue.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(steps);
}

/// Bytes read and written per second by a copy within the device.
double copy_rate(Device& device, Queue& queue) {
  constexpr size_t kBytes = size_t(1) << 30;
  const Buffer from(device, kBytes), to(device, kBytes);
  return 2.0 * kBytes / time_of(queue, 10, [&](int64_t) { device.copy(queue, to.data(), from.data(), kBytes); });
}

struct Row {
  std::string codec;
  double seconds, items;
  double bytes;  // that must be moved; 0: not counted
};

/// One codec's time for the operation.
Row measure(const Options& options, Device& device, Queue& queue, CodecId codec, const std::vector<Batch>& batches) {
  ModelConfig config;
  config.numerical = 13;
  for (int64_t rows : table_rows(options)) config.tables.push_back({"table", rows, codec});
  config.dim = options.dim;
  config.max_batch = options.batch;
  config.table_optimizer = {optimizer_by_name(options.optimizer), 1e-8f};
  config.precision = options.precision == "tf32" ? Precision::tf32 : Precision::fp32;
  const double ids = double(batches[0].ids.size()), slot = double(slot_bytes(codec, options.dim));
  const double row_bytes = double(options.dim) * sizeof(float);

  if (options.what == "step") {
    config.bottom = options.bottom;
    config.top = options.top;
    Model model(device, config);
    model.initialize(queue, 1);
    model.load(queue, batches[0]);
    const StepState state{0, 0.01f, 0.01f};
    return {codec_name(codec), time_of(queue, options.steps, [&](int64_t) { model.step(queue, state); }),
            double(options.batch), 0};
  }
  EmbeddingStore store(device, {config.tables, config.dim, config.table_optimizer, int64_t(batches[0].ids.size())});
  store.initialize(queue, 1);
  const Buffer vectors(device, size_t(ids * row_bytes));
  const BagVectors bag_vectors{vectors.as<float>(), int64_t(config.tables.size()) * options.dim};
  std::vector<Buffer> device_ids;
  std::vector<Bags> bags;
  for (const Batch& batch : batches) {
    const Buffer& buffer = device_ids.emplace_back(device, batch.ids.size() * sizeof(int64_t));
    device.copy(queue, buffer.data(), batch.ids.data(), buffer.bytes());
    bags.push_back(
        {buffer.as<int64_t>(), nullptr, int64_t(config.tables.size()), batch.size, int64_t(batch.ids.size())});
  }
  if (options.what == "lookup")
    return {
        codec_name(codec),
        time_of(queue, options.steps, [&](int64_t i) { store.lookup(queue, bags[size_t(i % kBatches)], bag_vectors); }),
        ids, ids * (slot + row_bytes)};
  Buffer state(device, sizeof(StepState));
  const StepState step{0, 0.0f, 1e-4f};
  device.copy(queue, state.data(), &step, sizeof step);
  store.lookup(queue, bags[0], bag_vectors);  // some gradients
  return {
      codec_name(codec),
      time_of(queue, options.steps,
              [&](int64_t i) { store.update(queue, bags[size_t(i % kBatches)], bag_vectors, state.as<StepState>()); }),
      ids, 0};
}

void run(const Options& options) {
  const auto device = make_device(options.device);
  const auto queue = device->make_queue();
  std::vector<Batch> batches;
  for (uint64_t i = 0; i < kBatches; ++i) batches.push_back(make_batch(options, i));
  const double copy = copy_rate(*device, *queue);
  nlohmann::ordered_json json = {{"operation", options.what}, {"device", device->name()},
                                 {"batch", options.batch},    {"dim", options.dim},
                                 {"power", options.power},    {"copy_bytes_per_second", copy}};
  std::vector<std::vector<std::string>> lines;
  double raw_seconds = 0;
  for (CodecId codec : kCodecs) {
    const Row row = measure(options, *device, *queue, codec, batches);
    if (codec == CodecId::raw) raw_seconds = row.seconds;
    const double rate = row.bytes / row.seconds;
    lines.push_back({row.codec, fixed(row.seconds * 1e3, 3), fixed(row.items / row.seconds / 1e6, 2),
                     row.bytes > 0 ? fixed(rate / 1e9, 0) : "", row.bytes > 0 ? fixed(100 * rate / copy, 1) : "",
                     fixed(row.seconds / raw_seconds, 3)});
    json["rows"].push_back({{"codec", row.codec},
                            {"seconds", row.seconds},
                            {"items_per_second", row.items / row.seconds},
                            {"bytes_per_second", rate},
                            {"time_over_raw", row.seconds / raw_seconds}});
  }
  std::cout << "bench " << options.what << " on " << device->name() << ": batch " << options.batch << ", dim "
            << options.dim << ", tables of at most " << with_commas(options.max_rows) << " rows, ids by power law "
            << options.power << "; copy " << fixed(copy / 1e9, 0) << " GB/s\n";
  const std::string items = options.what == "step" ? "M samples/s" : "M rows/s";
  std::cout << table_text({"codec", "ms", items, "GB/s", "% of copy", "time / raw"}, lines);
  if (options.json.empty()) return;
  std::ofstream file(options.json);
  file << json.dump(2) << "\n" << std::flush;
  check(bool(file), options.json, ": cannot be written");
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("bench", "Time lookup, update or a whole training step, every codec beside raw");
  command->add_option("operation", options->what, "lookup, update or step")
      ->required()
      ->check(CLI::IsMember({"lookup", "update", "step"}));
  command->add_option("--batch", options->batch, "Samples")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--dim", options->dim, "Elements of a row")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--max-rows", options->max_rows, "Cap of the 26 Criteo Terabyte tables")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--power", options->power, "Exponent of the ids' power law; 0: uniform")->capture_default_str();
  command->add_option("--bottom", options->bottom, "Layer widths of the bottom MLP; the last is --dim")
      ->capture_default_str();
  command->add_option("--top", options->top, "Layer widths of the top MLP; the last is 1")->capture_default_str();
  command->add_option("--precision", options->precision, "fp32, or on a GPU tf32")
      ->check(CLI::IsMember({"fp32", "tf32"}))
      ->capture_default_str();
  command->add_option("--optimizer", options->optimizer, "Of the tables")->capture_default_str();
  command->add_option("--steps", options->steps, "Timed repetitions")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--device", options->device, "auto, cpu, cuda, cuda1, ...")->capture_default_str();
  command->add_option("--json", options->json, "Write the figures to this file");
  command->callback([options] { run(*options); });
}

}  // namespace dlrm
