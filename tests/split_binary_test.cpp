#include "data/split_binary.h"

#include <gtest/gtest.h>

#include <cstring>

#include "data/half.h"
#include "data/read_ahead.h"
#include "kernels/error.h"
#include "tests/dataset.h"
#include "tests/temp_dir.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

TEST(HalfTest, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const bool quieted = (h & 0x7c00) == 0x7c00 && (h & 0x3ff) != 0;  // a signalling NaN becomes quiet
    EXPECT_EQ(float_to_half(half_to_float(uint16_t(h))), quieted ? h | 0x200 : h);
  }
}

TEST(HalfTest, RoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.0f), 0x3c00);
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);             // tie, to even
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above the tie
  EXPECT_EQ(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02);         // tie, to even
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(0x1p-25f), 0x0000);
  EXPECT_EQ(float_to_half(0x1p-24f), 0x0001);
}

TEST(SplitBinaryTest, RowsSurviveTheRoundTrip) {
  const TempDir dir;
  const std::vector<int64_t> cardinalities = {5, 126, 127, 32766, 32767, 100000};
  make_dataset(dir.path(), 100, 17, cardinalities);
  const Dataset data = Dataset::open(dir.path());
  ASSERT_EQ(data.train().samples(), 100);
  ASSERT_EQ(data.test().samples(), 17);
  Batch found;
  data.train().read(30, 40, found);
  const Batch expected = sample_rows(cardinalities, 3, 30, 40);
  EXPECT_EQ(found.labels, expected.labels);
  EXPECT_EQ(found.numerical, expected.numerical);
  EXPECT_EQ(found.ids, expected.ids);
}

TEST(SplitBinaryTest, FilesAreAsNvidiaWritesThem) {
  const TempDir dir;
  SplitBinaryWriter writer(dir.path(), make_feature_spec(1, {126, 127, 32767}));
  Batch batch;
  batch.size = 2;
  batch.labels = {1, 0};
  batch.numerical = {1.0f, -2.0f};
  batch.ids = {3, 125, 3, 126, 258, 32766};
  writer.append("train", batch);
  writer.finish();
  EXPECT_EQ(read_file(dir / "train/label.bin"), std::string("\x01\x00", 2));
  EXPECT_EQ(read_file(dir / "train/numerical.bin"), std::string("\x00\x3c\x00\xc0", 4));
  EXPECT_EQ(read_file(dir / "train/cat_0.bin"), std::string("\x03\x7d", 2));
  EXPECT_EQ(read_file(dir / "train/cat_1.bin"), std::string("\x03\x00\x7e\x00", 4));
  EXPECT_EQ(read_file(dir / "train/cat_2.bin"), std::string("\x02\x01\x00\x00\xfe\x7f\x00\x00", 8));
  EXPECT_EQ(fs::file_size(dir / "test/label.bin"), 0u);
}

TEST(SplitBinaryTest, SpecSurvivesTheRoundTrip) {
  const TempDir dir;
  make_dataset(dir.path(), 4, 4, {5, 200});
  const FeatureSpec spec = read_feature_spec(dir.path());
  EXPECT_EQ(spec.numerical, (std::vector<std::string>{"num_0", "num_1", "num_2"}));
  EXPECT_EQ(spec.tables[1].cardinality, 200);
  EXPECT_EQ(spec.tables[1].dtype, "int16");
  EXPECT_EQ(spec.splits.at("test").tables[1], "test/cat_1.bin");
  EXPECT_EQ(spec.metadata.at("numerical_transform"), "ln(x+3)");
}

// As yaml.dump of NVIDIA's tools writes it: keys sorted, anchors, feature order only in channel_spec.
constexpr const char* kNvidiaSpec = R"(channel_spec:
  categorical:
  - cat_0.bin
  - cat_1.bin
  label:
  - label
  numerical: &id001
  - num_0
  - num_1
feature_spec:
  cat_1.bin:
    cardinality: 300
    dtype: int16
  cat_0.bin:
    cardinality: 3
    dtype: int8
  label:
    dtype: bool
  num_0:
    dtype: float16
  num_1:
    dtype: float16
metadata: {}
source_spec:
  test:
  - &id002
    features: *id001
    files:
    - test/numerical.bin
    type: split_binary
  - features:
    - label
    files:
    - test/label.bin
    type: split_binary
  - features:
    - cat_0.bin
    files:
    - test/cat_0.bin
    type: split_binary
  - features:
    - cat_1.bin
    files:
    - test/cat_1.bin
    type: split_binary
  train:
  - features: *id001
    files:
    - train/numerical.bin
    type: split_binary
  - features:
    - label
    files:
    - train/label.bin
    type: split_binary
  - features:
    - cat_0.bin
    files:
    - train/cat_0.bin
    type: split_binary
  - features:
    - cat_1.bin
    files:
    - train/cat_1.bin
    type: split_binary
)";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

