#include "data/auc.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/error.h"

namespace dlrm {

std::optional<double> exact_auc(std::span<const float> scores, std::span<const float> labels) {
  check(scores.size() == labels.size(), "auc: ", scores.size(), " scores and ", labels.size(), " labels");
  struct Sample {
    float score;
    bool positive;
  };
  std::vector<Sample> samples(scores.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    check(!std::isnan(scores[i]), "auc: the score of sample ", i, " is NaN");
    samples[i] = {scores[i], labels[i] != 0.0f};
  }
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.score < b.score; });

  // For each group of equal scores, ascending: its positives beat the negatives below and tie with those inside.
  uint64_t positives = 0, negatives = 0, twice_area = 0;
  for (size_t begin = 0, end; begin < samples.size(); begin = end) {
    uint64_t positives_here = 0;
    for (end = begin; end < samples.size() && samples[end].score == samples[begin].score; ++end)
      positives_here += samples[end].positive;
    const uint64_t negatives_here = end - begin - positives_here;
    twice_area += positives_here * (2 * negatives + negatives_here);
    positives += positives_here;
    negatives += negatives_here;
  }
  if (positives == 0 || negatives == 0) return std::nullopt;
  return double(twice_area) / 2.0 / (double(positives) * double(negatives));
}

}  // namespace dlrm
