// The learning rate over the steps: linear warm-up, constant, polynomial decay of power 2 (NVIDIA's DLRM recipe).
#pragma once
#include <cstdint>

namespace dlrm {

struct Schedule {
  int64_t warmup = 0;       // steps
  int64_t decay_start = 0;  // step
  int64_t decay_steps = 0;  // 0: no decay
};

/// What the base learning rate is multiplied by at `step`, counted from 0: step / warmup first, so that step 0 of a
/// warm-up does not move; 0 after the decay.
inline float learning_rate_factor(const Schedule& schedule, int64_t step) {
  double factor = step < schedule.warmup ? double(step) / double(schedule.warmup) : 1.0;
  if (schedule.decay_steps > 0 && step >= schedule.decay_start) {
    const int64_t left = schedule.decay_start + schedule.decay_steps - step;
    const double share = left > 0 ? double(left) / double(schedule.decay_steps) : 0.0;
    factor *= share * share;
  }
  return float(factor);
}

}  // namespace dlrm
