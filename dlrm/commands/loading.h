// What the commands that read checkpoints of any program have in common.
#pragma once
#include <CLI/CLI.hpp>
#include <chrono>
#include <iosfwd>
#include <string>

#include "dlrm/weights.h"

namespace dlrm {

void add_interaction_order(CLI::App& command, std::string& order);
/// The layout and what was assumed; nothing for this program's own.
void print_notes(std::ostream& out, const Weights& weights);

/// Tells on stdout how far load_weights() is: a live line on a terminal, and at the end one line where it took seconds.
class LoadProgress {
 public:
  void operator()(size_t done, size_t all);
  void finish();

 private:
  std::string status() const;

  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now(), shown_ = start_;
  size_t done_ = 0, all_ = 0;
  bool live_ = false;
};

}  // namespace dlrm
