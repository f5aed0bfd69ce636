// Tells the user how a run goes: one live line on a terminal, plain lines elsewhere, and always metrics.jsonl.
#pragma once
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "dlrm/metrics.h"

namespace dlrm {

class Progress {
 public:
  /// Steps [first_step, last_step). Appends to `metrics`, after dropping the lines of steps past first_step that an
  /// earlier, killed part of the run wrote. An empty path: no file.
  Progress(const std::filesystem::path& metrics, int64_t first_step, int64_t last_step, int64_t log_every);
  ~Progress();

  /// After each step; `step` counts steps done.
  void step(int64_t step, int64_t samples, float loss, double learning_rate_factor);
  void evaluation(int64_t step, const Metrics& metrics, double seconds);
  /// A line of its own.
  void note(const std::string& line);

  /// Samples trained and the rate, without evaluations and checkpoints.
  int64_t samples() const { return samples_; }
  double samples_per_second() const;
  /// Does something that is not training: its time does not count.
  template <class F>
  void pause(F&& f) {
    const auto start = Clock::now();
    f();
    const auto end = Clock::now();
    paused_ += std::chrono::duration<double>(end - start).count();
    interval_paused_ += std::chrono::duration<double>(end - start).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void write_line(int64_t step, double learning_rate_factor);
  std::string status(int64_t step, double loss, double rate) const;
  void clear_live_line();

  std::ofstream file_;
  std::filesystem::path path_;
  int64_t first_step_, last_step_, log_every_;
  bool terminal_, live_ = false;
  Clock::time_point start_, interval_start_, last_live_;
  double paused_ = 0, interval_paused_ = 0;
  int64_t samples_ = 0, interval_samples_ = 0;
  double interval_loss_ = 0;  // weighted by samples
};

}  // namespace dlrm
