#include "dlrm/trainer.h"

#include <gtest/gtest.h>

#include "data/files.h"
#include "data/read_ahead.h"
#include "dlrm/checkpoint.h"
#include "dlrm/verify.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/parallel.h"
#include "tests/device_test.h"
#include "tests/run.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// Every file of a checkpoint, one after the other, but for the config, which names the run's directory.
std::string bytes_of(const fs::path& checkpoint) {
  std::string bytes;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(checkpoint))
    if (entry.is_regular_file() && entry.path().filename() != "manifest.json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) bytes += file.filename().string() + read_file(file);
  return bytes;
}

class TrainerTest : public DeviceTest {
 protected:
  Config config(const TempDir& dir, int64_t train = 200, int64_t test = 50) {
    return run_config(dir, train, test, GetParam());
  }

  std::string final_bytes(Config config) { return bytes_of(train(config).checkpoint); }
};

// Counts --------------------------------------------------------------------------------------------------------------

TEST_P(TrainerTest, EverySampleIsTrainedAndEvaluatedOnce) {
  for (int64_t samples : {48, 49, 47, 1, 9}) {
    const TempDir dir;
    const TrainResult result = train(config(dir, samples, samples));
    EXPECT_EQ(result.samples, samples);
    EXPECT_EQ(result.steps, (samples + 15) / 16);
    EXPECT_EQ(result.evaluation->metrics.samples, samples);
  }
}

TEST_P(TrainerTest, EpochsAndStepsCountAsAsked) {
  const TempDir dir;
  Config c = config(dir, 49, 10);
  c.train.epochs = 3;
  EXPECT_EQ(train(c).samples, 3 * 49);
  c.train.output = dir / "steps";
  c.train.steps = 5;
  EXPECT_EQ(train(c).samples, 49 + 16);
}

TEST_P(TrainerTest, AucIsMannWhitneysOverAllSamples) {
  const TempDir dir;
  const Config c = config(dir, 100, 77);
  const TrainResult result = train(c);
  const Dataset data = Dataset::open(c.data.path);
  const Checkpoint checkpoint = open_checkpoint(result.checkpoint);
  ModelConfig shape = checkpoint.model;
  shape.max_batch = 10;
  Model model(device(), shape);
  load_checkpoint(checkpoint, model, queue(), false);
  std::vector<float> scores;
  const Metrics metrics = evaluate(model, queue(), data.test(), 10, &scores).metrics;
  ASSERT_EQ(scores.size(), 77u);
  Batch all;
  data.test().read(0, 77, all);
  double wins = 0, pairs = 0;
  for (size_t i = 0; i < 77; ++i) {
    for (size_t j = 0; j < 77; ++j) {
      if (all.labels[i] < 0.5f || all.labels[j] > 0.5f) continue;
      wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      ++pairs;
    }
  }
  EXPECT_NEAR(*metrics.auc, wins / pairs, 1e-9);
  EXPECT_NEAR(*result.evaluation->metrics.auc, *metrics.auc, 1e-3);  // another batch size, another rounding
}

// Same bits -----------------------------------------------------------------------------------------------------------

TEST_P(TrainerTest, SameSeedGivesTheSameBits) {
  const TempDir a, b, c;
  Config other = config(c);
  other.train.seed = 2;
  const std::string bytes = final_bytes(config(a));
  EXPECT_EQ(bytes, final_bytes(config(b)));
  EXPECT_NE(bytes, final_bytes(other));
}

TEST_P(TrainerTest, ThreadsDoNotChangeBits) {
  const TempDir a, b;
  Config one = config(a), two = config(b);
  one.train.threads = 1;
  two.train.threads = 2;
  EXPECT_EQ(final_bytes(one), final_bytes(two));
}

TEST_P(TrainerTest, AResumedRunEndsWithTheBitsOfAnUninterruptedOne) {
  for (const char* dtype : {"fp32", "bf16"}) {
    const TempDir a, b;
    Config whole = config(a), parts = config(b);
    whole.embedding.dtype = parts.embedding.dtype = dtype;
    whole.train.epochs = parts.train.epochs = 2;
    parts.train.steps = 7;
    train(parts);
    parts.train.steps = 0;
    parts.train.resume = true;
    EXPECT_EQ(final_bytes(whole), final_bytes(parts)) << dtype;
  }
}

// Verify --------------------------------------------------------------------------------------------------------------

class VerifyTest : public DeviceTest {
 protected:
  Verification run(Device& found_device, const Config& c, int64_t steps) {
    const Dataset data = Dataset::open(c.data.path);
    ModelConfig compressed = model_config(c, data), plain = compressed;
    for (TableConfig& table : plain.tables) table = {table.name, table.rows, CodecId::raw};
    Model expected(device(), plain), found(found_device, compressed);
    return verify(c, data, expected, found, queue(), steps);
  }
};

