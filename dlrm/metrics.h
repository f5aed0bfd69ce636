// How good predictions are. Probabilities are float32, as they are written for the user, and every figure is exact on
// them: AUC with half credit for ties, sums in double.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dlrm {

struct Metrics {
  int64_t samples = 0, positives = 0;
  std::optional<double> auc;                 // none where a class is absent
  double log_loss = 0;                       // mean, natural logarithm, from the logits
  std::optional<double> normalized_entropy;  // log loss / entropy of the label rate (He et al., ADKDD'14, section 3)
  std::optional<double> calibration;         // mean prediction / label rate
  double mean_prediction = 0, label_rate = 0;
};

/// 1 / (1 + exp(-logit)), computed in double.
float probability_of(float logit);

class MetricsAccumulator {
 public:
  /// Throws Error naming the sample where a logit is NaN.
  void add(std::span<const float> logits, std::span<const float> labels);
  Metrics result() const;
  /// Of all samples added, in order.
  const std::vector<float>& probabilities() const { return probabilities_; }

 private:
  std::vector<float> probabilities_, labels_;
  double log_loss_ = 0, probability_sum_ = 0;
  int64_t positives_ = 0;
};

}  // namespace dlrm
