// The commands of the program: each adds its options to the command line and runs when it was asked for.
#pragma once
#include <CLI/CLI.hpp>

namespace dlrm {

void add_generate(CLI::App& app);
void add_preprocess(CLI::App& app);
void add_train(CLI::App& app);
void add_verify(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_import(CLI::App& app);
void add_inspect(CLI::App& app);
void add_export(CLI::App& app);
void add_bench(CLI::App& app);

}  // namespace dlrm
