#include "dlrm/verify.h"

#include <iostream>

#include "dlrm/commands/commands.h"
#include "dlrm/table_text.h"
#include "dlrm/trainer.h"
#include "kernels/parallel.h"

namespace dlrm {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> set;
  int64_t steps = 100;
};

void run(const Options& options) {
  const Config config = load_config(options.config, options.set);
  const ThreadLimit threads(int(config.train.threads));
  const Dataset data = Dataset::open(config.data.path);
  const auto device = make_device(config.train.device);
  const auto queue = device->make_queue();
  ModelConfig compressed = model_config(config, data), plain = compressed;
  for (TableConfig& table : plain.tables) table = {table.name, table.rows, CodecId::raw};
  Model expected(*device, plain), found(*device, compressed);
  std::cout << "training " << options.steps << " steps twice on " << device->name() << ", codec raw and codec "
            << config.embedding.codec << std::endl;
  const Verification result = verify(config, data, expected, found, *queue, options.steps);
  check(!result.difference, "raw and ", config.embedding.codec,
        " differ: ", result.difference ? result.difference->what : "");
  std::cout << "identical bits: " << with_commas(result.steps) << " losses, " << with_commas(result.rows_compared)
            << " rows compared, " << with_commas(result.weights_compared) << " final weights, test AUC "
            << (result.auc ? std::to_string(*result.auc) : "undefined") << "\n";
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "verify", "Train with raw and with the config's codec and compare every bit: losses, weights, AUC");
  command->add_option("config", options->config, "YAML file, see configs/")->required();
  command->add_option("--set", options->set, "Override keys of the config: --set train.seed=2 embedding.codec=pfor")
      ->expected(1, CLI::detail::expected_max_vector_size);
  command->add_option("--steps", options->steps, "Steps to train")->check(CLI::PositiveNumber)->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace dlrm
