#include "dlrm/table_text.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "kernels/error.h"

namespace dlrm {
namespace {

bool begins_as_number(const std::string& cell) {
  const size_t start = cell.find_first_not_of("+-.");
  return start == std::string::npos || std::isdigit(static_cast<unsigned char>(cell[start]));
}

struct Column {
  size_t width;
  bool is_right_aligned;
};

std::string line(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string out;
  for (size_t c = 0; c < columns.size(); ++c) {
    const std::string space(columns[c].width - cells[c].size(), ' ');
    out += (c == 0 ? "" : "  ") + (columns[c].is_right_aligned ? space + cells[c] : cells[c] + space);
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + '\n';
}

}  // namespace

std::string table_text(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows) {
  std::vector<Column> columns;
  std::vector<std::string> rule;
  for (size_t c = 0; c < headers.size(); ++c) {
    Column column{headers[c].size(), !rows.empty()};
    for (const auto& row : rows) {
      check(row.size() == headers.size(), "table: expected ", headers.size(), " cells in a row, found ", row.size());
      column.width = std::max(column.width, row[c].size());
      column.is_right_aligned = column.is_right_aligned && begins_as_number(row[c]);
    }
    columns.push_back(column);
    rule.emplace_back(column.width, '-');
  }
  std::string out = line(headers, columns) + line(rule, columns);
  for (const auto& row : rows) out += line(row, columns);
  return out;
}

std::string human_bytes(size_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = double(bytes) / 1024.0;
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  for (; value >= 1023.995; ++unit) value /= 1024.0;  // would be printed as 1024.00
  return fixed(value, 2) + " " + units[unit];
}

std::string with_commas(int64_t value) {
  std::string digits = std::to_string(value);
  const ptrdiff_t first = value < 0 ? 1 : 0;
  for (ptrdiff_t at = ptrdiff_t(digits.size()) - 3; at > first; at -= 3) digits.insert(size_t(at), 1, ',');
  return digits;
}

std::string fixed(double value, int digits) {
  return (std::ostringstream() << std::fixed << std::setprecision(digits) << value).str();
}

}  // namespace dlrm
