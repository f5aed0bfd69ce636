// The program `dlrm`. Exit status: 0 done, 1 an error (one message on stderr), 2 a wrong command line, 128 + signal
// stopped by it.
#include <algorithm>
#include <csignal>
#include <iostream>

#include "dlrm/about.h"
#include "dlrm/commands/commands.h"
#include "dlrm/nearest.h"
#include "kernels/cpu/blas.h"
#include "kernels/error.h"

namespace dlrm {
namespace {

constexpr const char* kDescription =
    "Trains deep learning recommendation models whose embedding tables stay losslessly compressed.\n"
    "A run:  dlrm generate, dlrm train, dlrm evaluate.  Each command has its own --help.";

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// What CLI11 says of a wrong command line, and the nearest right word.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  std::vector<std::string> names = command_names(app);
  const CLI::App* command = &app;
  if (!app.get_subcommands().empty()) {
    command = app.get_subcommands().front();
    names.clear();
  }
  const std::vector<std::string> flags = flag_names(*command);
  names.insert(names.end(), flags.begin(), flags.end());
  const std::vector<std::string> unknown = app.remaining(true);
  std::string message = error.what();
  if (!unknown.empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    message = text("unknown argument '", word, "'.", did_you_mean(word, names));
  }
  const std::string name = command == &app ? "dlrm" : "dlrm " + command->get_name();
  return text(message, "\nSee '", name, " --help'.");
}

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error like a full disk
  CLI::App app(kDescription, "dlrm");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  add_generate(app);
  add_preprocess(app);
  add_train(app);
  add_verify(app);
  add_evaluate(app);
  add_import(app);
  add_inspect(app);
  add_export(app);
  add_bench(app);
  if (argc > 1 && argv[1][0] != '-') {
    const std::string command = argv[1];
    const std::vector<std::string> names = command_names(app);
    if (std::find(names.begin(), names.end(), command) == names.end()) {
      std::cerr << "dlrm: unknown command '" << command << "'." << did_you_mean(command, names)
                << "\nSee 'dlrm --help'.\n";
      return 2;
    }
  }
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return 0;
  } catch (const CLI::RuntimeError& status) {
    return status.get_exit_code();
  } catch (const CLI::ParseError& error) {
    std::cerr << "dlrm: " << usage_message(app, error) << "\n";
    return 2;
  }
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  dlrm::use_fast_blas(argv);
  try {
    return dlrm::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "dlrm: error: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "dlrm: error: " << error.what() << "\n";
  }
  return 1;
}
