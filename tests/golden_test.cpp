// Training against PyTorch: the files in tests/golden, made by scripts/make_golden.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dlrm/model.h"
#include "tests/device_test.h"

namespace dlrm {
namespace {

using json = nlohmann::json;

std::vector<float> flat(const json& values) {
  std::vector<float> result;
  for (const json& value : values) {
    if (value.is_array()) {
      const std::vector<float> inner = flat(value);
      result.insert(result.end(), inner.begin(), inner.end());
    } else {
      result.push_back(float(value.get<double>()));
    }
  }
  return result;
}

/// parameter "top_1_bias" of a golden model
std::vector<float> array_of(const json& model, const std::string& name) {
  const size_t first = name.find('_'), second = name.rfind('_');
  const size_t layer = std::stoul(name.substr(first + 1, second - first - 1));
  return flat(model.at(name.substr(0, first)).at(layer).at(name.substr(second + 1)));
}

class GoldenTest : public DeviceTest {
 protected:
  json load(const std::string& name) {
    std::ifstream file(std::string(DLRM_SOURCE_DIR "/tests/golden/") + name + ".json");
    return json::parse(file);
  }

  ModelConfig config_of(const json& golden, CodecId codec) {
    ModelConfig config;
    config.numerical = golden.at("numerical");
    config.dim = golden.at("dim");
    config.bottom = golden.at("bottom").get<std::vector<int64_t>>();
    config.top = golden.at("top").get<std::vector<int64_t>>();
    for (int64_t rows : golden.at("rows")) config.tables.push_back({"t", rows, codec});
    config.dense_optimizer = {optimizer_by_name(golden.at("dense_optimizer").get<std::string>()), golden.at("eps")};
    config.table_optimizer = {optimizer_by_name(golden.at("table_optimizer").get<std::string>()), golden.at("eps")};
    config.max_batch = golden.at("batch");
    config.max_ids = 4 * config.max_batch * int64_t(config.tables.size());
    return config;
  }

  void fill(Model& model, const json& values) {
    for (const Parameter& parameter : model.parameters())
      model.write(queue(), parameter, array_of(values, parameter.name));
    for (int64_t t = 0; t < model.store().tables(); ++t) {
      const std::vector<float> rows = flat(values.at("tables").at(size_t(t)));
      model.store().write_rows(queue(), t, 0, model.config().tables[size_t(t)].rows, rows.data());
    }
  }

  Batch batch_of(const json& golden, size_t step) {
    const json& from = golden.at("batches").at(step);
    Batch batch;
    batch.size = golden.at("batch");
    batch.numerical = flat(from.at("numerical"));
    batch.labels = flat(from.at("labels"));
    batch.ids = from.at("ids").get<std::vector<int64_t>>();
    if (from.contains("offsets")) batch.offsets = from.at("offsets").get<std::vector<int64_t>>();
    return batch;
  }

  void expect_near(const std::vector<float>& expected, const std::vector<float>& found, const std::string& name) {
    ASSERT_EQ(expected.size(), found.size()) << name;
    double largest = 0, error = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(double(expected[i])));
      error = std::max(error, std::abs(double(expected[i]) - double(found[i])));
    }
    EXPECT_LE(error, 1e-5 * largest) << name;
  }

  void expect_training_equals(const std::string& name) {
    const json golden = load(name);
    for (CodecId codec : kCodecs) {
      Model model(device(), config_of(golden, codec));
      fill(model, golden.at("initial"));
      const float lr = golden.at("lr");
      for (size_t step = 0; step < golden.at("losses").size(); ++step) {
        const double expected = golden.at("losses").at(step);
        const AdamCorrection dense = adam_correction(model.config().dense_optimizer, int64_t(step)),
                             table = adam_correction(model.config().table_optimizer, int64_t(step));
        const float loss = model.train_step(queue(), batch_of(golden, step), {int64_t(step), lr, lr, dense, table});
        ASSERT_NEAR(loss, expected, 1e-5 * expected) << name << " step " << step;
      }
      for (const Parameter& parameter : model.parameters())
        expect_near(array_of(golden.at("final"), parameter.name), model.read(queue(), parameter), parameter.name);
      for (int64_t t = 0; t < model.store().tables(); ++t) {
        std::vector<float> rows(size_t(model.config().tables[size_t(t)].rows * model.config().dim));
        model.store().read_rows(queue(), t, 0, model.config().tables[size_t(t)].rows, rows.data());
        expect_near(flat(golden.at("final").at("tables").at(size_t(t))), rows, "table " + std::to_string(t));
      }
      std::vector<float> logits(golden.at("batch").get<size_t>());
      model.predict(queue(), batch_of(golden, 0), logits.data());
      expect_near(flat(golden.at("final_logits")), logits, "logits");
    }
  }
};

TEST_P(GoldenTest, SgdTrainsLikePyTorch) {
  expect_training_equals("sgd");
}
TEST_P(GoldenTest, AdagradTrainsLikePyTorch) {
  expect_training_equals("adagrad");
}
TEST_P(GoldenTest, RowwiseAdagradTrainsLikeFbgemm) {
  expect_training_equals("rowwise_adagrad");
}
TEST_P(GoldenTest, AdamTrainsLikePyTorch) {
  expect_training_equals("adam");
}
TEST_P(GoldenTest, BagsTrainLikePyTorch) {
  expect_training_equals("sgd_multi_hot");
}

DLRM_ON_ALL_DEVICES(GoldenTest);

}  // namespace
}  // namespace dlrm
