#include "dlrm/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "data/auc.h"
#include "kernels/error.h"
#include "kernels/parallel.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Samples {
  std::vector<float> logits, labels;
};

// Labels that the logits say something about; `levels` distinct logits, so that many are equal.
Samples random_samples(int count, int levels) {
  Samples samples;
  const int middle = levels / 2;
  for (int i = 0; i < count; ++i) {
    const Random4 random = philox(7, i, levels);
    samples.logits.push_back(float(int(random.word[0] % levels) - middle) * 4.0f / float(levels) - 1.0f);
    samples.labels.push_back(uniform_float(random.word[1]) < probability(samples.logits.back()) ? 1.0f : 0.0f);
  }
  return samples;
}

// Mann-Whitney: over all pairs of a positive and a negative.
double naive_auc(const std::vector<float>& logits, const std::vector<float>& labels) {
  double wins = 0.0, pairs = 0.0;
  for (size_t p = 0; p < logits.size(); ++p) {
    for (size_t n = 0; n < logits.size(); ++n) {
      if (labels[p] != 1.0f || labels[n] != 0.0f) continue;
      const float a = probability(logits[p]), b = probability(logits[n]);
      wins += a > b ? 1.0 : a == b ? 0.5 : 0.0;
      pairs += 1.0;
    }
  }
  return wins / pairs;
}

std::string error_of(const std::vector<float>& logits, const std::vector<float>& labels) {
  try {
    metrics_of_logits(logits, labels);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class AucTest : public testing::TestWithParam<int> {};
TEST_P(AucTest, EqualsMannWhitney) {
  const Samples samples = random_samples(1000, GetParam());
  EXPECT_NEAR(*metrics_of_logits(samples.logits, samples.labels).auc, naive_auc(samples.logits, samples.labels), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Levels, AucTest, testing::Values(2, 3, 31, 33, 1 << 30));

TEST(MetricsTest, TwoDistinctScoresGiveTheKnownAuc) {
  // Of the 4 pairs, 1 is won, 2 are ties and 1 is lost.
  EXPECT_EQ(metrics_of_logits(std::vector<float>{1, 0, 0, 1}, std::vector<float>{1, 1, 0, 0}).auc, 0.5);
  EXPECT_EQ(metrics_of_logits(std::vector<float>{1, 1, 0, 1}, std::vector<float>{1, 1, 0, 0}).auc, 0.75);
}
TEST(MetricsTest, EqualScoresGiveOneHalf) {
  EXPECT_EQ(metrics_of_logits(std::vector<float>(5, 0.3f), std::vector<float>{0, 1, 0, 0, 1}).auc, 0.5);
}
TEST(MetricsTest, LogitsOfEqualProbabilityAreTies) {
  // Both round to 1.0f.
  EXPECT_EQ(metrics_of_logits(std::vector<float>{50, 60}, std::vector<float>{0, 1}).auc, 0.5);
}
TEST(MetricsTest, AucAcceptsAnyScores) {
  EXPECT_EQ(exact_auc(std::vector<float>{-3, kInf, -kInf}, std::vector<float>{1, 1, 0}), 1.0);
  EXPECT_THROW(exact_auc(std::vector<float>{kNaN}, std::vector<float>{1}), Error);
}

TEST(MetricsTest, OneClassHasNoAucAndNoNormalizedEntropy) {
  for (const float label : {0.0f, 1.0f}) {
    const Metrics metrics = metrics_of_logits(std::vector<float>{1, 2}, std::vector<float>{label, label});
    EXPECT_EQ(metrics.auc, std::nullopt);
    EXPECT_EQ(metrics.normalized_entropy, std::nullopt);
  }
}
TEST(MetricsTest, NoPositivesHaveNoCalibration) {
  EXPECT_EQ(metrics_of_logits(std::vector<float>{1}, std::vector<float>{0}).calibration, std::nullopt);
}
TEST(MetricsTest, NoSamplesHaveNoMetrics) {
  const Metrics metrics = metrics_of_logits({}, {});
  EXPECT_EQ(metrics.samples, 0);
  EXPECT_EQ(metrics.auc, std::nullopt);
  EXPECT_EQ(metrics.calibration, std::nullopt);
  EXPECT_TRUE(std::isnan(metrics.log_loss));
}

TEST(MetricsTest, LogLossEqualsTheTextbookFormula) {
  const Samples samples = random_samples(1000, 1 << 30);
  double sum = 0.0;
  for (size_t i = 0; i < samples.logits.size(); ++i) {
    const double p = 1.0 / (1.0 + std::exp(-double(samples.logits[i])));
    sum -= samples.labels[i] == 1.0f ? std::log(p) : std::log(1.0 - p);
  }
  EXPECT_NEAR(metrics_of_logits(samples.logits, samples.labels).log_loss, sum / 1000.0, 1e-12);
}
TEST(MetricsTest, LogLossOfAHugeLogitIsFinite) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  EXPECT_EQ(metrics_of_logits(std::vector<float>{kHuge}, std::vector<float>{0}).log_loss, double(kHuge));
  EXPECT_EQ(metrics_of_logits(std::vector<float>{kHuge}, std::vector<float>{1}).log_loss, 0.0);
  EXPECT_EQ(metrics_of_logits(std::vector<float>{-1000}, std::vector<float>{1}).log_loss, 1000.0);
}

TEST(MetricsTest, PredictingTheLabelRateHasNormalizedEntropyAndCalibrationOne) {
  const float logit = std::log(0.25f / 0.75f);
  const Metrics metrics = metrics_of_logits(std::vector<float>(4, logit), std::vector<float>{0, 1, 0, 0});
  EXPECT_NEAR(*metrics.normalized_entropy, 1.0, 1e-7);
  EXPECT_NEAR(*metrics.calibration, 1.0, 1e-7);
}
TEST(MetricsTest, MeansAndCountsAreRight) {
  const float quarter = std::log(1.0f / 3.0f);
  const Metrics metrics =
      metrics_of_logits(std::vector<float>{0, 1000, quarter, quarter}, std::vector<float>{0, 1, 0, 0});
  EXPECT_EQ(metrics.samples, 4);
  EXPECT_EQ(metrics.positives, 1);
  EXPECT_NEAR(metrics.mean_prediction, 0.5, 1e-7);
  EXPECT_EQ(metrics.label_rate, 0.25);
  EXPECT_NEAR(*metrics.calibration, 2.0, 1e-7);
}

TEST(MetricsTest, ThreadsDoNotChangeBits) {
  const Samples samples = random_samples(200'000, 1 << 30);
  const Metrics all_threads = metrics_of_logits(samples.logits, samples.labels);
  const ThreadLimit one_thread(1);
  const Metrics one = metrics_of_logits(samples.logits, samples.labels);
  EXPECT_EQ(all_threads.log_loss, one.log_loss);
  EXPECT_EQ(all_threads.mean_prediction, one.mean_prediction);
  EXPECT_EQ(all_threads.auc, one.auc);
}

TEST(MetricsTest, ANaNLogitNamesTheSample) {
  EXPECT_NE(error_of({0, kNaN}, {0, 1}).find("the logit of sample 1 is NaN"), std::string::npos);
}
TEST(MetricsTest, ALabelThatIsNoClassIsAnError) {
  EXPECT_NE(error_of({0}, {0.5f}).find("the label of sample 0 is 0.5"), std::string::npos);
}
TEST(MetricsTest, AMissingLabelIsAnError) {
  EXPECT_NE(error_of({0}, {}).find("found 0"), std::string::npos);
}
}  // namespace
}  // namespace dlrm
