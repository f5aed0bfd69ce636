// Raw Criteo rows to a split_binary data set, in NVIDIA's rules. This version holds the vocabulary in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dlrm {

struct PreprocessOptions {
  std::vector<std::string> inputs;  // plain or gzip TSV, in time order
  std::string output;               // directory to make
  double test_fraction = 0.1;       // the last part of the rows
  int64_t frequency_limit = 0;      // values seen fewer times share id 0 with missing ones
  int64_t modulo = 0;  // not 0: id = value mod this, a missing value counting as 0, instead of a vocabulary
  std::function<void(int pass, int64_t rows)> progress;  // now and then
};

struct PreprocessSummary {
  int64_t train_rows = 0, test_rows = 0, positives = 0;
  std::vector<int64_t> cardinalities;
};

/// Two passes. The first counts each column's values over all rows; those seen frequency_limit times or more get the
/// ids 1, 2, ... by descending count, equal counts by ascending value; id 0 is missing, rare or unseen. The second
/// encodes. Throws Error naming file, row and column where the input is bad; no feature_spec.yaml is left then.
PreprocessSummary preprocess(const PreprocessOptions& options);

}  // namespace dlrm
