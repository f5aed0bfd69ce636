#include "dlrm/table_text.h"

#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <ostream>

namespace dlrm {

std::string with_commas(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') result += ',';
    result += digits[i];
  }
  return result;
}

std::string human_bytes(size_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = double(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %s", value, kUnits[unit]);
  return text;
}

void print_table(std::ostream& out, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::string& cell : header) widths.push_back(cell.size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  const auto print_row = [&](const std::vector<std::string>& row) {
    for (size_t c = 0; c < row.size(); ++c)
      out << (c ? "  " : "") << (c ? std::right : std::left) << std::setw(int(widths[c])) << row[c];
    out << "\n";
  };
  print_row(header);
  std::vector<std::string> rule;
  for (size_t width : widths) rule.emplace_back(width, '-');
  print_row(rule);
  for (const auto& row : rows) print_row(row);
}

}  // namespace dlrm