FeatureSpec read_spec(const TempDir& dir, const std::string& text) {
  dir.file(kFeatureSpecName, text);
  return read_feature_spec(dir.path());
}

TEST(FeatureSpecTest, ReadsNvidias) {
  const TempDir dir;
  const FeatureSpec spec = read_spec(dir, kNvidiaSpec);
  EXPECT_EQ(spec.tables[0].name, "cat_0.bin");
  EXPECT_EQ(spec.tables[1].cardinality, 300);
  EXPECT_EQ(spec.splits.at("train").numerical, "train/numerical.bin");
}

TEST(FeatureSpecTest, BadSpecsAreErrorsThatNameTheFile) {
  const TempDir dir;
  const auto bad = [&](const std::string& from, const std::string& to, const std::string& expected) {
    EXPECT_ERROR(read_spec(dir, changed(kNvidiaSpec, from, to)), dir / kFeatureSpecName, expected);
  };
  bad("  - cat_1.bin\n  label", "  - cat_7.bin\n  label", "feature 'cat_7.bin' of channel_spec is missing");
  bad("  - cat_1.bin\n  label", "  label", "feature 'cat_1.bin' is in no channel");
  bad("  - cat_1.bin\n  label", "  - cat_0.bin\n  label", "feature 'cat_0.bin' stands there twice");
  bad("dtype: int16", "dtype: int17", "expected int8, int16, int32, found 'int17'");
  bad("cardinality: 300", "cardinality: 0", "expected 1 .. 2^31, found 0");
  bad("cardinality: 300", "cardinality: many", "expected a number, found 'many'");
  bad("    cardinality: 300\n", "", "cardinality of 'cat_1.bin' is missing");
  bad("cardinality: 300", "cardinality: 300\n    hotness: 3", "expected 1, split_binary holds one id per sample");
  bad("type: split_binary", "type: csv", "expected split_binary, found 'csv'");
  bad("  - features:\n    - cat_1.bin\n    files:\n    - test/cat_1.bin\n    type: split_binary\n", "",
      "feature 'cat_1.bin' has no file");
  bad("    - cat_1.bin\n    files:\n    - test/cat_1.bin", "    - cat_9\n    files:\n    - test/cat_1.bin",
      "unknown feature 'cat_9'");
  bad("  train:", "  training:", "expected train and test, found 'training'");
  bad("channel_spec:", "channels:", "channel_spec: expected a mapping");
  bad("metadata: {}", "metadata: {", "not YAML");
}

TEST(FeatureSpecTest, TruncatedSpecIsNeverACrash) {
  const TempDir dir;
  const std::string whole = kNvidiaSpec;
  for (size_t bytes = 0; bytes + 60 < whole.size(); ++bytes)
    EXPECT_THROW(read_spec(dir, whole.substr(0, bytes)), Error);
}

TEST(DatasetTest, MissingFileIsAnError) {
  const TempDir dir;
  make_dataset(dir.path(), 8, 4, {5, 200});
  fs::remove(dir / "train/cat_1.bin");
  EXPECT_ERROR(Dataset::open(dir.path()), dir / "train/cat_1.bin", "cannot be read");
}

TEST(DatasetTest, FilesOfDifferentLengthAreAnError) {
  const TempDir dir;
  make_dataset(dir.path(), 8, 4, {5, 200});
  fs::resize_file(dir / "train/cat_1.bin", 15);
  EXPECT_ERROR(Dataset::open(dir.path()), dir / "train/cat_1.bin", "15 bytes, expected 16");
}

TEST(DatasetTest, MissingSpecIsAnError) {
  const TempDir dir;
  EXPECT_ERROR(Dataset::open(dir.path()), "feature_spec.yaml: cannot be read");
}

/// Puts one value into a column of 32-bit ids of a table with 100,000 rows, and reads it.
void read_with_id(int32_t id) {
  const TempDir dir;
  make_dataset(dir.path(), 8, 4, {100000});
  std::string bytes = read_file(dir / "train/cat_0.bin");
  std::memcpy(&bytes[5 * 4], &id, 4);
  dir.file("train/cat_0.bin", bytes);
  Batch batch;
  Dataset::open(dir.path()).train().read(2, 6, batch);
}

TEST(DatasetTest, IdOutsideItsTableIsAnErrorThatNamesFileAndSample) {
  EXPECT_ERROR(read_with_id(-1), "train/cat_0.bin: sample 5: id -1, expected 0 .. 99999");
  EXPECT_ERROR(read_with_id(100000), "train/cat_0.bin: sample 5: id 100000, expected 0 .. 99999");
  EXPECT_ERROR(read_with_id(INT32_MIN), "train/cat_0.bin: sample 5: id -2147483648");  // the bits of 2^31
  EXPECT_NO_THROW(read_with_id(99999));
}

