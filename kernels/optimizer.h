// The optimizers' arithmetic, one element at a time, in PyTorch's definitions. Fused multiply-adds are spelled out, so
// that every kernel and every codec rounds the same way.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/error.h"
#include "kernels/portable.h"

namespace dlrm {

enum class OptimizerKind : int32_t { sgd, adagrad, rowwise_adagrad, adam };

inline constexpr std::array<std::string_view, 4> kOptimizerNames = {"sgd", "adagrad", "rowwise_adagrad", "adam"};

struct OptimizerRule {
  OptimizerKind kind = OptimizerKind::sgd;
  float eps = 0;
  float beta1 = 0.9f, beta2 = 0.999f;  // of adam
};

/// What makes up for averages that began at zero (Kingma and Ba, arXiv 1412.6980, algorithm 1).
struct AdamCorrection {
  float first = 1;   // 1 / (1 - beta1^t)
  float second = 1;  // 1 / sqrt(1 - beta2^t)
};

/// Of step `step`, counted from 0.
inline AdamCorrection adam_correction(const OptimizerRule& rule, int64_t step) {
  const double t = double(step + 1);
  return {float(1 / (1 - std::pow(double(rule.beta1), t))), float(1 / std::sqrt(1 - std::pow(double(rule.beta2), t)))};
}

/// What changes from step to step, in device memory, so that a recorded step need not be recorded again.
struct StepState {
  int64_t step = 0;
  float dense_lr = 0;
  float table_lr = 0;
  AdamCorrection dense_adam, table_adam;
  uint64_t rounding_key = 0;  // of bf16 tables, see rounding_key() in random.h
};

/// Floats of optimizer state for each element: of a row, in its record, first those of the one kind, then those of the
/// other; of an MLP's array.
DLRM_HD int64_t element_states(OptimizerKind kind) {
  return kind == OptimizerKind::adam ? 2 : kind == OptimizerKind::adagrad ? 1 : 0;
}
/// What they are called, by PyTorch and in checkpoints.
inline std::vector<std::string> element_state_names(OptimizerKind kind) {
  if (kind == OptimizerKind::adam) return {"exp_avg", "exp_avg_sq"};
  if (kind == OptimizerKind::adagrad) return {"sum"};
  return {};
}
/// Floats of optimizer state per row, outside the record.
inline int64_t row_states(OptimizerKind kind) {
  return kind == OptimizerKind::rowwise_adagrad ? 1 : 0;
}

inline std::string optimizer_name(OptimizerKind kind) {
  return std::string(kOptimizerNames[size_t(kind)]);
}

inline OptimizerKind optimizer_by_name(std::string_view name) {
  for (size_t i = 0; i < kOptimizerNames.size(); ++i)
    if (kOptimizerNames[i] == name) return OptimizerKind(i);
  fail("optimizer '", name, "' is not known to this program");
}

/// torch.optim.SGD without momentum.
DLRM_HD float sgd(float weight, float gradient, float lr) {
  return std::fma(-lr, gradient, weight);
}

/// torch.optim.Adagrad (Duchi et al., JMLR 12, 2011); `sum` is the element's sum of squared gradients.
DLRM_HD float adagrad(float weight, float gradient, float lr, float eps, float& sum) {
  sum = std::fma(gradient, gradient, sum);
  return std::fma(-lr, gradient / (std::sqrt(sum) + eps), weight);
}

/// The averages of both definitions of Adam; mean, square: exp_avg, exp_avg_sq.
DLRM_HD void adam_averages(float gradient, const OptimizerRule& rule, float& mean, float& square) {
  mean = std::fma(1 - rule.beta1, gradient - mean, mean);
  square = std::fma(1 - rule.beta2, std::fma(gradient, gradient, -square), square);
}

/// torch.optim.Adam.
DLRM_HD float adam(float weight, float gradient, float lr, const OptimizerRule& rule, AdamCorrection correction,
                   float& mean, float& square) {
  adam_averages(gradient, rule, mean, square);
  const float root = std::fma(std::sqrt(square), correction.second, rule.eps);
  return std::fma(-lr * correction.first, mean / root, weight);
}

/// torch.optim.SparseAdam, for rows: only those that a step touches move, but steps are counted for all alike.
DLRM_HD float sparse_adam(float weight, float gradient, float lr, const OptimizerRule& rule, AdamCorrection correction,
                          float& mean, float& square) {
  adam_averages(gradient, rule, mean, square);
  return std::fma(-lr * correction.first / correction.second, mean / (std::sqrt(square) + rule.eps), weight);
}

/// FBGEMM's EXACT_ROWWISE_ADAGRAD: `sum` is the row's sum of mean squared gradients. Returns the row's learning rate,
/// to be applied as sgd does.
DLRM_HD float rowwise_adagrad_lr(float mean_square, float lr, float eps, float& sum) {
  sum += mean_square;
  return lr / (std::sqrt(sum) + eps);
}

}  // namespace dlrm
