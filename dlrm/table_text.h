// Aligned tables and readable numbers for the terminal.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace dlrm {

/// "1,234,567"
std::string with_commas(int64_t value);
/// "448 B", "1.23 GiB"
std::string human_bytes(size_t bytes);
/// A header line, a rule, and the rows; the first column to the left, the others to the right.
void print_table(std::ostream& out, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows);

}  // namespace dlrm