TEST(DatasetTest, LabelThatIsNoLabelIsAnError) {
  const TempDir dir;
  make_dataset(dir.path(), 8, 4, {100});
  std::string labels = read_file(dir / "train/label.bin");
  labels[3] = 2;
  dir.file("train/label.bin", labels);
  Batch batch;
  EXPECT_ERROR(Dataset::open(dir.path()).train().read(0, 8, batch),
               "train/label.bin: sample 3: label 2, expected 0 or 1");
}

TEST(DatasetTest, NonFiniteFeatureIsAnError) {
  const TempDir dir;
  make_dataset(dir.path(), 8, 4, {100});
  std::string halves = read_file(dir / "train/numerical.bin");
  halves[2 * (4 * 3 + 1) + 1] = '\x7c';
  dir.file("train/numerical.bin", halves);
  Batch batch;
  EXPECT_ERROR(Dataset::open(dir.path()).train().read(0, 8, batch), "numerical.bin: sample 4, numerical feature 1");
}

TEST(DatasetTest, AWholeDataSetIsNotOverwritten) {
  const TempDir dir;
  make_dataset(dir.path(), 8, 4, {100});
  EXPECT_ERROR(make_dataset(dir.path(), 8, 4, {100}), "holds a data set already");
}

TEST(DatasetTest, FullDiskIsAnErrorThatNamesTheFile) {
  const TempDir dir;
  SplitBinaryWriter writer(dir.path(), make_feature_spec(1, {5}));
  fs::remove(dir / "train/cat_0.bin");
  fs::create_symlink("/dev/full", dir / "train/cat_0.bin");
  SplitBinaryWriter full(dir.path(), make_feature_spec(1, {5}));
  EXPECT_ERROR(
      {
        for (int i = 0; i < 100; ++i) full.append("train", sample_rows({5}, 1, 0, 10000));
        full.finish();
      },
      "train/cat_0.bin: cannot be written");
  EXPECT_FALSE(fs::exists(dir / kFeatureSpecName));
}

// Read-ahead ----------------------------------------------------------------------------------------------------------

/// The first samples and sizes of the batches of some steps.
std::vector<std::pair<int64_t, int64_t>> batches_of(const Split& split, int64_t batch, int64_t first, int64_t end) {
  ReadAhead batches(split, batch, first, end);
  std::vector<std::pair<int64_t, int64_t>> result;
  while (const Batch* next = batches.next()) result.emplace_back(next->first_sample, next->size);
  return result;
}

TEST(ReadAheadTest, EveryEpochServesEverySampleOnce) {
  for (int64_t samples : {1, 5, 15, 16, 17, 32}) {
    const TempDir dir;
    make_dataset(dir.path(), samples, 1, {5});
    const Dataset data = Dataset::open(dir.path());
    const int64_t steps = (samples + 15) / 16;
    int64_t next = 0;
    for (const auto& [first, size] : batches_of(data.train(), 16, 0, 2 * steps)) {
      EXPECT_EQ(first, next % samples);
      next += size;
    }
    EXPECT_EQ(next, 2 * samples);
  }
}

TEST(ReadAheadTest, ABatchDependsOnItsStepAlone) {
  const TempDir dir;
  make_dataset(dir.path(), 50, 1, {5});
  const Dataset data = Dataset::open(dir.path());
  const auto all = batches_of(data.train(), 16, 0, 12);
  for (int64_t first = 0; first <= 12; ++first)
    EXPECT_EQ(batches_of(data.train(), 16, first, 12), std::vector(all.begin() + first, all.end()));
}

TEST(ReadAheadTest, ReadErrorsReachTheReader) {
  const TempDir dir;
  make_dataset(dir.path(), 64, 1, {5});
  std::string labels = read_file(dir / "train/label.bin");
  labels[40] = 9;
  dir.file("train/label.bin", labels);
  const Dataset data = Dataset::open(dir.path());
  ReadAhead batches(data.train(), 16, 0, 4);
  EXPECT_NE(batches.next(), nullptr);
  EXPECT_NE(batches.next(), nullptr);
  EXPECT_ERROR(batches.next(), "sample 40");
}

TEST(ReadAheadTest, MayBeLeftEarly) {
  const TempDir dir;
  make_dataset(dir.path(), 64, 1, {5});
  const Dataset data = Dataset::open(dir.path());
  ReadAhead batches(data.train(), 16, 0, 1000);
  EXPECT_NE(batches.next(), nullptr);
}

TEST(ReadAheadTest, AnEmptySplitIsAnError) {
  const TempDir dir;
  make_dataset(dir.path(), 0, 1, {5});
  const Dataset data = Dataset::open(dir.path());
  EXPECT_ERROR(ReadAhead(data.train(), 16, 0, 1), "no samples");
}

}  // namespace
}  // namespace dlrm
