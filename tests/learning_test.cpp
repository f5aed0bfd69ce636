// What a trained model must reach: the planted model's AUC, and the promised compression.
#include <gtest/gtest.h>

#include "data/generate.h"
#include "dlrm/checkpoint.h"
#include "dlrm/trainer.h"
#include "tests/temp_dir.h"

#ifdef __SANITIZE_ADDRESS__
#define DLRM_SKIP_UNDER_SANITIZERS() GTEST_SKIP() << "minutes under sanitizers, and adds nothing for them to see"
#else
#define DLRM_SKIP_UNDER_SANITIZERS()
#endif

namespace dlrm {
namespace {

GenerateSummary generate_data(const TempDir& dir, int64_t rows) {
  GenerateOptions options;
  options.output = dir / "data";
  options.rows = rows;
  options.scale = 0.01;
  return generate(options);
}

Config quickstart(const TempDir& dir, const std::vector<std::string>& more) {
  std::vector<std::string> sets = {"data.path=" + (dir / "data"), "train.output=" + (dir / "run")};
  sets.insert(sets.end(), more.begin(), more.end());
  return load_config(DLRM_SOURCE_DIR "/configs/quickstart.yaml", sets);
}

TEST(LearningTest, QuickstartComes95PercentOfTheWayToThePlantedAuc) {
  DLRM_SKIP_UNDER_SANITIZERS();
  const TempDir dir;
  const double planted = *generate_data(dir, 2000000).planted_auc;
  const double reached = *train(quickstart(dir, {})).evaluation->metrics.auc;
  EXPECT_GE((reached - 0.5) / (planted - 0.5), 0.95) << reached << " of " << planted;
}

TEST(CompressionTest, TrainedRowsOfDim128TakeAtMostOneIn1Point13OfTheirBytesAndOneIn1Point32OfBf16) {
  DLRM_SKIP_UNDER_SANITIZERS();
  const TempDir dir;
  generate_data(dir, 300000);
  for (const auto& [optimizer, dtype, least] :
       {std::tuple("sgd", "fp32", 1.13), std::tuple("adagrad", "fp32", 1.13),
        std::tuple("rowwise_adagrad", "fp32", 1.13), std::tuple("adagrad", "bf16", 1.32)}) {
    const Config config =
        quickstart(dir, {"model.dim=128", "model.bottom=[32,128]", "model.top=[32,1]",
                         text("embedding.optimizer.name=", optimizer), text("embedding.dtype=", dtype),
                         text("train.output=", (dir / text(optimizer, dtype)))});
    const Checkpoint checkpoint = open_checkpoint(train(config).checkpoint);
    double raw = 0, stored = 0, rows = 0, overflow = 0;
    for (size_t t = 0; t < checkpoint.tables.size(); ++t) {
      const int64_t count = checkpoint.model.tables[t].rows;
      rows += double(count);
      overflow += double(checkpoint.tables[t].overflow_rows);
      raw += double(size_t(count * 128) * size_of(checkpoint.model.table_dtype));
      stored += double(checkpoint.tables[t].stored_bytes(count, 128));
    }
    EXPECT_GE(raw / stored, least) << optimizer << ", " << dtype;
    EXPECT_LT(overflow / rows, 0.005) << optimizer << ", " << dtype;
  }
}

}  // namespace
}  // namespace dlrm
