#include "data/criteo_tsv.h"

#include "kernels/error.h"

namespace dlrm {
namespace {

constexpr int kColumns = 1 + kCriteoIntegers + kCriteoCategories;

std::string column_name(int column) {
  if (column == 0) return "label";
  return column <= kCriteoIntegers ? text("I", column) : text("C", column - kCriteoIntegers);
}

/// A field as it can be shown: no control characters, not too long.
std::string shown(std::string_view field) {
  std::string result;
  for (char c : field.substr(0, 32)) {
    char code[8];
    std::snprintf(code, sizeof code, "\\x%02x", unsigned(static_cast<unsigned char>(c)));
    result += c >= ' ' && c <= '~' ? std::string(1, c) : std::string(code);
  }
  return result + (field.size() > 32 ? "..." : "");
}

/// The value of a hexadecimal digit, 16 for anything else.
constexpr std::array<uint8_t, 256> make_hex_digits() {
  std::array<uint8_t, 256> digits{};
  for (auto& digit : digits) digit = 16;
  for (int i = 0; i < 10; ++i) digits[size_t('0' + i)] = uint8_t(i);
  for (int i = 0; i < 6; ++i) digits[size_t('a' + i)] = digits[size_t('A' + i)] = uint8_t(10 + i);
  return digits;
}
constexpr std::array<uint8_t, 256> kHexDigits = make_hex_digits();

bool parse_integer(std::string_view field, int32_t& value) {
  const bool negative = field[0] == '-';
  const std::string_view digits = field.substr(negative);
  if (digits.empty() || digits.size() > 10) return false;
  int64_t magnitude = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return false;
    magnitude = 10 * magnitude + (c - '0');
  }
  const int64_t number = negative ? -magnitude : magnitude;
  value = int32_t(number);
  return number == value;
}

bool parse_category(std::string_view field, uint32_t& value) {
  if (field.size() > 8) return false;
  uint32_t number = 0, bad = 0;
  for (char c : field) {
    const uint32_t digit = kHexDigits[static_cast<unsigned char>(c)];
    bad |= digit;
    number = number << 4 | (digit & 15);
  }
  value = number;
  return bad < 16;
}

}  // namespace

CriteoRow parse_criteo_row(std::string_view line, const std::string& file, int64_t row) {
  CriteoRow result;
  const auto bad = [&](int column, const char* expected, std::string_view field) {
    const char* hint = !field.empty() && field.back() == '\r' ? ". Hint: lines end in CR LF" : "";
    fail(file, ": row ", row, ", column ", column_name(column), ": expected ", expected, ", found '", shown(field), "'",
         hint);
  };
  int column = 0;
  const char* at = line.data();
  const char* const end = at + line.size();
  for (;; ++column) {
    const char* stop = at;
    while (stop < end && *stop != '\t') ++stop;
    const std::string_view field(at, size_t(stop - at));
    if (column >= kColumns) {
      // counted below
    } else if (column == 0) {
      if (field != "0" && field != "1") bad(column, "0 or 1", field);
      result.label = field == "1";
    } else if (!field.empty() && column <= kCriteoIntegers) {
      const int i = column - 1;
      if (!parse_integer(field, result.integers[size_t(i)])) bad(column, "a 32-bit integer", field);
      result.integers_present |= 1u << i;
    } else if (!field.empty()) {
      const int i = column - 1 - kCriteoIntegers;
      if (!parse_category(field, result.categories[size_t(i)])) bad(column, "up to 8 hexadecimal digits", field);
      result.categories_present |= 1u << i;
    }
    if (stop == end) break;
    at = stop + 1;
  }
  check(column + 1 == kColumns, file, ": row ", row, " has ", column + 1, " columns, expected ", kColumns);
  return result;
}

}  // namespace dlrm
