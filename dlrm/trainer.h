// From a config to a trained model: data, steps, schedule, evaluation, checkpoints, resume.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "data/split_binary.h"
#include "dlrm/config.h"
#include "dlrm/evaluate.h"
#include "dlrm/model.h"

namespace dlrm {

struct TrainResult {
  int64_t steps = 0;    // of the whole run, earlier parts included
  int64_t samples = 0;  // trained by this part of the run
  double samples_per_second = 0;
  float last_loss = 0;
  std::optional<Evaluation> evaluation;  // of the final weights on the test split
  std::filesystem::path checkpoint;      // with the final weights
  int signal = 0;                        // that stopped the run early
};

/// Trains as the config says and writes into train.output. Throws Error on bad input, and when a loss is not finite,
/// naming the step and the last whole checkpoint.
TrainResult train(const Config& config);

ModelConfig model_config(const Config& config, const Dataset& data);
/// Steps the config asks for.
int64_t total_steps(const Config& config, const Split& split);
StepState step_state(const Config& config, int64_t step);

}  // namespace dlrm
