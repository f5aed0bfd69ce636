#include "data/auc.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/error.h"

namespace dlrm {

std::optional<double> exact_auc(std::span<const float> scores, std::span<const float> labels) {
  check(scores.size() == labels.size(), "AUC: ", scores.size(), " scores and ", labels.size(), " labels");
  std::vector<std::pair<float, bool>> samples;
  samples.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    check(!std::isnan(scores[i]), "AUC: the score of sample ", i, " is not a number");
    samples.emplace_back(scores[i], labels[i] > 0.5f);
  }
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.first < b.first; });

  uint64_t positives = 0, negatives = 0;
  double twice_area = 0;  // sums of integers: exact below 2^53, relative error 1e-16 per group beyond
  for (size_t begin = 0, end = 0; begin < samples.size(); begin = end) {
    uint64_t group[2] = {0, 0};
    for (; end < samples.size() && samples[end].first == samples[begin].first; ++end) ++group[samples[end].second];
    twice_area += double(group[1]) * double(2 * negatives + group[0]);
    negatives += group[0];
    positives += group[1];
  }
  if (positives == 0 || negatives == 0) return std::nullopt;
  return twice_area / (2.0 * double(positives) * double(negatives));
}

}  // namespace dlrm
