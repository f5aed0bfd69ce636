#include "dlrm/config.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "kernels/error.h"

namespace dlrm {
namespace {

using Sets = std::vector<std::string>;

Config parse(const std::string& yaml, const Sets& sets = {}) {
  return parse_config(yaml, "run.yaml", sets);
}

std::string error_of(const std::string& yaml, const Sets& sets = {}) {
  try {
    parse(yaml, sets);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ConfigTest, NothingGivesTheDefaults) {
  EXPECT_EQ(parse(""), Config{});
  EXPECT_EQ(parse("train:\n"), Config{});
}

TEST(ConfigTest, ReadsEveryType) {
  const Config config = parse(
      "data: {path: /criteo, batch: 65536}\n"
      "model: {dim: 128, bottom: [512, 256, 128], top: [1024, 1024, 512, 256, 1]}\n"
      "train: {seed: 18446744073709551615, resume: true, optimizer: {lr: 2.4e1}}\n");
  EXPECT_EQ(config.data.path, "/criteo");
  EXPECT_EQ(config.data.batch, 65536);
  EXPECT_EQ(config.model.top, (std::vector<int64_t>{1024, 1024, 512, 256, 1}));
  EXPECT_EQ(config.train.seed, ~uint64_t(0));
  EXPECT_TRUE(config.train.resume);
  EXPECT_EQ(config.train.optimizer.lr, 24.0);
}

TEST(ConfigTest, OverridesWinOverTheFile) {
  EXPECT_EQ(parse("data: {batch: 10}", {"data.batch=20"}).data.batch, 20);
}
TEST(ConfigTest, TheLastOverrideWins) {
  EXPECT_EQ(parse("", {"train.output=a", "train.output=b=c"}).train.output, "b=c");
}
TEST(ConfigTest, AnOverrideCanBeAList) {
  EXPECT_EQ(parse("", {"model.top=[64,1]"}).model.top, (std::vector<int64_t>{64, 1}));
}
TEST(ConfigTest, AnOverrideCanBeASection) {
  EXPECT_EQ(parse("", {"train.optimizer={name: adagrad, lr: 0.5}"}).train.optimizer.name, "adagrad");
}

TEST(ConfigTest, EpsOfEachOptimizerIsItsUsualOne) {
  EXPECT_EQ(parse("").embedding.optimizer.eps, 0.0);
  EXPECT_EQ(parse("", {"embedding.optimizer.name=adagrad"}).embedding.optimizer.eps, 1e-10);
  EXPECT_EQ(parse("", {"embedding.optimizer.name=rowwise_adagrad"}).embedding.optimizer.eps, 1e-8);
  EXPECT_EQ(parse("", {"train.optimizer.name=adagrad"}).train.optimizer.eps, 1e-10);
}
TEST(ConfigTest, AnEpsThatIsGivenStays) {
  EXPECT_EQ(parse("", {"train.optimizer={name: adagrad, eps: 1e-3}"}).train.optimizer.eps, 1e-3);
}

TEST(ConfigTest, WhatIsWrittenReadsAsTheSameConfig) {
  Config config = parse("", {"embedding.optimizer.name=adagrad"});
  config.data.path = "a \"path\" with: #odd\n\t\\ characters";
  config.model.top = {7, 1};
  config.train.seed = ~uint64_t(0);
  config.train.output = "null";
  config.train.init_from = "- item";
  config.train.resume = true;
  config.train.steps = 9223372036854775807;
  config.train.optimizer.lr = 0.1;
  config.train.target_auc = 0.80275;
  config.train.schedule = {8000, 48000, 24000};
  EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigTest, HelpIsAConfigWithTheDefaults) {
  EXPECT_EQ(parse(config_help()), Config{});
}
TEST(ConfigTest, HelpExplainsAKey) {
  EXPECT_NE(
      config_help().find("  batch: 2048                 # samples per step, over all ranks (a whole number, 1 to"),
      std::string::npos)
      << config_help();
}

TEST(ConfigTest, UnknownKeyNamesTheLineAndTheNearest) {
  EXPECT_EQ(error_of("data:\n  path: x\nembedding:\n  codek: raw\n"),
            "run.yaml:4: unknown key 'embedding.codek', expected one of codec, lookup_rounding, dtype, optimizer."
            " Did you mean 'embedding.codec'?");
}
TEST(ConfigTest, UnknownSectionNamesTheNearest) {
  EXPECT_EQ(error_of("modle: {dim: 4}"),
            "run.yaml:1: unknown key 'modle', expected one of data, model, embedding, train, comm."
            " Did you mean 'model'?");
}
TEST(ConfigTest, AKeyInTheWrongSectionNamesTheRightOne) {
  EXPECT_NE(error_of("codec: raw").find("Did you mean 'embedding.codec'?"), std::string::npos);
  EXPECT_NE(error_of("train: {lr: 1}").find("Did you mean 'train.optimizer.lr'?"), std::string::npos);
}
TEST(ConfigTest, UnknownKeyOfAnOverrideIsAnError) {
  EXPECT_EQ(error_of("", {"embedding.codek=raw"}),
            "--set embedding.codek=raw: unknown key 'embedding.codek', expected one of codec, lookup_rounding, dtype, "
            "optimizer."
            " Did you mean 'embedding.codec'?");
}
TEST(ConfigTest, AKeyBelowAValueIsAnError) {
  EXPECT_NE(error_of("", {"data.batch.size=1"}).find("unknown key 'data.batch.size'"), std::string::npos);
}

TEST(ConfigTest, UnknownChoiceNamesTheNearest) {
  EXPECT_EQ(error_of("embedding:\n  codec: pfr"),
            "run.yaml:2: embedding.codec: expected one of raw, ibp, pfor, auto; found 'pfr'. Did you mean 'pfor'?");
}
TEST(ConfigTest, AnOutOfRangeNumberNamesTheRange) {
  EXPECT_EQ(error_of("", {"train.steps=-1"}),
            "--set train.steps=-1: train.steps: expected a whole number, 0 or more; found '-1'.");
}
TEST(ConfigTest, AWrongTypeIsAnError) {
  EXPECT_EQ(error_of("model: {bottom: [512, x, 64]}"),
            "run.yaml:1: model.bottom: expected a list of whole numbers, each 1 to 1048576; found [512, x, 64].");
}

class BadValueTest : public testing::TestWithParam<const char*> {};
TEST_P(BadValueTest, IsAnErrorThatNamesKeyExpectedAndFound) {
  const std::string set = GetParam();
  const std::string error = error_of("", {set});
  EXPECT_EQ(error.find("--set " + set), 0u) << error;
  EXPECT_NE(error.find(": " + set.substr(0, set.find('=')) + ": expected "), std::string::npos) << error;
  EXPECT_NE(error.find("; found "), std::string::npos) << error;
}
INSTANTIATE_TEST_SUITE_P(, BadValueTest,
                         testing::Values("data.batch=0", "data.batch=1.5", "data.batch=1e3", "data.batch=0x10",
                                         "data.batch='8'", "data.batch=", "data.batch=[8]", "data.batch={a: 1}",
                                         "data.batch=99999999999999999999", "model.top=[]", "model.top=1",
                                         "model.top=[64,0,1]", "model.top=[[1]]", "model.top=[64,2]",
                                         "model.bottom=[8]", "model.precision=fp16", "embedding.optimizer.lr=-1",
                                         "embedding.optimizer.lr=.nan", "embedding.optimizer.lr=nan",
                                         "embedding.optimizer.lr=inf", "embedding.optimizer.lr=1e39",
                                         "embedding.optimizer.lr=fast", "train.optimizer.name=rowwise_adagrad",
                                         "train.optimizer=sgd", "train.epochs=0", "train.seed=-1", "train.resume=yes",
                                         "train.resume=1", "train.target_auc=1.1", "train.keep_checkpoints=0",
                                         "train.schedule.warmup=-5", "train=[1]", "train.output=", "comm.backend=mpl"));

TEST(ConfigTest, BottomMustEndWithDimAndSaysWhere) {
  EXPECT_EQ(error_of("model:\n  dim: 16\n  bottom: [512, 64]\n"),
            "run.yaml:3: model.bottom: expected the last layer to be 16 (model.dim); found 64");
}
TEST(ConfigTest, DecayInsideTheWarmupIsAnError) {
  EXPECT_NE(error_of("train: {schedule: {warmup: 9, decay_start: 8, decay_steps: 1}}").find("decay_start: expected 9"),
            std::string::npos);
}

TEST(ConfigTest, ADuplicateKeyIsAnError) {
  EXPECT_EQ(error_of("data:\n  batch: 1\n  batch: 2\n"), "run.yaml:3: data.batch: expected once; found twice");
  EXPECT_EQ(error_of("data: {batch: 1}\ndata: {path: x}\n"), "run.yaml:2: data: expected once; found twice");
}
TEST(ConfigTest, AnOverrideWithoutAValueIsAnError) {
  EXPECT_EQ(error_of("", {"train.resume"}), "--set train.resume: expected key.path=value; found no '='");
}
TEST(ConfigTest, ASecondDocumentIsAnError) {
  EXPECT_NE(error_of("data: {batch: 1}\n---\ndata: {batch: 2}\n").find("expected one YAML document"),
            std::string::npos);
}
TEST(ConfigTest, AListInsteadOfAMappingIsAnError) {
  EXPECT_EQ(error_of("- a\n"), "run.yaml:1: the file: expected a mapping; found [a]");
}
TEST(ConfigTest, WhatIsNotYamlIsAnErrorWithTheLine) {
  EXPECT_EQ(error_of("data:\n  batch: [1\n").find("run.yaml:3: not YAML"), 0u) << error_of("data:\n  batch: [1\n");
  EXPECT_NE(error_of("", {"model.top=[64"}).find("not YAML"), std::string::npos);
}
TEST(ConfigTest, ATruncatedFileIsAnErrorOrAConfigNeverACrash) {
  const std::string yaml = to_yaml({});
  for (size_t size = 0; size < yaml.size(); ++size) {
    try {
      parse(yaml.substr(0, size));
    } catch (const Error&) {
    }
  }
}

TEST(ConfigTest, LoadsAFile) {
  const std::string path = testing::TempDir() + "config_test.yaml";
  std::ofstream(path) << "data: {batch: 7}\n";
  EXPECT_EQ(load_config(path).data.batch, 7);
  std::remove(path.c_str());
}
TEST(ConfigTest, AMissingFileIsAnError) {
  EXPECT_THROW(load_config("/nowhere/run.yaml"), Error);
}
TEST(ConfigTest, ADirectoryIsAnError) {
  EXPECT_THROW(load_config(testing::TempDir()), Error);
}

}  // namespace
}  // namespace dlrm
