#include "dlrm/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "data/auc.h"
#include "kernels/error.h"
#include "kernels/parallel.h"

namespace dlrm {
namespace {

// Sums run over fixed pieces of samples, then over the pieces in order, so that threads change no bits.
constexpr int64_t kPiece = 1 << 16;

void check_sizes(size_t predictions, size_t labels) {
  check(predictions == labels, "metrics: expected a label for each of ", predictions, " predictions, found ", labels);
}

void check_label(float label, size_t sample) {
  check(label == 0.0f || label == 1.0f, "metrics: the label of sample ", sample, " is ", label, ", expected 0 or 1");
}

void check_samples(std::span<const float> logits, std::span<const float> labels) {
  check_sizes(logits.size(), labels.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    check(!std::isnan(logits[i]), "metrics: the logit of sample ", i,
          " is NaN. Hint: has the training diverged? Try a lower learning rate or a longer warm-up");
    check_label(labels[i], i);
  }
}

// -log of the probability that sigmoid(logit) gives to the label: softplus, written so that exp cannot overflow.
double loss_of_logit(double logit, bool positive) {
  const double against = positive ? -logit : logit;
  return std::max(against, 0.0) + std::log1p(std::exp(-std::abs(against)));
}

// The metrics of probabilities whose losses are loss(sample).
template <class Loss>
Metrics compute(std::span<const float> probabilities, std::span<const float> labels, const Loss& loss) {
  const int64_t samples = int64_t(labels.size());
  const int64_t pieces = (samples + kPiece - 1) / kPiece;
  std::vector<double> losses(pieces), predictions(pieces);
  std::vector<int64_t> positives(pieces);
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      for (int64_t i = piece * kPiece; i < std::min(samples, (piece + 1) * kPiece); ++i) {
        losses[piece] += loss(i);
        predictions[piece] += double(probabilities[i]);
        positives[piece] += labels[i] == 1.0f;
      }
    }
  });

  Metrics metrics;
  metrics.samples = samples;
  metrics.positives = std::accumulate(positives.begin(), positives.end(), int64_t(0));
  metrics.auc = exact_auc(probabilities, labels);
  const double count = double(samples);
  metrics.log_loss = std::accumulate(losses.begin(), losses.end(), 0.0) / count;
  metrics.mean_prediction = std::accumulate(predictions.begin(), predictions.end(), 0.0) / count;
  const double rate = metrics.label_rate = double(metrics.positives) / count;
  if (metrics.positives > 0) metrics.calibration = metrics.mean_prediction / rate;
  if (metrics.positives > 0 && metrics.positives < samples) {
    const double entropy = -(rate * std::log(rate) + (1.0 - rate) * std::log1p(-rate));
    metrics.normalized_entropy = metrics.log_loss / entropy;
  }
  return metrics;
}

}  // namespace

float probability(float logit) {
  return float(1.0 / (1.0 + std::exp(-double(logit))));
}

Metrics metrics_of_logits(std::span<const float> logits, std::span<const float> labels) {
  check_samples(logits, labels);
  std::vector<float> probabilities(logits.size());
  parallel_for(int64_t(logits.size()), kPiece, [&](int64_t begin, int64_t end) {
    std::transform(&logits[begin], logits.data() + end, &probabilities[begin], probability);
  });
  return compute(probabilities, labels, [&](int64_t i) { return loss_of_logit(logits[i], labels[i] == 1.0f); });
}

}  // namespace dlrm
