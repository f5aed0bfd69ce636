// What each layout of another program's checkpoint gives; weights.cpp makes the normal form of it.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dlrm {

struct StoredLayer {
  int64_t out = 0, in = 0;                           // in: as stored, with any padding
  std::function<std::vector<float>()> weight, bias;  // [out, in], [out]
};

struct StoredTable {
  std::string name;  // of its file or entry, for errors
  int64_t rows = 0, dim = 0;
  std::function<void(int64_t first, int64_t count, float* rows)> read;  // several threads may
};

struct StoredWeights {
  std::string layout;              // for people
  std::vector<std::string> notes;  // for people
  std::vector<StoredLayer> bottom, top;
  std::vector<StoredTable> tables;  // in the order of the data set's features
  /// How the tables' vectors entered the interaction: natural, by descending rows, or as listed.
  enum class Order { natural, cardinality, listed, unknown } order = Order::natural;
  std::vector<int64_t> listed;
  std::string why_unknown;  // the order
  int64_t numerical = 0;    // features; 0: not more is known than the first layer's `in`
  std::string numerical_transform;
};

// Nothing where the path does not look like the layout at all. Throw Error where it does and something is wrong.

/// NVIDIA's TensorFlow 2 DLRM, March and July 2022: .npy files in one directory.
std::optional<StoredWeights> open_tf2_npy(const std::filesystem::path& path);
/// NVIDIA's PyTorch DLRM: .pt files of the MLPs and headerless .bin files of the tables.
std::optional<StoredWeights> open_nvidia_pytorch(const std::filesystem::path& path);
/// One file of facebookresearch/dlrm --save-model.
std::optional<StoredWeights> open_facebook(const std::filesystem::path& path);

}  // namespace dlrm
