// NVIDIA's feature_spec.yaml: what a split_binary data set holds and in which files. Feature order is the
// channel_spec's.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dlrm {

struct FeatureSpec {
  struct Table {
    std::string name;
    int64_t cardinality = 0;  // ids are 0 .. cardinality - 1
    std::string dtype;        // int8, int16, int32
  };
  struct Files {  // of one split, relative to the directory
    std::string label, numerical;
    std::vector<std::string> tables;
  };
  std::string label = "label";
  std::string label_dtype = "bool";  // or int8: one byte either way
  std::vector<std::string> numerical;
  std::vector<Table> tables;
  std::map<std::string, Files> splits;          // "train" and "test"
  std::map<std::string, std::string> metadata;  // free-form
};

/// The name that NVIDIA's tools look for.
inline constexpr const char* kFeatureSpecName = "feature_spec.yaml";

/// Checks all that upstream checks. Throws Error naming file, line where known, expected and found.
FeatureSpec read_feature_spec(const std::filesystem::path& directory);
void write_feature_spec(const std::filesystem::path& directory, const FeatureSpec& spec);

/// The smallest type whose largest value is above the cardinality.
std::string id_dtype(int64_t cardinality);
/// Bytes of one element. Throws Error where `dtype` is not a type of ids.
size_t id_bytes(const std::string& dtype);

/// A spec with the usual names (num_I, cat_I.bin) and files, for data sets we make.
FeatureSpec make_feature_spec(int64_t numerical, const std::vector<int64_t>& cardinalities);

}  // namespace dlrm
