#include "dlrm/evaluate.h"

#include <chrono>

#include "data/read_ahead.h"

namespace dlrm {

Evaluation evaluate(Model& model, Queue& queue, const Split& split, int64_t batch, std::vector<float>* probabilities) {
  const auto start = std::chrono::steady_clock::now();
  MetricsAccumulator metrics;
  if (split.samples() > 0) {
    std::vector<float> logits(static_cast<size_t>(batch));
    ReadAhead batches(split, batch, 0, (split.samples() + batch - 1) / batch);
    while (const Batch* next = batches.next()) {
      model.predict(queue, *next, logits.data());
      metrics.add({logits.data(), size_t(next->size)}, next->labels);
    }
  }
  if (probabilities) *probabilities = metrics.probabilities();
  return {metrics.result(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace dlrm
