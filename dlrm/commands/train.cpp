#include <iostream>

#include "dlrm/checkpoint.h"
#include "dlrm/commands/commands.h"
#include "dlrm/report.h"
#include "dlrm/signals.h"
#include "dlrm/table_text.h"
#include "dlrm/trainer.h"

namespace dlrm {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> set;
};

void run(const Options& options) {
  install_stop_signals();
  const TrainResult result = train(load_config(options.config, options.set));
  std::cout << "\ntrained " << with_commas(result.samples) << " samples, "
            << with_commas(int64_t(result.samples_per_second)) << " samples/s, to step " << result.steps
            << "; checkpoint " << result.checkpoint.string() << "\n\n";
  print_tables(std::cout, open_checkpoint(result.checkpoint));
  if (result.evaluation) {
    std::cout << "\n";
    print_metrics(std::cout, result.evaluation->metrics);
  }
  if (result.signal == 0) return;
  std::cout << "stopped by signal " << result.signal << ". Hint: train.resume=true continues this run\n";
  throw CLI::RuntimeError(128 + result.signal);
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train a model as a config file says");
  command->add_option("config", options->config, "YAML file, see configs/")->required();
  command->add_option("--set", options->set, "Override keys of the config: --set train.steps=500 model.dim=128")
      ->expected(1, CLI::detail::expected_max_vector_size);
  command->footer("Keys of the config, their defaults and meaning:\n\n" + config_help());
  command->callback([options] { run(*options); });
}

}  // namespace dlrm
