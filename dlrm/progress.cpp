#include "dlrm/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "dlrm/table_text.h"
#include "kernels/error.h"

namespace dlrm {
namespace {

using json = nlohmann::ordered_json;

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * size_t(sysconf(_SC_PAGESIZE));
}

std::string duration_text(double seconds) {
  const int64_t s = std::llround(seconds);
  char text[32];
  std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", long(s / 3600), long(s / 60 % 60), long(s % 60));
  return text;
}

/// Keeps the lines of steps up to `step`. A last line cut short by a kill is dropped.
std::string lines_until(const std::filesystem::path& path, int64_t step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const json j = json::parse(line, nullptr, false);
    if (!j.is_discarded() && j.value("step", int64_t(0)) <= step) kept += line + "\n";
  }
  return kept;
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

}  // namespace

Progress::Progress(const std::filesystem::path& metrics, int64_t first_step, int64_t last_step, int64_t log_every)
    : path_(metrics),
      first_step_(first_step),
      last_step_(last_step),
      log_every_(std::max<int64_t>(log_every, 1)),
      terminal_(isatty(STDOUT_FILENO)),
      start_(Clock::now()),
      interval_start_(start_),
      last_live_(start_) {
  if (metrics.empty()) return;
  const std::string earlier = lines_until(metrics, first_step);
  file_.open(metrics, std::ios::trunc);
  file_ << earlier << std::flush;
  check(bool(file_), metrics.string(), ": cannot be written");
}

Progress::~Progress() {
  clear_live_line();
}

void Progress::step(int64_t step, int64_t samples, float loss, double learning_rate_factor) {
  samples_ += samples;
  interval_samples_ += samples;
  interval_loss_ += double(loss) * double(samples);
  if (step % log_every_ == 0 || step == last_step_) {
    write_line(step, learning_rate_factor);
  } else if (terminal_ && seconds(Clock::now() - last_live_) > 0.2) {
    last_live_ = Clock::now();
    std::cout << "\r\033[K" << status(step, loss, samples_per_second()) << std::flush;
    live_ = true;
  }
}

void Progress::write_line(int64_t step, double learning_rate_factor) {
  const auto now = Clock::now();
  const double rate = double(interval_samples_) / std::max(1e-9, seconds(now - interval_start_) - interval_paused_);
  const double loss = interval_loss_ / double(interval_samples_);
  if (file_.is_open()) {
    file_ << json{{"step", step},
                  {"loss", loss},
                  {"learning_rate_factor", learning_rate_factor},
                  {"samples_per_second", rate},
                  {"seconds", seconds(now - start_)},
                  {"resident_bytes", resident_bytes()}}
                 .dump()
          << "\n"
          << std::flush;
    check(bool(file_), path_.string(), ": cannot be written");
  }
  note(status(step, loss, rate));
  interval_start_ = now;
  interval_paused_ = interval_loss_ = 0;
  interval_samples_ = 0;
}

std::string Progress::status(int64_t step, double loss, double rate) const {
  char text[160];
  const double per_step = (seconds(Clock::now() - start_) - paused_) / double(std::max<int64_t>(step - first_step_, 1));
  std::snprintf(text, sizeof text, "step %ld/%ld  loss %.5f  %s samples/s  ETA %s  memory %s", long(step),
                long(last_step_), loss, with_commas(int64_t(rate)).c_str(),
                duration_text(per_step * double(last_step_ - step)).c_str(), human_bytes(resident_bytes()).c_str());
  return text;
}

void Progress::evaluation(int64_t step, const Metrics& m, double seconds) {
  if (file_.is_open()) {
    file_ << json{{"step", step},
                  {"split", "test"},
                  {"samples", m.samples},
                  {"auc", or_null(m.auc)},
                  {"log_loss", m.log_loss},
                  {"normalized_entropy", or_null(m.normalized_entropy)},
                  {"calibration", or_null(m.calibration)},
                  {"seconds", seconds}}
                 .dump()
          << "\n"
          << std::flush;
    check(bool(file_), path_.string(), ": cannot be written");
  }
  char text[160];
  std::snprintf(text, sizeof text, "step %ld  test AUC %s  log loss %.6f  (%s samples in %.1f s)", long(step),
                m.auc ? std::to_string(*m.auc).c_str() : "undefined (one class)", m.log_loss,
                with_commas(m.samples).c_str(), seconds);
  note(text);
}

void Progress::note(const std::string& line) {
  clear_live_line();
  std::cout << line << std::endl;
}

void Progress::clear_live_line() {
  if (live_) std::cout << "\r\033[K" << std::flush;
  live_ = false;
}

double Progress::samples_per_second() const {
  return double(samples_) / std::max(1e-9, seconds(Clock::now() - start_) - paused_);
}

}  // namespace dlrm
