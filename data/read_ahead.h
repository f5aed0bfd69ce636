// Reads the next batches while the present one is worked on.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/split_binary.h"

namespace dlrm {

/// The batches of steps [first_step, end_step). Which samples a step gets depends on the step alone: with S =
/// ceil(samples / batch) steps an epoch, step s gets samples from (s mod S) * batch on; the last batch of an epoch may
/// be short.
class ReadAhead {
 public:
  /// The split must outlive this. Throws Error where it has no samples.
  ReadAhead(const Split& split, int64_t batch, int64_t first_step, int64_t end_step, int64_t depth = 2);
  ~ReadAhead();

  /// The next step's batch, valid until the next call; null after the last. Throws what reading threw.
  const Batch* next();

 private:
  void read_all();

  const Split& split_;
  const int64_t batch_, first_step_, end_step_;
  std::vector<Batch> ring_;  // step s is at s mod size
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t read_, taken_;  // steps whose batches were read; whose batches are done with
  bool stop_ = false, holding_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace dlrm
