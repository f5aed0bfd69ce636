// Checkpoints of other programs: tests/golden/foreign, made by scripts/make_foreign.py. Each holds the same model.
#include "dlrm/weights.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/torch_file.h"
#include "tests/device_test.h"
#include "tests/rows.h"
#include "tests/temp_dir.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = DLRM_SOURCE_DIR "/tests/golden/foreign";
const std::vector<std::string> kLayouts = {"tf2_2022_07", "tf2_2022_03", "nvidia_pytorch", "facebook.pt",
                                           "facebook_legacy.pt"};
const WeightsOptions kThreeNumerical{3, ""};

nlohmann::json expected() {
  std::ifstream file(kGolden / "expected.json");
  return nlohmann::json::parse(file);
}

Batch batch_of(const nlohmann::json& golden) {
  Batch batch;
  for (const auto& sample : golden.at("samples")) {
    for (double x : sample.at("numerical")) batch.numerical.push_back(float(x));
    batch.labels.push_back(sample.at("label").get<float>());
    ++batch.size;
  }
  for (size_t t = 0; t < golden.at("tables").size(); ++t)
    for (const auto& sample : golden.at("samples")) batch.ids.push_back(sample.at("ids")[t]);
  return batch;
}

ModelConfig shape_of(const Weights& weights, CodecId codec = CodecId::pfor) {
  ModelConfig shape = weights.model;
  shape.max_batch = 16;
  for (TableConfig& table : shape.tables) table.codec = codec;
  return shape;
}

class WeightsTest : public DeviceTest {
 protected:
  std::vector<float> probabilities(const Weights& weights, CodecId codec, const Batch& batch) {
    Model model(device(), shape_of(weights, codec));
    load_weights(weights, model, queue());
    std::vector<float> result(size_t(batch.size));
    model.predict(queue(), batch, result.data());
    for (float& value : result) value = 1 / (1 + std::exp(-value));
    return result;
  }
};

TEST_P(WeightsTest, EveryLayoutPredictsWhatItsProgramDoes) {
  const nlohmann::json golden = expected();
  const Batch batch = batch_of(golden);
  for (const std::string& layout : kLayouts) {
    const Weights weights = open_weights(kGolden / layout, kThreeNumerical);
    EXPECT_EQ(weights.numerical_transform, layout.starts_with("facebook") ? "ln(x+1)" : "ln(x+3)");
    for (CodecId codec : kCodecs) {
      const std::vector<float> found = probabilities(weights, codec, batch);
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], golden.at("samples")[i].at("probability").get<double>(), 1e-5) << layout;
    }
  }
}

TEST_P(WeightsTest, AnotherInteractionOrderIsAnotherModel) {
  const Batch batch = batch_of(expected());
  const auto with_order = [&](const char* order) {
    return probabilities(open_weights(kGolden / "nvidia_pytorch", {3, order}), CodecId::raw, batch);
  };
  EXPECT_EQ(with_order("2,0,1"), with_order(""));  // as metadata.pt says
  EXPECT_NE(with_order("natural"), with_order(""));
  EXPECT_NE(with_order("cardinality"), with_order(""));
}

DLRM_ON_ALL_DEVICES(WeightsTest);

TEST(WeightsFileTest, NotesSayWhatWasAssumed) {
  const auto has_note = [](const Weights& weights, const std::string& part) {
    return std::any_of(weights.notes.begin(), weights.notes.end(),
                       [&](const std::string& note) { return note.find(part) != note.npos; });
  };
  EXPECT_TRUE(has_note(open_weights(kGolden / "tf2_2022_07", kThreeNumerical), "in the order 0,1,2"));
  EXPECT_TRUE(has_note(open_weights(kGolden / "tf2_2022_07", kThreeNumerical), "the other 5 inputs are padding"));
  EXPECT_TRUE(has_note(open_weights(kGolden / "tf2_2022_03", kThreeNumerical), "in the order 1,2,0"));
  EXPECT_TRUE(has_note(open_weights(kGolden / "nvidia_pytorch"), "in the order 2,0,1"));
}

/// A copy of a golden checkpoint that a test may damage.
class DamageTest : public testing::Test {
 protected:
  fs::path copy(const std::string& layout) {
    const fs::path to = dir_.path() / layout;
    fs::remove_all(to);
    fs::copy(kGolden / layout, to, fs::copy_options::recursive);
    return to;
  }
  /// Reads everything that there is to read.
  static void read_all(const fs::path& path) {
    const Weights weights = open_weights(path, kThreeNumerical);
    const auto device = make_cpu_device();
    const auto queue = device->make_queue();
    Model model(*device, shape_of(weights));
    load_weights(weights, model, *queue);
  }
  static std::vector<fs::path> files_of(const fs::path& path) {
    if (fs::is_regular_file(path)) return {path};
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }

  TempDir dir_;
};

