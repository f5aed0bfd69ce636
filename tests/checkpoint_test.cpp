#include "dlrm/checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/files.h"
#include "data/npy.h"
#include "dlrm/export_tf2.h"
#include "dlrm/trainer.h"
#include "tests/device_test.h"
#include "tests/rows.h"
#include "tests/run.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// Loads the run's checkpoint into a fresh model.
void load(const fs::path& path) {
  const auto device = make_cpu_device();
  const auto queue = device->make_queue();
  const Checkpoint checkpoint = open_checkpoint(path);
  ModelConfig shape = checkpoint.model;
  shape.max_batch = 1;
  Model model(*device, shape);
  load_checkpoint(checkpoint, model, *queue, true);
}

std::vector<fs::path> files_of(const fs::path& checkpoint) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(checkpoint))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() { path_ = train(run_config(dir_, 100, 20)).checkpoint; }

  TempDir dir_;
  fs::path path_;
};

TEST_F(CheckpointTest, ARunsDirectoryMeansItsNewest) {
  EXPECT_EQ(open_checkpoint(dir_ / "run").path, path_);
  EXPECT_EQ(open_checkpoint(path_).step, 7);
  EXPECT_ERROR(open_checkpoint(dir_ / "data"), "holds no checkpoint");
}

TEST_F(CheckpointTest, AFlippedByteInAnyFileIsAnErrorThatNamesIt) {
  load(path_);
  for (const fs::path& file : files_of(path_)) {
    const std::string whole = read_file(file);
    for (size_t at = 0; at < whole.size(); at += std::max<size_t>(1, whole.size() / 40)) {
      std::string damaged = whole;
      damaged[at] = char(damaged[at] ^ 4);
      std::ofstream(file, std::ios::binary) << damaged;
      EXPECT_ERROR(load(path_), file.string());
    }
    std::ofstream(file, std::ios::binary) << whole;
  }
  load(path_);
}

TEST_F(CheckpointTest, ATruncatedFileIsAnErrorThatNamesIt) {
  for (const fs::path& file : files_of(path_)) {
    const std::string whole = read_file(file);
    for (size_t bytes = 0; bytes < whole.size(); bytes += std::max<size_t>(1, whole.size() / 40)) {
      std::ofstream(file, std::ios::binary) << whole.substr(0, bytes);
      EXPECT_ERROR(load(path_), file.string());
    }
    std::ofstream(file, std::ios::binary) << whole;
  }
}

TEST_F(CheckpointTest, AMissingFileIsAnErrorThatNamesIt) {
  for (const fs::path& file : files_of(path_)) {
    fs::rename(file, dir_ / "away");
    EXPECT_ERROR(load(path_), file.filename() == "manifest.json" ? "holds no checkpoint" : file.string());
    fs::rename(dir_ / "away", file);
  }
}

TEST_F(CheckpointTest, AnotherShapeIsRefused) {
  Config c;
  c = run_config(TempDir(), 10, 10);
  c.data.path = dir_ / "data";
  c.train.output = dir_ / "second";
  c.train.init_from = dir_ / "run";
  c.model.dim = 8;
  c.model.bottom = {8, 8};
  EXPECT_ERROR(train(c), "model.dim: found 16, expected 8");
}

TEST_F(CheckpointTest, InterruptedWritesAreNotSeenAndAreCleaned) {
  fs::create_directories(dir_ / "run/checkpoints/.partial_123/tables");
  EXPECT_EQ(open_checkpoint(dir_ / "run").path, path_);
  clean_checkpoints(dir_ / "run/checkpoints", 5);
  EXPECT_FALSE(fs::exists(dir_ / "run/checkpoints/.partial_123"));
  EXPECT_TRUE(fs::exists(path_));
}