TEST_P(VerifyTest, EveryCodecTrainsLikeRawWithEveryOptimizer) {
  for (std::string_view dtype : kDTypeNames) {
    for (std::string_view optimizer : kOptimizerNames) {
      for (CodecId codec : kCodecs) {
        const TempDir dir;
        Config c = run_config(dir, 300, 50, GetParam());
        c.embedding.dtype = dtype;
        c.embedding.optimizer = {std::string(optimizer), 0.05, 1e-8};
        c.train.optimizer.name = optimizer == "rowwise_adagrad" ? "adagrad" : std::string(optimizer);
        c.embedding.codec = codec_name(codec);
        c.model.precision = optimizer == "sgd" ? "bf16" : "fp32";
        const Verification result = run(device(), c, 200);
        EXPECT_FALSE(result.difference) << optimizer << ", " << c.embedding.codec << ": " << result.difference->what;
        EXPECT_EQ(result.steps, 200);
        EXPECT_GT(result.rows_compared, 1000);
        EXPECT_TRUE(result.auc);
      }
    }
  }
}

// A logit is the end of about 16 roundings of relative size u: each of the 5 layers and the interaction rounds its
// factors and its result, and sums round less than their terms. The loss moves at most as far as the logits, which are
// about 1, and training carries the difference along without growing it much over so few steps.
TEST_P(TrainerTest, LossesAreThoseOfTheCpuInFp32UpToRounding) {
  const auto cpu = make_device("cpu");
  const TempDir dir;
  Config c = config(dir, 400);
  const Dataset data = Dataset::open(c.data.path);
  for (const auto& [precision, unit] :
       {std::pair("fp32", 0x1p-24), std::pair("tf32", 0x1p-11), std::pair("bf16", 0x1p-8)}) {
    if (!device().supports(precision_by_name(precision))) continue;
    c.model.precision = "fp32";
    Model expected(*cpu, model_config(c, data));
    c.model.precision = precision;
    Model found(device(), model_config(c, data));
    const auto cpu_queue = cpu->make_queue();
    expected.initialize(*cpu_queue, 1);
    found.initialize(queue(), 1);
    ReadAhead batches(data.train(), c.data.batch, 0, 25);
    for (int64_t step = 0; const Batch* batch = batches.next(); ++step) {
      const StepState state{step, 0.02f, 0.02f};
      const float a = expected.train_step(*cpu_queue, *batch, state), b = found.train_step(queue(), *batch, state);
      ASSERT_NEAR(a, b, 16 * unit) << precision << ", step " << step;
    }
  }
}

TEST_P(TrainerTest, TwoRunsHaveTheSameBitsInEveryPrecision) {
  for (const std::string precision : {"fp32", "tf32", "bf16"}) {
    if (!device().supports(precision_by_name(precision))) continue;
    std::string bytes[2];
    for (std::string& b : bytes) {
      const TempDir dir;
      Config c = config(dir);
      c.model.precision = precision;
      b = final_bytes(c);
    }
    EXPECT_EQ(bytes[0], bytes[1]) << precision;
  }
}

TEST_P(TrainerTest, TruncatedLookupsAreForBf16) {
  const TempDir dir;
  Config c = config(dir);
  c.embedding.lookup_rounding = "truncate";
  EXPECT_ERROR(train(c), "embedding.lookup_rounding", "bf16", "found fp32");
  c.model.precision = "bf16";
  EXPECT_EQ(train(c).steps, 13);
}

DLRM_ON_ALL_DEVICES(TrainerTest);
DLRM_ON_ALL_DEVICES(VerifyTest);

/// Loses the last mantissa bit of one row when it is stored at one step: a codec that is not lossless.
class LossyDevice : public CpuDevice {
 public:
  LossyDevice(int64_t step, int64_t table, int64_t row) : step_(step), table_(table), row_(row) {}

  void update(Queue& queue, const StoreView& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
              OptimizerRule rule, const StepState* state, std::byte* scratch) override {
    CpuDevice::update(queue, store, bags, unique, gradients, rule, state, scratch);
    if (state->step != step_) return;
    std::vector<float> row(size_t(store.dim));
    decode_rows(queue, store, table_, row_, 1, row.data());
    row[3] = std::bit_cast<float>(std::bit_cast<uint32_t>(row[3]) ^ 1);
    encode_rows(queue, store, table_, row_, 1, row.data());
  }

 private:
  int64_t step_, table_, row_;
};

TEST(VerifyCpuTest, ALossyCodecIsNamedWithStepTableAndRow) {
  const TempDir dir;
  const Config c = run_config(dir, 300, 50);
  const Dataset data = Dataset::open(c.data.path);
  const ModelConfig shape = model_config(c, data);
  CpuDevice exact;
  LossyDevice lossy(4, 0, 1);  // a table of 3 rows: the step surely touches row 1
  const auto queue = exact.make_queue();
  Model expected(exact, shape), found(lossy, shape);
  const Verification result = verify(c, data, expected, found, *queue, 20);
  ASSERT_TRUE(result.difference);
  EXPECT_EQ(result.difference->step, 5);
  EXPECT_EQ(result.difference->table, 0);
  EXPECT_EQ(result.difference->row, 1);
  EXPECT_NE(result.difference->what.find("step 5: table cat_0.bin, row 1, element 3 differs"), std::string::npos)
      << result.difference->what;
}

