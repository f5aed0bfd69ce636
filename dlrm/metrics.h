// How good predictions are. Everything but the log loss follows from the float32 probabilities that a user can have
// written out, so any other tool computes the same values from them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace dlrm {

struct Metrics {
  int64_t samples = 0;
  int64_t positives = 0;
  std::optional<double> auc;  // half credit for equal probabilities; nothing where a class is missing
  double log_loss = 0.0;      // mean, in nats; this and the next two are NaN without samples
  double mean_prediction = 0.0;
  double label_rate = 0.0;
  // Log loss over that of always predicting the label rate; below 1 is better than that. He et al., "Practical Lessons
  // from Predicting Clicks on Ads at Facebook", ADKDD'14, section 3. Nothing where a class is missing.
  std::optional<double> normalized_entropy;
  std::optional<double> calibration;  // mean prediction over label rate; nothing without positives
};

/// The sigmoid of a logit, computed in double.
float probability(float logit);

/// The bits depend on neither the thread count nor how samples came in batches.   logits [samples]   labels [samples]
/// The log loss is taken from the logits, so it is finite wherever they are.
/// Throws Error naming the sample where a logit is NaN or a label is neither 0 nor 1.
Metrics metrics_of_logits(std::span<const float> logits, std::span<const float> labels);

}  // namespace dlrm