// Equal values give equal bytes: a model that is filled from a checkpoint is saved again as the same files.
TEST(CheckpointBytesTest, SavedAgainItHasTheSameBytes) {
  for (std::string_view dtype : kDTypeNames) {
    const TempDir dir;
    Config config = run_config(dir, 100, 20);
    config.embedding.dtype = dtype;
    const fs::path path = train(config).checkpoint;
    const auto device = make_cpu_device();
    const auto queue = device->make_queue();
    const Checkpoint checkpoint = open_checkpoint(path);
    ModelConfig shape = checkpoint.model;
    shape.max_batch = 1;
    Model model(*device, shape);
    load_checkpoint(checkpoint, model, *queue, true);
    Checkpoint about = checkpoint;
    about.tables.clear();
    about.arrays.clear();
    const fs::path again = save_checkpoint(dir / "again", about, model, *queue);
    for (const fs::path& file : files_of(path))
      EXPECT_EQ(read_file(file), read_file(again / fs::relative(file, path))) << file;
  }
}

// Into each codec from each, and into the one that is chosen for inference.
TEST_F(CheckpointTest, RowsAreTheSameWhateverCodecReadsThem) {
  const auto device = make_cpu_device();
  const auto queue = device->make_queue();
  const auto rows_of = [&](const Checkpoint& checkpoint, CodecId codec, bool choose) {
    ModelConfig shape = checkpoint.model;
    shape.max_batch = 1;
    for (TableConfig& table : shape.tables) table = {table.name, table.rows, codec, choose, false};
    Model model(*device, shape);
    load_checkpoint(checkpoint, model, *queue, true);
    std::vector<float> all;
    for (int64_t t = 0; t < model.store().tables(); ++t) {
      const int64_t rows = shape.tables[size_t(t)].rows;
      std::vector<float> some(size_t(rows * shape.dim));
      model.store().read_rows(*queue, t, 0, rows, some.data());
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  };
  for (std::string_view dtype : kDTypeNames) {
    std::vector<float> expected;
    for (CodecId from : kCodecs) {
      const TempDir dir;
      Config config = run_config(dir, 100, 20);
      config.embedding.codec = codec_name(from);
      config.embedding.dtype = dtype;
      const Checkpoint checkpoint = open_checkpoint(train(config).checkpoint);
      EXPECT_EQ(checkpoint.model.table_dtype, dtype_by_name(dtype));
      for (const TableConfig& table : checkpoint.model.tables) EXPECT_EQ(table.codec, from);
      if (from == CodecId::raw) expected = rows_of(checkpoint, CodecId::raw, false);
      for (CodecId to : kCodecs) EXPECT_EQ(rows_of(checkpoint, to, false), expected) << codec_name(from);
      EXPECT_EQ(rows_of(checkpoint, CodecId::raw, true), expected) << codec_name(from);
    }
  }
}

TEST_F(CheckpointTest, ARunWithRowsOfAnotherDtypeTakesTheWeightsButNotTheState) {
  const auto device = make_cpu_device();
  const auto queue = device->make_queue();
  const Checkpoint checkpoint = open_checkpoint(path_);
  ModelConfig shape = checkpoint.model;
  shape.max_batch = 1;
  const auto rows_of = [&](DType dtype) {
    shape.table_dtype = dtype;
    Model model(*device, shape);
    load_checkpoint(checkpoint, model, *queue, false);
    std::vector<float> rows(size_t(shape.tables[0].rows * shape.dim));
    model.store().read_rows(*queue, 0, 0, shape.tables[0].rows, rows.data());
    return rows;
  };
  EXPECT_EQ(rows_of(DType::bf16), as_stored(DType::bf16, rows_of(DType::fp32)));
  shape.table_dtype = DType::bf16;
  Model model(*device, shape);
  EXPECT_ERROR(load_checkpoint(checkpoint, model, *queue, true), "embedding.dtype: found rows of fp32, expected bf16");
}

// As tables are that were trained or exported in 16 bits.
TEST(EvaluationTest, AutoHoldsFp32RowsOfBf16ValuesInHalfTheirBytes) {
  const auto device = make_cpu_device();
  const auto queue = device->make_queue();
  const TempDir dir;
  const int64_t rows = 3000, dim = 128;
  ModelConfig shape;
  shape.numerical = 1;
  shape.tables = {{"t", rows, CodecId::pfor}};
  shape.dim = dim;
  shape.bottom = {dim};
  shape.top = {1};
  shape.max_batch = 1;
  Model saved(*device, shape);
  saved.initialize(*queue, 1);
  const std::vector<float> values = as_stored(DType::bf16, normal_row(rows * dim, 1));
  saved.store().write_rows(*queue, 0, 0, rows, values.data());
  const Checkpoint checkpoint = open_checkpoint(save_checkpoint(dir.path(), {}, saved, *queue));
  shape.tables[0].choose_codec = true;
  shape.tables[0].trained = false;
  Model loaded(*device, shape);
  load_checkpoint(checkpoint, loaded, *queue, false);
  EXPECT_EQ(loaded.store().codec(0).codec, CodecId::ibp);
  const double stored = double(loaded.store().slot_bytes(0)) +
                        double(loaded.store().overflow_rows(*queue) * dim * int64_t(sizeof(float))) / double(rows);
  EXPECT_GE(double(dim) * sizeof(float) / stored, 2.0);
  std::vector<float> found(values.size());
  loaded.store().read_rows(*queue, 0, 0, rows, found.data());
  EXPECT_TRUE(same_bits(found, values));
}

TEST(ChecksumTest, NothingMoreChangesNothing) {
  Checksum sum = checksum_of("123456789");
  EXPECT_EQ(sum.value(), 0xcbf43926u);
  sum.add(nullptr, 0);
  EXPECT_EQ(sum.value(), 0xcbf43926u);
}

// Tables are written and read in pieces of some hundred thousand rows; only the first piece has an overflow row here.
TEST(LargeCheckpointTest, TablesOfManyPiecesSurviveTheRoundTrip) {
  const TempDir dir;
  const auto device = make_cpu_device();
  const auto queue = device->make_queue();
  const int64_t rows = 700000, dim = 16;
  ModelConfig shape;
  shape.numerical = 1;
  shape.tables = {{"t", rows, CodecId::pfor}};
  shape.dim = dim;
  shape.bottom = {dim};
  shape.top = {1};
  shape.max_batch = 1;
  Model saved(*device, shape), loaded(*device, shape);
  saved.initialize(*queue, 1);
  std::vector<float> values(size_t(rows * dim));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f + float(i % 1000) / 1000;
  values[5 * dim] = 1e30f;
  saved.store().write_rows(*queue, 0, 0, rows, values.data());
  Checkpoint about;
  load_checkpoint(open_checkpoint(save_checkpoint(dir.path(), about, saved, *queue)), loaded, *queue, true);
  std::vector<float> found(values.size());
  loaded.store().read_rows(*queue, 0, 0, rows, found.data());
  EXPECT_EQ(found, values);
  EXPECT_EQ(loaded.store().overflow_rows(*queue), 1);
}

TEST_F(CheckpointTest, ExportedTf2FilesHaveNvidiasShapes) {
  const Checkpoint checkpoint = open_checkpoint(path_);
  export_tf2(checkpoint, dir_ / "tf2");
  const NpyArray kernel = read_npy(dir_ / "tf2/bottom_mlp_layer_0_kernel_part0.npy");
  const std::vector<float> weight = read_array(checkpoint, "bottom_0_weight");
  ASSERT_EQ(kernel.shape, (std::vector<int64_t>{8, 8}));  // 3 inputs, padded to 8
  for (int64_t in = 0; in < 8; ++in)
    for (int64_t out = 0; out < 8; ++out)
      EXPECT_EQ(kernel.values[size_t(in * 8 + out)], in < 3 ? weight[size_t(out * 3 + in)] : 0.0f);
  EXPECT_EQ(read_npy(dir_ / "tf2/top_mlp_layer_0_kernel_part0.npy").shape, (std::vector<int64_t>{32, 8}));  // 16 + 10
  EXPECT_EQ(read_npy(dir_ / "tf2/top_mlp_layer_1_bias_part0.npy").shape, std::vector<int64_t>{1});
  EXPECT_EQ(read_npy(dir_ / "tf2/feature_2_part0.npy").shape, (std::vector<int64_t>{500, 16}));
  std::vector<float> rows;
  visit_rows(checkpoint, 2, [&](int64_t, int64_t count, const float* values, const float*) {
    rows.insert(rows.end(), values, values + count * 16);
  });
  EXPECT_EQ(read_npy(dir_ / "tf2/feature_2_part0.npy").values, rows);
  EXPECT_ERROR(export_tf2(checkpoint, dir_ / "tf2"), "exists already");
}

}  // namespace
}  // namespace dlrm
