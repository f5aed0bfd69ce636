// Scores every sample of a split once.
#pragma once
#include <vector>

#include "data/split_binary.h"
#include "dlrm/metrics.h"
#include "dlrm/model.h"

namespace dlrm {

struct Evaluation {
  Metrics metrics;
  double seconds = 0;
};

/// `batch` at most the model's max_batch.   probabilities: if given, one per sample, in the order of the data set.
Evaluation evaluate(Model& model, Queue& queue, const Split& split, int64_t batch,
                    std::vector<float>* probabilities = nullptr);

}  // namespace dlrm
