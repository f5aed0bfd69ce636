#include "dlrm/metrics.h"

#include <algorithm>
#include <cmath>

#include "data/auc.h"
#include "kernels/error.h"

namespace dlrm {

float probability_of(float logit) {
  return float(1.0 / (1.0 + std::exp(-double(logit))));
}

void MetricsAccumulator::add(std::span<const float> logits, std::span<const float> labels) {
  for (size_t i = 0; i < logits.size(); ++i) {
    const double x = logits[i], y = labels[i];
    check(!std::isnan(x), "the logit of sample ", probabilities_.size(), " is not a number");
    probabilities_.push_back(probability_of(logits[i]));
    labels_.push_back(labels[i]);
    log_loss_ += std::max(x, 0.0) - x * y + std::log1p(std::exp(-std::abs(x)));
    probability_sum_ += probabilities_.back();
    positives_ += y > 0.5;
  }
}

Metrics MetricsAccumulator::result() const {
  Metrics m;
  m.samples = int64_t(labels_.size());
  m.positives = positives_;
  if (m.samples == 0) return m;
  m.auc = exact_auc(probabilities_, labels_);
  m.log_loss = log_loss_ / double(m.samples);
  m.mean_prediction = probability_sum_ / double(m.samples);
  m.label_rate = double(m.positives) / double(m.samples);
  if (m.positives > 0) m.calibration = m.mean_prediction / m.label_rate;
  if (m.positives > 0 && m.positives < m.samples) {
    const double p = m.label_rate;
    m.normalized_entropy = m.log_loss / -(p * std::log(p) + (1 - p) * std::log(1 - p));
  }
  return m;
}

}  // namespace dlrm
