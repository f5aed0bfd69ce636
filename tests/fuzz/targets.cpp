#include "tests/fuzz/targets.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/criteo_tsv.h"
#include "data/feature_spec.h"
#include "data/npy.h"
#include "data/text_input.h"
#include "dlrm/checkpoint.h"
#include "dlrm/config.h"
#include "dlrm/weights.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const uint8_t>;

/// A directory of this process, in memory where there is such a thing.
const fs::path& directory() {
  static const fs::path path = [] {
    const fs::path root = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
    fs::path made = root / ("dlrm_fuzz_" + std::to_string(getpid()));
    fs::create_directories(made);
    std::atexit([] {
      std::error_code ignored;
      fs::remove_all(directory(), ignored);
    });
    return made;
  }();
  return path;
}

std::string write(const std::string& name, Bytes bytes) {
  const fs::path path = directory() / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  return path;
}

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// A file of Criteo rows, plain or gzip.
void text(Bytes bytes) {
  TextInput input(write("text", bytes));
  std::string_view line;
  while (input.next(line)) {
    try {
      parse_criteo_row(line, input.path(), input.line_number());
    } catch (const Error&) {  // the next row may be one
    }
  }
}

void feature_spec(Bytes bytes) {
  write("spec/feature_spec.yaml", bytes);
  read_feature_spec(directory() / "spec");
}

void npy(Bytes bytes) {
  read_npy(write("array.npy", bytes));
}

void config(Bytes bytes) {
  parse_config(std::string(bytes.begin(), bytes.end()), "config.yaml", {});
}

/// A manifest without its checksum, a zero byte, and the file of table 0. The checksum is put right, so that what it
/// guards is reached.
void checkpoint(Bytes bytes) {
  const auto end = std::find(bytes.begin(), bytes.end(), 0);
  std::string manifest(bytes.begin(), end);
  nlohmann::ordered_json j = nlohmann::ordered_json::parse(manifest, nullptr, false);
  if (j.is_object()) {
    j.erase("crc32");
    j["crc32"] = checksum_of(j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)).value();
    manifest = j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  write("checkpoint/manifest.json", bytes_of(manifest));
  write("checkpoint/tables/0.bin", end == bytes.end() ? Bytes() : Bytes(end + 1, bytes.end()));
  const Checkpoint checkpoint = open_checkpoint(directory() / "checkpoint");
  if (checkpoint.tables.empty()) return;
  sample_rows(checkpoint, 0, 100);
  visit_rows(checkpoint, 0, [](int64_t, int64_t, const float*, const float*) {});
}

/// A file of torch.save, as of facebookresearch/dlrm; zipped or not.
void torch(Bytes bytes) {
  const Weights weights = open_weights(write("model.pt", bytes));
  weights.array("bottom_0_weight");
  weights.array("top_0_weight");
  sample_rows(weights, 0, 100);
}

constexpr std::array<FuzzTarget, 6> kTargets = {{{"text", text},
                                                 {"feature_spec", feature_spec},
                                                 {"npy", npy},
                                                 {"config", config},
                                                 {"checkpoint", checkpoint},
                                                 {"torch", torch}}};

}  // namespace

const std::span<const FuzzTarget> kFuzzTargets = kTargets;

void run_target(const FuzzTarget& target, Bytes bytes) {
  try {
    target.run(bytes);
  } catch (const Error&) {
  }
}

}  // namespace dlrm
