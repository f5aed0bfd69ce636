// Threads of the CPU: the only door to TBB. Results may not depend on how many there are, so callers cut their work
// into pieces of a size that the thread count does not change.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace dlrm {

/// Calls body(begin, end) for disjoint ranges that cover [0, count), cut at multiples of `grain`, in any order and at
/// once. An exception thrown by a body reaches the caller.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

/// Limits the threads of this process while it lives; 0 means all that the process may use.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();

 private:
  struct Control;
  std::unique_ptr<Control> control_;
};

/// Threads that parallel_for uses now.
int thread_count();

}  // namespace dlrm
