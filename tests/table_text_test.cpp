#include "dlrm/table_text.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/error.h"

namespace dlrm {
namespace {

TEST(TableTextTest, AlignsWordsLeftAndNumbersRight) {
  EXPECT_EQ(table_text({"table", "rows", "bytes"}, {{"cat_0", "7", "448 B"}, {"c", "1,000", ""}}),
            "table   rows  bytes\n"
            "-----  -----  -----\n"
            "cat_0      7  448 B\n"
            "c      1,000\n");
}
TEST(TableTextTest, WithoutRowsPrintsTheHeaders) {
  EXPECT_EQ(table_text({"a", "bc"}, {}), "a  bc\n-  --\n");
}
TEST(TableTextTest, ARowWithAMissingCellIsAnError) {
  EXPECT_THROW(table_text({"a", "b"}, {{"1"}}), Error);
}

TEST(HumanBytesTest, PicksTheUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1'320'702'444), "1.23 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<size_t>::max()), "16.00 EiB");
}
TEST(HumanBytesTest, NeverPrints1024OfAUnit) {
  EXPECT_EQ(human_bytes((size_t(1) << 20) - 1), "1.00 MiB");
}

TEST(WithCommasTest, SeparatesThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(32'709'138), "32,709,138");
  EXPECT_EQ(with_commas(-100), "-100");
  EXPECT_EQ(with_commas(-1000), "-1,000");
  EXPECT_EQ(with_commas(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(FixedTest, RoundsToTheDigits) {
  EXPECT_EQ(fixed(0.80254, 4), "0.8025");
  EXPECT_EQ(fixed(2.0, 0), "2");
}

}  // namespace
}  // namespace dlrm
