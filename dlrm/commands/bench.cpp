// dlrm bench: how fast the operations of a training step are on this machine, every codec beside raw in the same run.
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "data/generate.h"
#include "dlrm/commands/commands.h"
#include "dlrm/model.h"
#include "dlrm/table_text.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

constexpr int kBatches = 4;  // that take turns

struct Options {
  std::string what, device = "auto", precision = "fp32", optimizer = "sgd", rounding = "nearest", table_dtype = "fp32",
                    json;
  int64_t batch = 65536, dim = 128, max_rows = 10000000, host_gib = 8, steps = 20;
  bool equal_tables = false;
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

/// The tables of Criteo Terabyte, capped, or as many equal ones.
std::vector<int64_t> table_rows(const Options& options) {
  std::vector<int64_t> rows = Generator("criteo-tb", 1.0, options.max_rows, 1, 1).cardinalities();
  if (options.equal_tables) std::fill(rows.begin(), rows.end(), options.max_rows);
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

/// One line of the table.
struct Row {
  std::string name;
  double seconds = 0;
  double items = 0;       // of the operation, 0: not counted
  double bytes = 0;       // that must be moved, 0: not counted
  double flop = 0;        // 0: not counted
  std::string reference;  // the row whose time this one's is divided by
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        device_(make_device(options.device)),
        queue_(device_->make_queue()),
        precision_(precision_by_name(options.precision)),
        dtype_(activation_dtype(precision_)),
        table_dtype_(dtype_by_name(options.table_dtype)),
        rounding_(options.rounding == "truncate" ? Rounding::truncate : Rounding::nearest) {}

  void run() {
    copy_ = copy_rate(*device_, *queue_);
    if (options_.what == "gemm") gemm();
    if (options_.what == "host-rows") host_rows();
    if (options_.what == "step") step();
    if (options_.what == "lookup" || options_.what == "update") sparse();
    print();
  }

 private:
  template <class F>
  double time(F&& call) {
    return time_of(*queue_, options_.steps, call);
  }

  void add(Row row) { rows_.push_back(std::move(row)); }

  ModelConfig model_config(CodecId codec) const {
    ModelConfig config;
    config.numerical = 13;
    for (int64_t rows : table_rows(options_))
      config.tables.push_back({text("table_", config.tables.size()), rows, codec});
    config.dim = options_.dim;
    config.bottom = options_.bottom;
    config.top = options_.top;
    config.table_optimizer = {optimizer_by_name(options_.optimizer), 1e-8f};
    config.table_dtype = table_dtype_;
    config.precision = precision_;
    config.lookup_rounding = rounding_;
    config.max_batch = options_.batch;
    return config;
  }

  std::vector<Batch> batches() const {
    std::vector<Batch> batches;
    for (uint64_t i = 0; i < kBatches; ++i) batches.push_back(make_batch(options_, i));
    return batches;
  }

  /// The pipeline that trains: batches from host memory, losses read one step late.
  void step() {
    const std::vector<Batch> host = batches();
    for (CodecId codec : kCodecs) {
      try {
        const auto start = std::chrono::steady_clock::now();
        Model model(*device_, model_config(codec));
        model.initialize(*queue_, 1);
        queue_->synchronize();
        const std::chrono::duration<double> ready = std::chrono::steady_clock::now() - start;
        const double seconds = time([&](int64_t i) {
          model.submit(*queue_, host[size_t(i % kBatches)], {i, 0.01f, 0.01f, {}, {}, rounding_key(1, i)});
          while (model.in_flight() == Model::kInFlight) model.collect(*queue_);
        });
        add({codec_name(codec), seconds, double(options_.batch), 0, 0, "raw"});
        notes_.push_back(text(codec_name(codec), ": ready to train after ", fixed(ready.count(), 1), " s"));
        while (model.in_flight() > 0) model.collect(*queue_);
      } catch (const Error& error) {  // the other codec may fit
        notes_.push_back(text(codec_name(codec), ": ", error.what()));
      }
    }
    check(!rows_.empty(), notes_.back());
  }

  void sparse() {
    const std::vector<Batch> host = batches();
    const int64_t nnz = int64_t(host[0].ids.size()), tables = nnz / options_.batch, dim = options_.dim;
    std::vector<Buffer> ids;
    std::vector<Bags> bags;
    std::vector<DistinctRows> distinct;
    for (const Batch& batch : host) {
      const Buffer& buffer = ids.emplace_back(*device_, batch.ids.size() * sizeof(int64_t));
      device_->copy(*queue_, buffer.data(), batch.ids.data(), buffer.bytes());
      bags.push_back({buffer.as<int64_t>(), nullptr, tables, options_.batch, nnz});
      distinct.emplace_back(*device_, nnz);
    }
    const Buffer vectors(*device_, size_t(nnz * dim) * size_of(dtype_));
    const BagVectors bag_vectors{vectors.data(), tables * dim, dtype_};
    const Matrix row_matrix{vectors.data(), nnz, dim, dim, dtype_};
    Buffer state(*device_, sizeof(StepState));
    const StepState step{0, 0.0f, 1e-4f};
    device_->copy(*queue_, state.data(), &step, sizeof step);
    for (CodecId codec : kCodecs) {
      const ModelConfig config = model_config(codec);
      EmbeddingStore store(*device_, {config.tables, dim, config.table_optimizer, nnz, table_dtype_});
      store.initialize(*queue_, 1);
      double rows = 0;  // distinct ones of a batch
      for (size_t i = 0; i < kBatches; ++i) {
        store.find_distinct(*queue_, bags[i], distinct[i]);
        rows += double(store.list(*queue_, distinct[i]).size()) / kBatches;
      }
      const double slot = double(store.slot_bytes(0)), out = double(dim) * double(size_of(dtype_));
      if (codec == CodecId::raw) {
        const double seconds = time([&](int64_t i) {
          store.find_distinct(*queue_, bags[size_t(i % kBatches)], distinct[size_t(i % kBatches)]);
        });
        add({"find distinct rows", seconds, double(nnz), 0, 0, ""});
      }
      const auto name = [&](const std::string& what, CodecId id) { return text(what, ", ", codec_name(id)); };
      if (options_.what == "lookup") {
        const double each =
            time([&](int64_t i) { store.lookup(*queue_, bags[size_t(i % kBatches)], bag_vectors, rounding_); });
        add({name("every id", codec), each, double(nnz), double(nnz) * (slot + out), 0,
             name("every id", CodecId::raw)});
        const double once = time([&](int64_t i) {
          store.lookup(*queue_, bags[size_t(i % kBatches)], distinct[size_t(i % kBatches)], row_matrix, rounding_);
        });
        add({name("distinct rows", codec), once, rows, rows * (slot + out), 0, name("distinct rows", CodecId::raw)});
        continue;
      }
      store.lookup(*queue_, bags[0], bag_vectors);  // some gradients
      const double seconds = time([&](int64_t i) {
        store.update(*queue_, bags[size_t(i % kBatches)], distinct[size_t(i % kBatches)], bag_vectors,
                     state.as<StepState>());
      });
      add({name("update", codec), seconds, rows, rows * 2 * slot + double(nnz) * out, 0, name("update", CodecId::raw)});
    }
  }

  /// Every product of the MLPs, forward and backward.
  void gemm() {
    const int64_t vectors = int64_t(table_rows(options_).size()) + 1;
    int64_t in = 13;
    for (const int64_t out : options_.bottom) in = add_layer("bottom", in, out, in != 13);
    in = options_.dim + vectors * (vectors - 1) / 2;
    for (const int64_t out : options_.top) in = add_layer("top", in, out, true);
    Row total{"all layers"};
    for (const Row& row : rows_) {
      total.seconds += row.seconds;
      total.flop += row.flop;
    }
    add(total);
  }

  int64_t add_layer(const std::string& mlp, int64_t in, int64_t out, bool with_dx) {
    const int64_t batch = options_.batch, in_padded = (in + 7) / 8 * 8;
    const bool logits = out == 1;
    const DType y_dtype = logits ? DType::fp32 : dtype_;
    const auto make = [&](int64_t elements, DType dtype) {
      return Buffer(*device_, size_t(elements) * size_of(dtype));
    };
    const Buffer x = make(batch * in_padded, dtype_), dx = make(batch * in_padded, dtype_),
                 y = make(batch * out, y_dtype), dy = make(batch * out, y_dtype), w = make(out * in_padded, dtype_),
                 b = make(out, dtype_), dw = make(out * in_padded, DType::fp32), db = make(out, DType::fp32);
    const Matrix x_m{x.data(), batch, in_padded, in_padded, dtype_},
        dx_m{dx.data(), batch, in_padded, in_padded, dtype_}, y_m{y.data(), batch, out, out, y_dtype},
        dy_m{dy.data(), batch, out, out, y_dtype};
    const Linear layer{{w.data(), out, in_padded, in_padded, dtype_}, b.data()},
        grad{{dw.data(), out, in_padded, in_padded}, db.data()};
    const double flop = 2.0 * double(batch) * double(in) * double(out);
    const std::string name = text(mlp, " ", in, " to ", out);
    add({name + " forward", time([&](int64_t) { device_->linear(*queue_, x_m, layer, !logits, y_m, precision_); }), 0,
         0, flop, ""});
    add({name + " backward", time([&](int64_t) {
           device_->linear_backward(*queue_, x_m, layer, !logits, y_m, dy_m, grad, with_dx ? dx_m : Matrix{},
                                    precision_);
         }),
         0, 0, with_dx ? 2 * flop : flop, ""});
    return out;
  }

  /// Rows of host memory, looked up by the device in place.
  void host_rows() {
    const int64_t nnz = options_.batch, dim = options_.dim;
    const Buffer out(*device_, size_t(nnz * dim) * size_of(dtype_)), ids(*device_, size_t(nnz) * sizeof(int64_t));
    for (CodecId codec : kCodecs) {
      TableView view{0, 0};
      view.codec = codec;
      view.dtype = table_dtype_;
      view.record_bytes = view.slot_bytes = slot_bytes(codec, table_dtype_, dim);
      const Buffer masks(*device_, size_t(2 * dim) * sizeof(uint32_t));  // empty ones, of ibp
      view.masks = masks.as<uint32_t>();
      view.rows = (options_.host_gib << 30) / int64_t(view.slot_bytes);
      const HostBuffer records(*device_, size_t(view.rows) * view.slot_bytes);
      view.records = records.data();
      const std::vector<TableView> views{view};
      const int64_t entries = view.rows / 500 + 1000;
      const Buffer views_on_device(*device_, sizeof view), counters(*device_, sizeof(OverflowView::Counters)),
          pool(*device_, size_t(entries * dim) * sizeof(float)),
          lists(*device_, size_t(2 * entries) * sizeof(uint32_t));
      device_->copy(*queue_, views_on_device.data(), &view, sizeof view);
      const StoreView store{views,
                            views_on_device.as<TableView>(),
                            {counters.as<OverflowView::Counters>(), pool.as<float>(), lists.as<uint32_t>(),
                             lists.as<uint32_t>() + entries, entries},
                            dim};
      device_->fill_uniform(*queue_, store, 0, 0, view.rows, 1.0f, 1);
      std::vector<int64_t> rows(static_cast<size_t>(nnz));
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = int64_t(philox(1, i, 4).word[0]) % view.rows;
      for (const bool sorted : {false, true}) {
        if (sorted) std::sort(rows.begin(), rows.end());
        device_->copy(*queue_, ids.data(), rows.data(), ids.bytes());
        const double seconds = time([&](int64_t) {
          device_->lookup(*queue_, store, {ids.as<int64_t>(), nullptr, 1, nnz, nnz}, {out.data(), dim, dtype_},
                          rounding_);
        });
        const std::string what = sorted ? "sorted ids, " : "random ids, ";
        add({what + codec_name(codec), seconds, double(nnz), double(nnz) * double(view.slot_bytes), 0, what + "raw"});
      }
    }
  }

  void print() const {
    nlohmann::ordered_json json = {{"operation", options_.what},      {"device", device_->name()},
                                   {"batch", options_.batch},         {"dim", options_.dim},
                                   {"precision", options_.precision}, {"table_dtype", options_.table_dtype},
                                   {"power", options_.power},         {"copy_bytes_per_second", copy_}};
    const std::string items = options_.what == "step" ? "M samples/s" : "M rows/s";
    std::vector<std::vector<std::string>> lines;
    for (const Row& row : rows_) {
      double reference = 0;
      for (const Row& other : rows_)
        if (other.name == row.reference) reference = other.seconds;
      const auto rate = [&](double amount, double unit, int digits) {
        return amount > 0 ? fixed(amount / row.seconds / unit, digits) : "";
      };
      lines.push_back({row.name, fixed(row.seconds * 1e3, 3), rate(row.items, 1e6, 2), rate(row.bytes, 1e9, 0),
                       row.bytes > 0 ? fixed(100 * row.bytes / row.seconds / copy_, 1) : "", rate(row.flop, 1e12, 1),
                       reference > 0 ? fixed(row.seconds / reference, 3) : ""});
      nlohmann::ordered_json entry = {{"name", row.name}, {"seconds", row.seconds}};
      if (row.items > 0) entry["items_per_second"] = row.items / row.seconds;
      if (row.bytes > 0) entry["bytes_per_second"] = row.bytes / row.seconds;
      if (row.flop > 0) entry["flop_per_second"] = row.flop / row.seconds;
      if (reference > 0) entry["time_over_raw"] = row.seconds / reference;
      json["rows"].push_back(entry);
    }
    std::cout << "bench " << options_.what << " on " << device_->name() << ": batch " << options_.batch << ", dim "
              << options_.dim << ", " << options_.precision << ", rows of " << options_.table_dtype;
    if (options_.what == "host-rows") {
      std::cout << ", " << options_.host_gib << " GiB of rows in host memory";
    } else if (options_.what != "gemm") {
      std::cout << (options_.equal_tables ? ", tables of " : ", tables of at most ") << with_commas(options_.max_rows)
                << " rows, ids by power law " << options_.power;
    }
    std::cout << "; copy " << fixed(copy_ / 1e9, 0) << " GB/s\n"
              << table_text({"", "ms", items, "GB/s", "% of copy", "TFLOP/s", "time / raw"}, lines);
    for (const std::string& note : notes_) std::cout << note << "\n";
    if (options_.json.empty()) return;
    std::ofstream file(options_.json);
    file << json.dump(2) << "\n" << std::flush;
    check(bool(file), options_.json, ": cannot be written");
  }

  const Options& options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
  Precision precision_;
  DType dtype_, table_dtype_;
  Rounding rounding_;
  double copy_ = 0;  // bytes per second
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
};

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("bench", "Time the operations of a training step, every codec beside raw in the same run");
  command
      ->add_option("operation", options->what,
                   "lookup, update, step, gemm (the products of the MLPs) or host-rows (rows of host memory, looked up "
                   "in place)")
      ->required()
      ->check(CLI::IsMember({"lookup", "update", "step", "gemm", "host-rows"}));
  command->add_option("--batch", options->batch, "Samples")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--dim", options->dim, "Elements of a row")->check(CLI::PositiveNumber)->capture_default_str();
  command
      ->add_option("--max-rows", options->max_rows,
                   "Most rows of a table; the tables are those of Criteo Terabyte, without it 882.8 M rows")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--equal-tables", options->equal_tables, "Give every table --max-rows rows");
  command->add_option("--power", options->power, "Exponent of the ids' power law; 0: uniform")->capture_default_str();
  command->add_option("--bottom", options->bottom, "Layer widths of the bottom MLP; the last is --dim")
      ->capture_default_str();
  command->add_option("--top", options->top, "Layer widths of the top MLP; the last is 1")->capture_default_str();
  command->add_option("--precision", options->precision, "fp32, bf16, or on a GPU tf32")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}))
      ->capture_default_str();
  command->add_option("--table-dtype", options->table_dtype, "Numbers that rows are made of")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command->add_option("--rounding", options->rounding, "of rows that are looked up as bf16")
      ->check(CLI::IsMember({"nearest", "truncate"}))
      ->capture_default_str();
  command->add_option("--host-gib", options->host_gib, "Size of the table of host-rows")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--optimizer", options->optimizer, "Of the tables")->capture_default_str();
  command->add_option("--steps", options->steps, "Timed repetitions")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--device", options->device, "auto, cpu, cuda, cuda1, ...")->capture_default_str();
  command->add_option("--json", options->json, "Write the figures to this file");
  command->callback([options] { Bench(*options).run(); });
}

}  // namespace dlrm
