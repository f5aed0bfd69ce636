// The commands that make data sets: generate, preprocess.
#include <iostream>

#include "data/generate.h"
#include "data/preprocess.h"
#include "dlrm/commands/commands.h"
#include "dlrm/table_text.h"

namespace dlrm {
namespace {

std::string joined(const std::vector<int64_t>& values) {
  std::string list;
  for (int64_t value : values) list += (list.empty() ? "" : " ") + std::to_string(value);
  return list;
}

void run_generate(const GenerateOptions& options) {
  const GenerateSummary summary = generate(options);
  std::cout << options.output << ": " << with_commas(summary.train_rows) << " training and "
            << with_commas(summary.test_rows) << " test rows, label rate " << summary.label_rate
            << "\nrows per table: " << joined(summary.cardinalities) << "\nAUC of the planted model on the test split: "
            << (summary.planted_auc ? std::to_string(*summary.planted_auc) : "undefined (one class)") << "\n";
}

void run_preprocess(const PreprocessOptions& options) {
  const PreprocessSummary summary = preprocess(options);
  const int64_t rows = summary.train_rows + summary.test_rows;
  std::cout << options.output << ": " << with_commas(summary.train_rows) << " training and "
            << with_commas(summary.test_rows) << " test rows, label rate " << double(summary.positives) / double(rows)
            << "\nrows per table: " << joined(summary.cardinalities) << "\n";
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand("generate", "Make a data set with the shape and skew of Criteo's");
  command->add_option("--output", options->output, "Directory to make")->required();
  command->add_option("--rows", options->rows, "Rows, training and test together")->required();
  command->add_option("--shape", options->shape, "criteo-kaggle or criteo-tb")->capture_default_str();
  command->add_option("--scale", options->scale, "Of the tables' sizes; 1: the true cardinalities")
      ->capture_default_str();
  command->add_option("--max-rows-per-table", options->max_rows_per_table, "Cap of the tables' sizes; 0: none")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of every random number")->capture_default_str();
  command->add_option("--test-fraction", options->test_fraction, "The last part of the rows, for testing")
      ->capture_default_str();
  command->callback([options] { run_generate(*options); });
}

void add_preprocess(CLI::App& app) {
  auto options = std::make_shared<PreprocessOptions>();
  CLI::App* command = app.add_subcommand("preprocess", "Turn raw Criteo rows into a data set");
  command->add_option("inputs", options->inputs, "TSV files, plain or gzip, in time order")->required();
  command->add_option("--output", options->output, "Directory to make")->required();
  command->add_option("--test-fraction", options->test_fraction, "The last part of the rows, for testing")
      ->capture_default_str();
  CLI::Option* limit = command->add_option("--frequency-limit", options->frequency_limit,
                                           "Values seen fewer times share id 0 with missing ones");
  command->add_option("--modulo", options->modulo, "Ids are values modulo this, instead of a vocabulary")
      ->excludes(limit);
  command->callback([options] { run_preprocess(*options); });
}

}  // namespace dlrm
