// The commands that read a checkpoint and no data: inspect, export.
#include <iostream>

#include "dlrm/checkpoint.h"
#include "dlrm/commands/commands.h"
#include "dlrm/commands/loading.h"
#include "dlrm/export_tf2.h"
#include "dlrm/report.h"
#include "dlrm/table_text.h"

namespace dlrm {
namespace {

std::string widths(const std::vector<int64_t>& values) {
  std::string joined;
  for (int64_t value : values) joined += (joined.empty() ? "" : "-") + std::to_string(value);
  return joined;
}

void inspect(const std::string& path, const WeightsOptions& options) {
  const Weights weights = open_weights(path, options);
  const ModelConfig& model = weights.model;
  print_notes(std::cout, weights);
  if (weights.own)
    std::cout << weights.path.string() << "\n"
              << "step " << weights.own->step << ", seed " << weights.own->seed << "; MLPs by "
              << optimizer_name(model.dense_optimizer.kind) << ", tables by "
              << optimizer_name(model.table_optimizer.kind) << "\n";
  std::cout << "bottom " << model.numerical << "-" << widths(model.bottom) << ", top " << widths(model.top) << ", dim "
            << model.dim << ", numerical features " << weights.numerical_transform << "\n\n";
  if (weights.own) {
    print_tables(std::cout, *weights.own);
  } else {
    std::vector<std::vector<std::string>> lines;
    for (const TableConfig& table : model.tables) lines.push_back({table.name, with_commas(table.rows)});
    std::cout << table_text({"table", "rows"}, lines);
  }
  std::cout
      << "\nWhat a sample of each table's rows allows: bits of entropy in an exponent field of 8, the ratio that\n"
         "bounds codecs that keep sign and mantissa, and the ratio of each codec, fitted to the sample:\n";
  print_compressibility(std::cout, weights);
}

struct ExportOptions {
  std::string checkpoint, format, output;
};

void run_export(const ExportOptions& options) {
  const Checkpoint checkpoint = open_checkpoint(options.checkpoint);
  check(options.format == "tf2", "--format: expected tf2, found '", options.format, "'");
  export_tf2(checkpoint, options.output);
  std::cout << "wrote step " << checkpoint.step << " of " << checkpoint.path.string() << " to " << options.output
            << " in NVIDIA's TensorFlow 2 .npy layout\n";
}

}  // namespace

void add_inspect(CLI::App& app) {
  struct InspectOptions {
    std::string path;
    WeightsOptions weights;
  };
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a checkpoint holds, table by table");
  command
      ->add_option("--checkpoint", options->path,
                   "A checkpoint, a run whose newest checkpoint is meant, or another program's checkpoint (see import)")
      ->required();
  add_interaction_order(*command, options->weights.interaction_order);
  command->callback([options] { inspect(options->path, options->weights); });
}

void add_export(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint in another program's layout");
  command->add_option("--checkpoint", options->checkpoint, "A checkpoint, or a run whose newest checkpoint is meant")
      ->required();
  command->add_option("--format", options->format, "tf2: NVIDIA's TensorFlow 2 .npy files")->required();
  command->add_option("--output", options->output, "Directory to make")->required();
  command->callback([options] { run_export(*options); });
}

}  // namespace dlrm
