#include "dlrm/evaluate.h"

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "data/npy.h"
#include "dlrm/commands/commands.h"
#include "dlrm/commands/loading.h"
#include "dlrm/report.h"
#include "dlrm/table_text.h"
#include "kernels/parallel.h"

namespace dlrm {
namespace {

struct Options {
  std::string checkpoint, data, split = "test", device = "auto", codec, json, predictions, interaction_order;
  int64_t batch = 8192;
  int threads = 0;
};

/// The checkpoint's model for inference on this data: no optimizer state.
ModelConfig inference_model(const Weights& weights, const Dataset& data, int64_t batch, const std::string& codec) {
  const std::string where = weights.path.string();
  ModelConfig model = weights.model;
  check(data.numerical_features() == model.numerical, where, ": trained on ", model.numerical,
        " numerical features, the data has ", data.numerical_features());
  check(data.tables().size() == model.tables.size(), where, ": has ", model.tables.size(), " tables, the data has ",
        data.tables().size());
  for (size_t t = 0; t < model.tables.size(); ++t)
    check(data.tables()[t].cardinality <= model.tables[t].rows, where, ": table ", t, " (", model.tables[t].name,
          ") has ", model.tables[t].rows, " rows, the data's ", data.tables()[t].name, " needs ",
          data.tables()[t].cardinality);
  check(data.numerical_transform() == weights.numerical_transform, where, ": trained on numerical features as ",
        weights.numerical_transform, ", the data has ", data.numerical_transform());
  model.dense_optimizer = model.table_optimizer = {};
  model.max_batch = batch;
  for (TableConfig& table : model.tables) {
    table.trained = false;
    table.choose_codec = codec == "auto";
    if (!codec.empty() && codec != "auto") table.codec = codec_by_name(codec);
  }
  return model;
}

nlohmann::ordered_json json_of(const Options& options, const Weights& weights, const Evaluation& evaluation) {
  const Metrics& m = evaluation.metrics;
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  return {{"auc", or_null(m.auc)},
          {"log_loss", m.log_loss},
          {"normalized_entropy", or_null(m.normalized_entropy)},
          {"calibration", or_null(m.calibration)},
          {"samples", m.samples},
          {"positives", m.positives},
          {"label_rate", m.label_rate},
          {"mean_prediction", m.mean_prediction},
          {"samples_per_second", double(m.samples) / std::max(evaluation.seconds, 1e-9)},
          {"checkpoint", weights.path.string()},
          {"layout", weights.layout},
          {"step", weights.own ? nlohmann::ordered_json(weights.own->step) : nlohmann::ordered_json(nullptr)},
          {"data", options.data},
          {"split", options.split}};
}

void run(const Options& options) {
  const ThreadLimit threads(options.threads);
  const Dataset data = Dataset::open(options.data);
  const Weights weights = open_weights(options.checkpoint, {data.numerical_features(), options.interaction_order});
  const auto device = make_device(options.device);
  const auto queue = device->make_queue();
  Model model(*device, inference_model(weights, data, options.batch, options.codec));
  print_notes(std::cout, weights);
  LoadProgress progress;
  load_weights(weights, model, *queue, [&](size_t done, size_t all) { progress(done, all); });
  progress.finish();

  std::vector<float> probabilities;
  const Evaluation evaluation = evaluate(model, *queue, data.split(options.split), options.batch, &probabilities);
  std::cout << "checkpoint " << weights.path.string();
  if (weights.own) std::cout << ", step " << weights.own->step;
  std::cout << ", on " << device->name() << "\n";
  print_metrics(std::cout, evaluation.metrics);
  if (!options.predictions.empty()) write_npy(options.predictions, probabilities, {int64_t(probabilities.size())});
  if (options.json.empty()) return;
  std::ofstream file(options.json);
  file << json_of(options, weights, evaluation).dump(2) << "\n" << std::flush;
  check(bool(file), options.json, ": cannot be written");
}

}  // namespace

void add_evaluate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("evaluate", "Score a data set with a checkpoint: AUC, log loss, calibration");
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "A checkpoint, a run whose newest checkpoint is meant, or another program's checkpoint (see import)")
      ->required();
  add_interaction_order(*command, options->interaction_order);
  command->add_option("--data", options->data, "Directory with feature_spec.yaml")->required();
  command->add_option("--split", options->split, "train or test")->capture_default_str();
  command->add_option("--json", options->json, "Write the figures to this file");
  command->add_option("--predictions", options->predictions, "Write float32 probabilities, in data set order, as .npy");
  command->add_option("--batch", options->batch, "Samples per step")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option(
      "--codec", options->codec,
      "How tables are held: raw, ibp, pfor; auto: each table in the smallest; empty: as they were trained");
  command->add_option("--device", options->device, "auto, cpu, cuda, cuda1, ...")->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads, 0: all")->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace dlrm
