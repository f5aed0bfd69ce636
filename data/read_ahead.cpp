#include "data/read_ahead.h"

#include <algorithm>

#include "kernels/error.h"

namespace dlrm {

ReadAhead::ReadAhead(const Split& split, int64_t batch, int64_t first_step, int64_t end_step, int64_t depth)
    : split_(split),
      batch_(batch),
      first_step_(first_step),
      end_step_(std::max(first_step, end_step)),
      ring_(size_t(depth + 1)),
      read_(first_step),
      taken_(first_step) {
  check(split.samples() > 0, "the split has no samples");
  thread_ = std::thread([this] { read_all(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::read_all() {
  const int64_t per_epoch = (split_.samples() + batch_ - 1) / batch_;
  for (int64_t step = first_step_; step < end_step_; ++step) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || step - taken_ < int64_t(ring_.size()); });
      if (stop_) return;
    }
    std::exception_ptr error;
    try {
      const int64_t first = step % per_epoch * batch_;
      split_.read(first, std::min(batch_, split_.samples() - first), ring_[size_t(step) % ring_.size()]);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      read_ += !error;
    }
    changed_.notify_all();
    if (error) return;
  }
}

const Batch* ReadAhead::next() {
  std::unique_lock lock(mutex_);
  taken_ += holding_;
  holding_ = false;
  changed_.notify_all();
  if (taken_ == end_step_) return nullptr;
  changed_.wait(lock, [&] { return read_ > taken_ || error_; });
  if (read_ == taken_) std::rethrow_exception(error_);
  holding_ = true;
  return &ring_[size_t(taken_) % ring_.size()];
}

}  // namespace dlrm
