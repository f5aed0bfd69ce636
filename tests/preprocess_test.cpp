#include "data/preprocess.h"

#include <gtest/gtest.h>

#include "data/generate.h"
#include "data/split_binary.h"
#include "kernels/error.h"
#include "kernels/parallel.h"
#include "tests/criteo_rows.h"
#include "tests/temp_dir.h"

namespace dlrm {
namespace {

/// The ids of the first table after preprocessing rows whose categories are `values`.
std::vector<int64_t> ids_of(const std::vector<std::string>& values, PreprocessOptions options) {
  const TempDir dir;
  std::string rows;
  for (const std::string& value : values) rows += criteo_line("0", value);
  options.inputs = {dir.file("rows.tsv", rows)};
  options.output = dir / "out";
  options.test_fraction = 0;
  preprocess(options);
  Batch batch;
  Dataset::open(options.output).train().read(0, int64_t(values.size()), batch);
  return {batch.ids.begin(), batch.ids.begin() + int64_t(values.size())};
}

TEST(PreprocessTest, IdsFollowCountsThenValues) {
  EXPECT_EQ(ids_of({"b", "c", "a", "c", "f", "", "b", "c"}, {}), (std::vector<int64_t>{2, 1, 3, 1, 4, 0, 2, 1}));
}

TEST(PreprocessTest, RareValuesShareTheIdOfMissingOnes) {
  PreprocessOptions options;
  options.frequency_limit = 2;
  EXPECT_EQ(ids_of({"b", "c", "a", "c", "f", "", "b", "c"}, options), (std::vector<int64_t>{2, 1, 0, 1, 0, 0, 2, 1}));
}

TEST(PreprocessTest, ModuloHashesMissingLikeZero) {
  PreprocessOptions options;
  options.modulo = 10;
  EXPECT_EQ(ids_of({"b", "ffffffff", "", "a"}, options), (std::vector<int64_t>{1, 5, 0, 0}));
}

TEST(PreprocessTest, TestRowsAreTheLastAndAreCounted) {
  const TempDir dir;
  std::string first, second;
  for (int i = 0; i < 7; ++i) first += criteo_line("0", "a");
  for (int i = 0; i < 3; ++i) second += criteo_line("1", i < 1 ? "a" : "b");  // b is seen in test rows only
  PreprocessOptions options;
  options.inputs = {dir.file("day_0", first), dir.file("day_1.gz", gzip(second))};
  options.output = dir / "out";
  options.test_fraction = 0.2;
  const PreprocessSummary summary = preprocess(options);
  EXPECT_EQ(summary.train_rows, 8);
  EXPECT_EQ(summary.test_rows, 2);
  EXPECT_EQ(summary.positives, 3);
  EXPECT_EQ(summary.cardinalities, std::vector<int64_t>(26, 3));
  Batch batch;
  Dataset::open(options.output).test().read(0, 2, batch);
  EXPECT_EQ(batch.labels, (std::vector<float>{1, 1}));
  EXPECT_EQ(batch.ids[0], 2);
}

void preprocess_text(const TempDir& dir, const std::string& rows) {
  PreprocessOptions options;
  options.inputs = {dir.file("rows.tsv", rows)};
  options.output = dir / "out";
  preprocess(options);
}

TEST(PreprocessTest, BadInputLeavesNoDataSet) {
  const TempDir dir;
  EXPECT_ERROR(preprocess_text(dir, criteo_line("0", "a") + criteo_line("0", "q")), "rows.tsv: row 2, column C1");
  EXPECT_ERROR(preprocess_text(dir, criteo_line("0", "a", 38)), "rows.tsv: row 1 has 38 columns");
  EXPECT_ERROR(preprocess_text(dir, ""), "rows.tsv: is empty");
  EXPECT_FALSE(std::filesystem::exists(dir / "out/feature_spec.yaml"));
}

TEST(PreprocessTest, OptionsThatExcludeEachOtherAreAnError) {
  PreprocessOptions options;
  options.inputs = {"x"};
  options.modulo = 5;
  options.frequency_limit = 5;
  EXPECT_ERROR(preprocess(options), "--frequency-limit and --modulo exclude each other");
}

// Generated data ------------------------------------------------------------------------------------------------------

GenerateSummary generate_into(const std::string& output, int64_t rows, uint64_t seed = 1) {
  GenerateOptions options;
  options.output = output;
  options.rows = rows;
  options.seed = seed;
  return generate(options);
}

std::string all_bytes(const std::string& directory) {
  std::string bytes;
  for (const std::string split : {"train", "test"}) {
    bytes += read_file(directory + "/" + split + "/label.bin") + read_file(directory + "/" + split + "/numerical.bin");
    for (int t = 0; t < 26; ++t) bytes += read_file(directory + "/" + split + "/cat_" + std::to_string(t) + ".bin");
  }
  return bytes;
}

TEST(GenerateTest, BytesDependOnTheSeedAlone) {
  const TempDir dir;
  {
    const ThreadLimit one(1);
    generate_into(dir / "one", 20000);
  }
  {
    const ThreadLimit two(2);
    generate_into(dir / "two", 20000);
  }
  generate_into(dir / "other", 20000, 2);
  EXPECT_EQ(all_bytes(dir / "one"), all_bytes(dir / "two"));
  EXPECT_NE(all_bytes(dir / "one"), all_bytes(dir / "other"));
}

TEST(GenerateTest, PlantedModelIsRecordedAndGood) {
  const TempDir dir;
  const GenerateSummary summary = generate_into(dir / "data", 50000);
  ASSERT_TRUE(summary.planted_auc);
  EXPECT_GT(*summary.planted_auc, 0.75);
  EXPECT_LT(*summary.planted_auc, 0.9);
  EXPECT_NEAR(summary.label_rate, 0.25, 0.01);
  EXPECT_EQ(read_feature_spec(dir / "data").metadata.at("planted_auc").substr(0, 4),
            std::to_string(*summary.planted_auc).substr(0, 4));
}

/// Distinct ids over lookups in a batch of 4096, all tables at their true sizes.
double distinct_share(const std::string& shape) {
  const Generator generator(shape, 1.0, 0, 1, 1000000);
  Batch batch;
  std::vector<float> odds;
  generator.make(0, 4096, batch, odds);
  size_t distinct = 0;
  for (int64_t t = 0; t < 26; ++t) {
    std::vector<int64_t> ids(batch.ids.begin() + t * 4096, batch.ids.begin() + (t + 1) * 4096);
    std::sort(ids.begin(), ids.end());
    distinct += size_t(std::unique(ids.begin(), ids.end()) - ids.begin());
  }
  return double(distinct) / (26 * 4096);
}

TEST(GenerateTest, BatchesHaveAsManyDistinctIdsAsRealOnes) {
  EXPECT_NEAR(distinct_share("criteo-kaggle"), 0.213, 0.0213);
  EXPECT_NEAR(distinct_share("criteo-tb"), 0.151, 0.0151);
}

TEST(GenerateTest, BadOptionsAreErrors) {
  EXPECT_ERROR(generate_into("/tmp/unused", 0), "--rows: expected 1 or more, found 0");
  EXPECT_ERROR(Generator("criteo", 1, 0, 1, 10), "expected criteo-kaggle or criteo-tb, found 'criteo'");
  EXPECT_ERROR(Generator("criteo-tb", 0, 0, 1, 10), "--scale");
  EXPECT_ERROR(Generator("criteo-tb", 1, 4, 1, 10), "--max-rows-per-table");
}

TEST(GenerateTest, NoTableHasMoreRowsThanTheCap) {
  const std::vector<int64_t> whole = Generator("criteo-tb", 1, 0, 1, 10).cardinalities(),
                             capped = Generator("criteo-tb", 1, 62500000, 1, 10).cardinalities();
  int64_t rows = 0;
  for (size_t t = 0; t < whole.size(); ++t) {
    EXPECT_EQ(capped[t], std::min<int64_t>(whole[t], 62500000));
    rows += capped[t];
  }
  EXPECT_NEAR(double(rows), 295e6, 0.5e6);
}

}  // namespace
}  // namespace dlrm
