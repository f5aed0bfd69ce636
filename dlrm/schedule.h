// The learning rate over the steps: linear warm-up, constant, polynomial decay of power 2 to zero, constant zero.
// The schedule of NVIDIA's DeepLearningExamples (lr_scheduler.py) and of MLPerf DLRM.
#pragma once
#include <cstdint>

namespace dlrm {

struct Schedule {
  int64_t warmup = 0;       // steps; 0: none
  int64_t decay_start = 0;  // step
  int64_t decay_steps = 0;  // 0: no decay

  bool operator==(const Schedule&) const = default;
};

/// What the learning rate is multiplied with at `step`, counted from 0. With warm-up, step 0 gets 0.
inline float learning_rate_factor(const Schedule& schedule, int64_t step) {
  if (step < schedule.warmup) return float(double(step) / double(schedule.warmup));
  if (schedule.decay_steps == 0 || step < schedule.decay_start) return 1.0f;
  // Not decay_start + decay_steps - step, which overflows when both are large.
  const int64_t left = schedule.decay_steps - (step - schedule.decay_start);
  if (left <= 0) return 0.0f;
  const double fraction = double(left) / double(schedule.decay_steps);
  return float(fraction * fraction);
}

}  // namespace dlrm
