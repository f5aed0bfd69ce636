// One row of Criteo's click logs: label, 13 integers, 26 hexadecimal categories, separated by tabs; an empty field is
// missing.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlrm {

inline constexpr int kCriteoIntegers = 13;
inline constexpr int kCriteoCategories = 26;

struct CriteoRow {
  bool label = false;
  std::array<int32_t, kCriteoIntegers> integers;
  std::array<uint32_t, kCriteoCategories> categories;
  uint32_t integers_present = 0, categories_present = 0;  // bit i: field i is there
};

/// Throws Error "FILE: row R, column C16: expected ..., found ..." where the line is anything else.
CriteoRow parse_criteo_row(std::string_view line, const std::string& file, int64_t row);

/// How models see an integer feature; recorded with data sets and checkpoints.
inline constexpr const char* kNumericalTransform = "ln(x+3)";
/// ln(x + 3); missing or x <= -3: 0.
inline float numerical_feature(int32_t value, bool present) {
  return present && value > -3 ? float(std::log(double(value) + 3.0)) : 0.0f;
}

}  // namespace dlrm
