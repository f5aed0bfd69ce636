#include <iostream>

#include "dlrm/commands/commands.h"
#include "dlrm/commands/loading.h"
#include "dlrm/report.h"

namespace dlrm {
namespace {

struct Options {
  std::string from, output, codec = "auto";
  WeightsOptions weights;
};

void run(const Options& options) {
  const Weights weights = open_weights(options.from, options.weights);
  check(!weights.own, weights.path.string(), ": is a checkpoint of this program already");
  print_notes(std::cout, weights);
  ModelConfig shape = weights.model;
  shape.max_batch = 1;
  for (TableConfig& table : shape.tables) {
    table.trained = false;
    table.choose_codec = options.codec == "auto";
    if (!table.choose_codec) table.codec = codec_by_name(options.codec);
  }
  const auto device = make_device("cpu");
  const auto queue = device->make_queue();
  const std::filesystem::path checkpoints = std::filesystem::path(options.output) / "checkpoints";
  check(!std::filesystem::exists(checkpoints), options.output, ": holds checkpoints already");
  Model model(*device, shape);
  LoadProgress progress;
  load_weights(weights, model, *queue, [&](size_t done, size_t all) { progress(done, all); });
  progress.finish();
  std::filesystem::create_directories(checkpoints);
  Checkpoint about;
  about.numerical_transform = weights.numerical_transform;
  const Checkpoint saved = open_checkpoint(save_checkpoint(checkpoints, about, model, *queue));
  std::cout << "\n";
  print_tables(std::cout, saved);
  std::cout << "\nwrote " << saved.path.string() << "\n";
}

}  // namespace

void add_import(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "import", "Make a checkpoint of this program from one of NVIDIA's DLRM examples or facebookresearch/dlrm");
  command
      ->add_option("--from", options->from,
                   "Directory of NVIDIA's TensorFlow 2 (.npy) or PyTorch DLRM, or a file of facebookresearch/dlrm "
                   "--save-model; which one is seen from what is in it")
      ->required();
  command->add_option("--output", options->output, "Directory to make; evaluate, inspect, export and train take it")
      ->required();
  command->add_option("--codec", options->codec, "How rows are stored; auto: each table in the smallest")
      ->check(CLI::IsMember({"auto", "raw", "ibp", "pfor"}))
      ->capture_default_str();
  command
      ->add_option("--numerical", options->weights.numerical,
                   "Numerical features, where a layout knows their number rounded up only; 0: 13 of 16, else all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_interaction_order(*command, options->weights.interaction_order);
  command->callback([options] { run(*options); });
}

}  // namespace dlrm
