// NVIDIA's split_binary data sets: one headerless file per label, numerical features and table, for each split.
#pragma once
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/feature_spec.h"
#include "data/files.h"

namespace dlrm {

/// One split of a data set, for reading.
class Split {
 public:
  /// Throws Error where a file is missing, or its size disagrees with the label's.
  Split(const std::filesystem::path& directory, const FeatureSpec& spec, const std::string& name);

  int64_t samples() const { return samples_; }
  /// Samples [first, first + count). May be called by several threads. Throws Error naming file and sample where a
  /// label is not 0 or 1, an id is not below its table's cardinality, or a numerical feature is not finite.
  void read(int64_t first, int64_t count, Batch& batch) const;

 private:
  struct Column {
    std::unique_ptr<InputFile> file;
    size_t bytes = 0;  // of one sample
    int64_t cardinality = 0;
  };

  Column open(const std::filesystem::path& path, size_t bytes) const;

  int64_t numerical_features_ = 0, samples_ = 0;
  Column label_, numerical_;
  std::vector<Column> tables_;
};

class Dataset {
 public:
  static Dataset open(const std::filesystem::path& directory);

  const FeatureSpec& spec() const { return spec_; }
  const std::vector<FeatureSpec::Table>& tables() const { return spec_.tables; }
  int64_t numerical_features() const { return int64_t(spec_.numerical.size()); }
  /// As recorded with the data; NVIDIA's data sets, which record none, have ln(x+3).
  std::string numerical_transform() const;
  const Split& train() const { return splits_[0]; }
  const Split& test() const { return splits_[1]; }
  /// "train" or "test".
  const Split& split(const std::string& name) const;

 private:
  FeatureSpec spec_;
  std::vector<Split> splits_;
};

/// Makes a data set. Until finish() there is no feature_spec.yaml, so that a half-made one is never taken for a whole
/// one.
class SplitBinaryWriter {
 public:
  /// Makes the directory. Throws Error where it holds a data set already.
  SplitBinaryWriter(const std::filesystem::path& directory, FeatureSpec spec);
  /// Appends to "train" or "test". One id per bag; numerical features are rounded to half precision.
  /// Throws Error naming the file where it cannot be written.
  void append(const std::string& split, const Batch& batch);
  FeatureSpec& spec() { return spec_; }
  void finish();

 private:
  struct Column {
    std::string path;
    std::ofstream file;
  };
  struct Files {
    Column label, numerical;
    std::vector<Column> tables;
  };

  Files create(const FeatureSpec::Files& names) const;

  std::filesystem::path directory_;
  FeatureSpec spec_;
  Files train_, test_;
};

}  // namespace dlrm
