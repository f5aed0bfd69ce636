// Area under the ROC curve, exact.
#pragma once
#include <optional>
#include <span>

namespace dlrm {

/// The Mann-Whitney statistic with half credit for ties: over groups of equal score, ascending, the sum of
/// positives * (negatives before + negatives in the group / 2), over positives * negatives. Labels are 0 or 1.
/// None where a class is absent. Throws Error where a score is NaN.
std::optional<double> exact_auc(std::span<const float> scores, std::span<const float> labels);

}  // namespace dlrm
