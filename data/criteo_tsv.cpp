#include "data/criteo_tsv.h"

#include <bit>
#include <cstring>

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

// Fields of up to 8 characters, all at once in the bytes of a word, the first one lowest
// -------------------------------

constexpr uint64_t kEachByte = 0x0101010101010101;

/// How many characters come before the first tab; 8 without one.
int before_tab(uint64_t word) {
  const uint64_t x = word ^ '\t' * kEachByte;
  return std::countr_zero((x - kEachByte) & ~x & 0x80 * kEachByte) / 8;
}

/// The first `length` characters at the upper end of the word, '0' before them.
uint64_t right_aligned(uint64_t word, int length) {
  return length == 0   ? '0' * kEachByte
         : length == 8 ? word
                       : word << (64 - 8 * length) | '0' * kEachByte >> (8 * length);
}

/// The value of 8 hexadecimal digits; false where some character is none.
bool parse_8_hex_digits(uint64_t word, uint32_t& value) {
  const uint64_t letters = (word >> 6 & kEachByte) * 0xff, nibbles = word & 0x0f * kEachByte;
  const uint64_t high = word & 0xf0 * kEachByte & ~(letters & 0x20 * kEachByte);  // upper case as lower case
  const uint64_t wrong_high = high ^ ((letters & 0x40 * kEachByte) | (~letters & 0x30 * kEachByte));
  // The bit of 16 is set: of digits above 9, of letters after f; not set: of the character before a.
  const uint64_t too_large = (nibbles + ((letters & 9 * kEachByte) | (~letters & 6 * kEachByte))) & 0x10 * kEachByte;
  const uint64_t too_small = ~(nibbles + 15 * kEachByte) & letters & 0x10 * kEachByte;
  uint64_t digits = __builtin_bswap64(nibbles + (letters & 9 * kEachByte));  // the last one lowest
  digits = (digits | digits >> 4) & 0x00ff00ff00ff00ff;
  digits = (digits | digits >> 8) & 0x0000ffff0000ffff;
  value = uint32_t(digits | digits >> 16);
  return (wrong_high | too_large | too_small) == 0;
}

/// The value of 8 decimal digits; false where some character is none.
bool parse_8_digits(uint64_t word, uint32_t& value) {
  if ((word & 0xf0 * kEachByte) != 0x30 * kEachByte || ((word + 6 * kEachByte) & 0xf0 * kEachByte) != 0x30 * kEachByte)
    return false;
  word = (word & 0x0f * kEachByte) * (1 + (10 << 8)) >> 8 & 0x00ff00ff00ff00ff;  // pairs of digits
  word = word * (1 + (100ull << 16)) >> 16 & 0x0000ffff0000ffff;                 // fours
  value = uint32_t(word * (1 + (10000ull << 32)) >> 32);
  return true;
}

/// Where the field at `at` ends, if it is one of those that the words above can hold and is well-formed; else null.
const char* quick_category(const char* at, const char* end, uint32_t& value, bool& present) {
  if (end - at < 9) return nullptr;
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  const int length = before_tab(word);
  present = length > 0;
  return at[length] == '\t' && parse_8_hex_digits(right_aligned(word, length), value) ? at + length : nullptr;
}
const char* quick_integer(const char* at, const char* end, int32_t& value, bool& present) {
  if (end - at < 10) return nullptr;
  const bool negative = *at == '-';
  at += negative;
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  const int length = before_tab(word);
  present = length > 0;
  uint32_t magnitude = 0;
  if (at[length] != '\t' || (negative && length == 0) || !parse_8_digits(right_aligned(word, length), magnitude))
    return nullptr;
  value = negative ? -int32_t(magnitude) : int32_t(magnitude);
  return at + length;
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
    if (column > 0 && column < kColumns) {  // the usual fields; any other is read again below
      const char* stop = nullptr;
      bool present = false;
      if (column <= kCriteoIntegers) {
        const int i = column - 1;
        stop = quick_integer(at, end, result.integers[size_t(i)], present);
        if (stop) result.integers_present |= uint32_t(present) << i;
      } else {
        const int i = column - 1 - kCriteoIntegers;
        stop = quick_category(at, end, result.categories[size_t(i)], present);
        if (stop) result.categories_present |= uint32_t(present) << i;
      }
      if (stop) {
        at = stop + 1;
        continue;
      }
    }
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