TEST(VerifyCpuTest, ADifferenceInAnUntouchedRowIsFoundAtTheEnd) {
  const TempDir dir;
  const Config c = run_config(dir, 16, 50);
  const Dataset data = Dataset::open(c.data.path);
  const ModelConfig shape = model_config(c, data);
  CpuDevice exact;
  LossyDevice lossy(2, 2, 499);
  const auto queue = exact.make_queue();
  Model expected(exact, shape), found(lossy, shape);
  const Verification result = verify(c, data, expected, found, *queue, 3);
  ASSERT_TRUE(result.difference);
  EXPECT_EQ(result.difference->row, 499);
}

// Runs ----------------------------------------------------------------------------------------------------------------

TEST(RunTest, TargetAucStopsTheRun) {
  const TempDir dir;
  Config c = run_config(dir, 400, 50);
  c.train.target_auc = 0.0001;
  c.train.evaluate_every = 5;
  EXPECT_EQ(train(c).steps, 5);
}

TEST(RunTest, NonFiniteLossStopsTheRunAndNamesTheCheckpoint) {
  const TempDir dir;
  Config c = run_config(dir, 400, 50);
  c.train.optimizer = {"sgd", 1e30, 0};
  EXPECT_ERROR(train(c), "step ", "the loss is ", "Last whole checkpoint: none");
  c.train.output = dir / "second";
  c.train.optimizer.lr = 0.1;
  c.train.checkpoint_every = 10;
  c.train.schedule.warmup = 0;
  c.embedding.optimizer = {"sgd", 0.1, 0};
  c.train.steps = 10;
  train(c);
  c.train.resume = true;
  c.train.steps = 25;
  c.train.optimizer.lr = 1e30;
  EXPECT_ERROR(train(c), "Last whole checkpoint: " + (dir / "second/checkpoints/step_10"));
}

TEST(RunTest, AnEarlierRunIsNotOverwritten) {
  const TempDir dir;
  const Config c = run_config(dir, 50, 50);
  train(c);
  EXPECT_ERROR(train(c), "holds a run already", "train.resume=true");
}

TEST(RunTest, ResumingAFinishedRunChangesNothing) {
  const TempDir dir;
  Config c = run_config(dir, 50, 50);
  const TrainResult first = train(c);
  const std::string bytes = bytes_of(first.checkpoint);
  c.train.resume = true;
  const TrainResult again = train(c);
  EXPECT_EQ(again.samples, 0);
  EXPECT_EQ(again.checkpoint, first.checkpoint);
  EXPECT_EQ(bytes_of(again.checkpoint), bytes);
  EXPECT_EQ(again.evaluation->metrics.auc, first.evaluation->metrics.auc);
}

TEST(RunTest, InitFromTakesWeightsAndNoState) {
  const TempDir dir;
  Config c = run_config(dir, 50, 50);
  const TrainResult first = train(c);
  c.train.output = dir / "second";
  c.train.init_from = dir / "run";
  c.train.optimizer = {"sgd", 0, 0};
  c.embedding.optimizer = {"sgd", 0, 0};
  EXPECT_EQ(train(c).evaluation->metrics.log_loss, first.evaluation->metrics.log_loss);
}

TEST(RunTest, OldCheckpointsGo) {
  const TempDir dir;
  Config c = run_config(dir, 160, 50);
  c.train.checkpoint_every = 2;
  c.train.keep_checkpoints = 3;
  train(c);
  std::vector<std::string> kept;
  for (const auto& entry : fs::directory_iterator(dir / "run/checkpoints")) kept.push_back(entry.path().filename());
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept, (std::vector<std::string>{"step_10", "step_6", "step_8"}));
}

TEST(RunTest, ConfigAndMachineAreWrittenBesideTheLog) {
  const TempDir dir;
  const Config c = run_config(dir, 50, 50);
  train(c);
  EXPECT_EQ(read_file(dir / "run/config.yaml"), to_yaml(c));
  EXPECT_NE(read_file(dir / "run/environment.json").find("\"version\": \"dlrm "), std::string::npos);
  EXPECT_NE(read_file(dir / "run/metrics.jsonl").find("\"split\":\"test\""), std::string::npos);
}

TEST(RunTest, ABatchWithABadIdStopsTheRun) {
  const TempDir dir;
  const Config c = run_config(dir, 50, 50);
  std::string ids = read_file(dir / "data/train/cat_0.bin");
  ids[40] = 3;
  dir.file("data/train/cat_0.bin", ids);
  EXPECT_ERROR(train(c), "train/cat_0.bin: sample 40: id 3, expected 0 .. 2");
}

}  // namespace
}  // namespace dlrm
