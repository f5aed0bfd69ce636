// The commands that read a checkpoint and no data: inspect, export.
#include <iostream>

#include "dlrm/checkpoint.h"
#include "dlrm/commands/commands.h"
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

void inspect(const std::string& path) {
  const Checkpoint checkpoint = open_checkpoint(path);
  const ModelConfig& model = checkpoint.model;
  std::cout << checkpoint.path.string() << "\n"
            << "step " << checkpoint.step << ", seed " << checkpoint.seed << ", numerical features "
            << checkpoint.numerical_transform << "\n"
            << "bottom " << model.numerical << "-" << widths(model.bottom) << ", top " << widths(model.top) << ", dim "
            << model.dim << "; MLPs by " << optimizer_name(model.dense_optimizer.kind) << ", tables by "
            << optimizer_name(model.table_optimizer.kind) << "\n\n";
  print_tables(std::cout, checkpoint);
  std::cout
      << "\nWhat a sample of each table's rows allows: bits of entropy in an exponent field of 8, the ratio that\n"
         "bounds codecs that keep sign and mantissa, and the ratio of each codec, fitted to the sample:\n";
  print_compressibility(std::cout, checkpoint);
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
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a checkpoint holds, table by table");
  command->add_option("--checkpoint", *path, "A checkpoint, or a run whose newest checkpoint is meant")->required();
  command->callback([path] { inspect(*path); });
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
