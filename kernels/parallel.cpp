#include "kernels/parallel.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>

#include "kernels/error.h"

namespace dlrm {

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t pieces = (count + grain - 1) / grain;
  if (pieces <= 1) {
    if (pieces == 1) body(0, count);
    return;
  }
  tbb::parallel_for(int64_t(0), pieces,
                    [&](int64_t piece) { body(piece * grain, std::min(count, (piece + 1) * grain)); });
}

struct ThreadLimit::Control {
  tbb::global_control limit;
};

ThreadLimit::ThreadLimit(int threads) {
  check(threads >= 0, "threads: expected 0 (all) or more, found ", threads);
  if (threads == 0) return;
  control_.reset(
      new Control{tbb::global_control(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads))});
}
ThreadLimit::~ThreadLimit() = default;

int thread_count() {
  return int(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
}

}  // namespace dlrm
