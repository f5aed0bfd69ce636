// The optimizers' arithmetic, one element at a time, in PyTorch's definitions. Fused multiply-adds are spelled out, so
// that every kernel and every codec rounds the same way.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/error.h"
#include "kernels/portable.h"

namespace dlrm {

enum class OptimizerKind : int32_t { sgd, adagrad, rowwise_adagrad };

inline constexpr std::array<std::string_view, 3> kOptimizerNames = {"sgd", "adagrad", "rowwise_adagrad"};

struct OptimizerRule {
  OptimizerKind kind = OptimizerKind::sgd;
  float eps = 0;
};

/// What changes from step to step, in device memory, so that a recorded step need not be recorded again.
struct StepState {
  int64_t step = 0;
  float dense_lr = 0;
  float table_lr = 0;
};

/// Floats of optimizer state that follow each element of a row in its record.
inline int64_t element_states(OptimizerKind kind) {
  return kind == OptimizerKind::adagrad ? 1 : 0;
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

/// FBGEMM's EXACT_ROWWISE_ADAGRAD: `sum` is the row's sum of mean squared gradients. Returns the row's learning rate,
/// to be applied as sgd does.
DLRM_HD float rowwise_adagrad_lr(float mean_square, float lr, float eps, float& sum) {
  sum += mean_square;
  return lr / (std::sqrt(sum) + eps);
}

}  // namespace dlrm