TEST_F(DamageTest, ATruncatedFileIsAnErrorThatNamesIt) {
  for (const std::string& layout : kLayouts) {
    const fs::path path = copy(layout);
    read_all(path);
    for (const fs::path& file : files_of(path)) {
      const std::string whole = read_file(file);
      for (size_t bytes = 0; bytes < whole.size(); bytes += std::max<size_t>(1, whole.size() / 23)) {
        std::ofstream(file, std::ios::binary) << whole.substr(0, bytes);
        EXPECT_ERROR(read_all(path), file.string());
      }
      std::ofstream(file, std::ios::binary) << whole;
    }
  }
}

TEST_F(DamageTest, AChangedByteIsReadOrAnErrorNeverACrash) {
  for (const std::string& layout : kLayouts) {
    const fs::path path = copy(layout);
    for (const fs::path& file : files_of(path)) {
      const std::string whole = read_file(file);
      for (size_t at = 0; at < whole.size(); at += std::max<size_t>(1, whole.size() / 101)) {
        std::string damaged = whole;
        damaged[at] = char(damaged[at] ^ (1 << (at % 8)));
        std::ofstream(file, std::ios::binary) << damaged;
        try {
          read_all(path);
        } catch (const Error&) {
        }
      }
      std::ofstream(file, std::ios::binary) << whole;
    }
  }
}

TEST_F(DamageTest, AMissingFileIsAnErrorThatSaysWhatIsMissing) {
  const fs::path pytorch = copy("nvidia_pytorch"), tf2 = copy("tf2_2022_07"), pieces = copy("tf2_2022_03");
  fs::remove(pytorch / "metadata.pt");
  EXPECT_ERROR(open_weights(pytorch), "metadata.pt is missing", "Hint: --interaction-order");
  EXPECT_EQ(open_weights(pytorch, {0, "2,0,1"}).model.tables.size(), 3u);
  fs::remove(pytorch / "bottom_model.embeddings.2.bin");
  EXPECT_ERROR(open_weights(pytorch, {0, "natural"}), "the first top layer takes");
  fs::remove(tf2 / "feature_1_part0.npy");
  EXPECT_ERROR(open_weights(tf2, kThreeNumerical), "the table of feature 1 is missing");
  fs::remove(pieces / "feature_1_11_part0.npy");
  EXPECT_ERROR(open_weights(pieces, kThreeNumerical), "its piece 0 is missing");
  EXPECT_ERROR(open_weights(dir_.path()), "holds no checkpoint that is known");
  EXPECT_ERROR(open_weights(dir_.path() / "nowhere"), "there is no such file");
}

TEST_F(DamageTest, OtherShapesAreErrorsThatNameTheFile) {
  const fs::path pytorch = copy("nvidia_pytorch");
  const fs::path table = pytorch / "bottom_model.embeddings.0.bin";
  const std::string whole = read_file(table);
  std::ofstream(table, std::ios::binary) << whole + "xx";
  EXPECT_ERROR(open_weights(pytorch), table.string(), "expected whole rows of 4 floats");
  fs::copy_file(pytorch / "bottom_model.embeddings.1.bin", table, fs::copy_options::overwrite_existing);
  EXPECT_ERROR(open_weights(pytorch), table.string(), "11 rows of 4, expected 4 of 4", "embeddings.0.meta.pt");
  const fs::path tf2 = copy("tf2_2022_07");
  fs::copy_file(tf2 / "bottom_mlp_layer_1_kernel_part0.npy", tf2 / "feature_0_part0.npy",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(open_weights(tf2, kThreeNumerical).model.tables[0].rows, 6);  // it is a table, though another one
  EXPECT_EQ(open_weights(tf2).model.numerical, 8);                        // nobody says how many of the 8 inputs are
}

/// A pickle in a ZIP file, as torch.save would write it.
std::string zipped_pickle(const std::string& pickle) {
  const auto number = [](uint64_t value, int bytes) {
    std::string result;
    for (int i = 0; i < bytes; ++i) result += char(value >> (8 * i));
    return result;
  };
  const std::string name = "archive/data.pkl", zeros = number(0, 8);
  const std::string sizes = number(0, 4) + number(pickle.size(), 4) + number(pickle.size(), 4) + number(name.size(), 2);
  const std::string local = number(0x04034b50, 4) + zeros + number(0, 2) + sizes + number(0, 2) + name + pickle;
  const std::string central =
      number(0x02014b50, 4) + number(0, 2) + zeros + number(0, 2) + sizes + zeros + number(0, 4) + number(0, 4) + name;
  return local + central + number(0x06054b50, 4) + number(0, 4) + number(1, 2) + number(1, 2) +
         number(central.size(), 4) + number(local.size(), 4) + number(0, 2);
}

TEST_F(DamageTest, APickleThatNamesAFunctionIsRefusedByItsName) {
  using namespace std::string_literals;
  const std::string path = dir_.path() / "evil.pt";
  for (const std::string& pickle : {"\x80\x02"s + "cos\nsystem\n" + "X\x05\0\0\0touch\x85R."s,
                                    "\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x05touch\x85R."s}) {
    std::ofstream(path, std::ios::binary) << zipped_pickle(pickle);
    EXPECT_ERROR(TorchFile file(path), path, "the global 'os.system'", "does not allow");
  }
}

}  // namespace
}  // namespace dlrm
