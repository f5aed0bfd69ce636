// Tables and numbers as people read them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm {

/// A header line, a rule and a line per row; columns two spaces apart. A column is right-aligned where each of its
/// cells is empty or begins as a number does. Throws Error where a row has more or fewer cells than there are headers.
std::string table_text(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows);

/// "448 B", "1.23 GiB".
std::string human_bytes(size_t bytes);

/// "32,709,138".
std::string with_commas(int64_t value);

/// With so many digits after the point: fixed(0.80254, 4) is "0.8025".
std::string fixed(double value, int digits);

}  // namespace dlrm
