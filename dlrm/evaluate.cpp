#include "dlrm/evaluate.h"

#include <algorithm>
#include <chrono>

#include "data/read_ahead.h"

namespace dlrm {

Evaluation evaluate(Model& model, Queue& queue, const Split& split, int64_t batch, std::vector<float>* probabilities) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<float> all_logits, labels;
  if (split.samples() > 0) {
    std::vector<float> logits(static_cast<size_t>(batch));
    ReadAhead batches(split, batch, 0, (split.samples() + batch - 1) / batch);
    while (const Batch* next = batches.next()) {
      model.predict(queue, *next, logits.data());
      all_logits.insert(all_logits.end(), logits.begin(), logits.begin() + next->size);
      labels.insert(labels.end(), next->labels.begin(), next->labels.end());
    }
  }
  if (probabilities) {
    probabilities->resize(all_logits.size());
    std::transform(all_logits.begin(), all_logits.end(), probabilities->begin(), probability);
  }
  return {metrics_of_logits(all_logits, labels),
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace dlrm
