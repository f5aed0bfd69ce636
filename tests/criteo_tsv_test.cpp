#include "data/criteo_tsv.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>

#include "data/text_input.h"
#include "kernels/error.h"
#include "tests/criteo_rows.h"
#include "tests/temp_dir.h"

namespace dlrm {
namespace {

CriteoRow parse(std::string line) {
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return parse_criteo_row(line, "day_0", 7);
}

/// Replaces one tab-separated field.
std::string with_field(int column, const std::string& value) {
  std::string line = criteo_line("0", "ab"), result;
  int at = 0;
  for (size_t begin = 0; begin < line.size(); ++at) {
    const size_t end = line.find_first_of("\t\n", begin);
    result += (at == column ? value : line.substr(begin, end - begin)) + line[end];
    begin = end + 1;
  }
  return result;
}

TEST(CriteoTsvTest, ReadsARow) {
  const CriteoRow row = parse(with_field(1, "-2"));
  EXPECT_FALSE(row.label);
  EXPECT_EQ(row.integers[0], -2);
  EXPECT_EQ(row.integers[12], 1);
  EXPECT_EQ(row.categories[25], 0xabu);
  EXPECT_EQ(row.integers_present, 0x1fffu);
  EXPECT_EQ(row.categories_present, 0x3ffffffu);
}

TEST(CriteoTsvTest, EmptyFieldsAreMissing) {
  const CriteoRow row = parse("1" + std::string(39, '\t'));
  EXPECT_TRUE(row.label);
  EXPECT_EQ(row.integers_present, 0u);
  EXPECT_EQ(row.categories_present, 0u);
}

TEST(CriteoTsvTest, ReadsTheLargestValues) {
  EXPECT_EQ(parse(with_field(13, "2147483647")).integers[12], INT32_MAX);
  EXPECT_EQ(parse(with_field(13, "-2147483648")).integers[12], INT32_MIN);
  EXPECT_EQ(parse(with_field(14, "FFFFffff")).categories[0], 0xffffffffu);
}

/// As a field of hexadecimal digits or of an integer is defined, one character after the other.
std::optional<int64_t> naive_value(const std::string& field, bool category) {
  const bool negative = !category && field[0] == '-';
  const std::string digits = field.substr(negative);
  if (digits.empty() || digits.size() > (category ? 8u : 10u)) return {};
  for (char c : digits)
    if (category ? !std::isxdigit(static_cast<unsigned char>(c)) : !std::isdigit(static_cast<unsigned char>(c)))
      return {};
  const int64_t value = std::stoll(digits, nullptr, category ? 16 : 10) * (negative ? -1 : 1);
  if (!category && value != int32_t(value)) return {};
  return value;
}

TEST(CriteoTsvTest, FieldsOfAnyCharactersAreReadAsDefined) {
  const std::string characters = "0123456789abcdefABCDEF-/:@G`g \r\x01\x10\x19\x7f\x80\xb5\xff";
  std::mt19937 random(1);
  int good = 0;
  for (int i = 0; i < 100000; ++i) {
    std::string field;
    const size_t length = 1 + random() % 11, usual = random() % 4 ? 10 + random() % 13 : characters.size();
    for (size_t k = 0; k < length; ++k) field += characters[random() % usual];
    if (random() % 3 == 0) field[0] = '-';
    const int columns[] = {1, 7, 13, 14, 30, 39};
    const int column = columns[random() % 6];
    const auto expected = naive_value(field, column > 13);
    if (!expected) {
      ASSERT_THROW(parse(with_field(column, field)), Error) << field;
      continue;
    }
    const CriteoRow row = parse(with_field(column, field));
    const int64_t found = column > 13 ? int64_t(row.categories[size_t(column - 14)]) : row.integers[size_t(column - 1)];
    ASSERT_EQ(found, *expected) << field;
    ++good;
  }
  EXPECT_GT(good, 10000);
}

TEST(CriteoTsvTest, WrongColumnCountsAreErrors) {
  EXPECT_ERROR(parse(criteo_line("0", "ab", 38)), "day_0: row 7 has 38 columns, expected 40");
  EXPECT_ERROR(parse(criteo_line("0", "ab", 41)), "day_0: row 7 has 41 columns, expected 40");
  EXPECT_ERROR(parse(""), "row 7, column label", "found ''");
}

TEST(CriteoTsvTest, BadFieldsNameRowAndColumn) {
  EXPECT_ERROR(parse(criteo_line("2", "ab")), "day_0: row 7, column label: expected 0 or 1, found '2'");
  EXPECT_ERROR(parse(with_field(3, "1x")), "row 7, column I3: expected a 32-bit integer, found '1x'");
  EXPECT_ERROR(parse(with_field(3, "-")), "column I3");
  EXPECT_ERROR(parse(with_field(4, "2147483648")), "column I4", "found '2147483648'");
  EXPECT_ERROR(parse(with_field(4, "99999999999999999999")), "column I4");
  EXPECT_ERROR(parse(with_field(29, "xyz")), "row 7, column C16: expected up to 8 hexadecimal digits, found 'xyz'");
  EXPECT_ERROR(parse(with_field(29, "123456789")), "column C16");
  EXPECT_ERROR(parse(with_field(14, std::string("a\0b", 3))), "column C1", "found 'a\\x00b'");
  EXPECT_ERROR(parse(with_field(39, "ab\r")), "column C26", "Hint: lines end in CR LF");
}

TEST(CriteoTsvTest, NumericalFeatureIsLogOfXPlusThree) {
  EXPECT_FLOAT_EQ(numerical_feature(0, true), std::log(3.0f));
  EXPECT_FLOAT_EQ(numerical_feature(-2, true), 0.0f);
  EXPECT_EQ(numerical_feature(-3, true), 0.0f);
  EXPECT_EQ(numerical_feature(7, false), 0.0f);
}

std::vector<std::string> lines_of(const std::string& path) {
  TextInput input(path);
  std::vector<std::string> lines;
  std::string_view line;
  while (input.next(line)) lines.emplace_back(line);
  return lines;
}

TEST(TextInputTest, PlainAndGzipGiveTheSameLines) {
  const TempDir dir;
  std::string content;
  for (int i = 0; i < 100000; ++i) content += "line " + std::to_string(i) + std::string(size_t(i % 50), 'x') + "\n";
  const auto plain = lines_of(dir.file("plain", content));
  EXPECT_EQ(plain.size(), 100000u);
  EXPECT_EQ(plain, lines_of(dir.file("zipped", gzip(content))));
  const size_t half = content.size() / 2;  // two members, as `cat a.gz b.gz` makes them
  EXPECT_EQ(plain, lines_of(dir.file("members", gzip(content.substr(0, half)) + gzip(content.substr(half)))));
}

TEST(TextInputTest, LastLineNeedsNoNewline) {
  const TempDir dir;
  EXPECT_EQ(lines_of(dir.file("a", "one\ntwo")), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(lines_of(dir.file("b", "")), std::vector<std::string>{});
  EXPECT_EQ(lines_of(dir.file("c", "\n\n")), (std::vector<std::string>{"", ""}));
}

TEST(TextInputTest, LineLongerThanABlockIsWhole) {
  const TempDir dir;
  const std::string long_line(5 << 20, 'x');
  EXPECT_EQ(lines_of(dir.file("a", long_line + "\nb\n")), (std::vector<std::string>{long_line, "b"}));
}

TEST(TextInputTest, TruncatedGzipIsAnErrorAtEveryLength) {
  const TempDir dir;
  const std::string whole = gzip(criteo_line("0", "ab") + criteo_line("1", "cd"));
  for (size_t bytes = 2; bytes < whole.size(); ++bytes) {
    const std::string path = dir.file("cut.gz", whole.substr(0, bytes));
    EXPECT_ERROR(lines_of(path), path, "gzip");
  }
}

TEST(TextInputTest, DamagedGzipIsAnError) {
  const TempDir dir;
  std::string damaged = gzip(criteo_line("0", "ab"));
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  EXPECT_ERROR(lines_of(dir.file("bad.gz", damaged)), "bad.gz", "gzip data is damaged");
}

TEST(TextInputTest, MissingFileIsAnError) {
  EXPECT_ERROR(lines_of("/no/such/file"), "/no/such/file: cannot be opened");
}

TEST(CriteoSampleTest, HasTheKnownFacts) {
  DLRM_SKIP_WITHOUT_SAMPLE();
  TextInput input(criteo_sample());
  std::string_view line;
  int64_t rows = 0, clicks = 0;
  std::vector<std::set<uint32_t>> values(kCriteoCategories);
  while (input.next(line)) {
    const CriteoRow row = parse_criteo_row(line, input.path(), input.line_number());
    ++rows;
    clicks += row.label;
    for (size_t c = 0; c < values.size(); ++c)
      if (row.categories_present >> c & 1) values[c].insert(row.categories[c]);
  }
  EXPECT_EQ(rows, 10000);
  EXPECT_EQ(clicks, 265);
  const std::vector<size_t> expected = {2755, 1796, 2704, 724, 1452, 3,  1934, 518,  20,   2550, 1451, 3019, 9,
                                        355,  1127, 29,   3,   166,  12, 2799, 2088, 2692, 1260, 2136, 29,   24};
  for (size_t c = 0; c < values.size(); ++c) EXPECT_EQ(values[c].size(), expected[c]) << "C" << c + 1;
}

}  // namespace
}  // namespace dlrm
