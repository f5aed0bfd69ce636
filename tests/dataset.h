// Small data sets for tests.
#pragma once
#include <filesystem>
#include <string>

#include "data/split_binary.h"
#include "kernels/random.h"

namespace dlrm {

/// Samples [first, first + count) of a data set that is a function of the sample's number.
inline Batch sample_rows(const std::vector<int64_t>& cardinalities, int64_t numerical, int64_t first, int64_t count) {
  Batch batch;
  batch.size = count;
  batch.first_sample = first;
  for (int64_t i = first; i < first + count; ++i) {
    batch.labels.push_back(float(philox(1, uint64_t(i), 0).word[0] % 3 == 0));
    for (int64_t k = 0; k < numerical; ++k)
      batch.numerical.push_back(float(int(philox(2, uint64_t(i), uint64_t(k)).word[0] % 64) - 32) / 16.0f);
  }
  for (size_t t = 0; t < cardinalities.size(); ++t) {
    for (int64_t i = first; i < first + count; ++i) {
      const double u = uniform_float(philox(3, uint64_t(i), t).word[0]);
      batch.ids.push_back(int64_t(u * u * double(cardinalities[t])));
    }
  }
  return batch;
}

inline void make_dataset(const std::filesystem::path& directory, int64_t train, int64_t test,
                         const std::vector<int64_t>& cardinalities, int64_t numerical = 3) {
  SplitBinaryWriter writer(directory, make_feature_spec(numerical, cardinalities));
  writer.append("train", sample_rows(cardinalities, numerical, 0, train));
  writer.append("test", sample_rows(cardinalities, numerical, train, test));
  writer.finish();
}

}  // namespace dlrm
