#include "dlrm/commands/loading.h"

#include <unistd.h>

#include <iostream>

#include "dlrm/table_text.h"

namespace dlrm {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void add_interaction_order(CLI::App& command, std::string& order) {
  command.add_option("--interaction-order", order,
                     "Of another program's checkpoint: the order in which the tables' vectors entered the interaction, "
                     "where the files do not say or are not to be believed: natural, cardinality or 0,5,3,...");
}

void print_notes(std::ostream& out, const Weights& weights) {
  if (weights.own) return;
  out << weights.path.string() << ": " << weights.layout << "\n";
  for (const std::string& note : weights.notes) out << "  " << note << "\n";
}

void LoadProgress::operator()(size_t done, size_t all) {
  done_ = done;
  all_ = all;
  if (!isatty(STDOUT_FILENO) || seconds_since(shown_) < 0.5) return;
  shown_ = Clock::now();
  live_ = true;
  std::cout << "\r\033[K" << status() << std::flush;
}

void LoadProgress::finish() {
  if (live_) std::cout << "\r\033[K" << std::flush;
  if (seconds_since(start_) >= 1 && done_ > 0) std::cout << status() << "\n";
}

std::string LoadProgress::status() const {
  const double seconds = seconds_since(start_), done = double(done_);
  return text("loaded ", fixed(done / 1e9, 2), " of ", fixed(double(all_) / 1e9, 2), " GB of rows, ",
              fixed(done / 1e9 / seconds, 2), " GB/s, ", fixed(seconds, 0), " s");
}

}  // namespace dlrm
