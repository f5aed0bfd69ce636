// Data sets with the shape and skew of Criteo's, and labels that can be learnt: a planted model gives each row its
// odds.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"

namespace dlrm {

struct GenerateOptions {
  std::string output;                   // directory to make
  int64_t rows = 0;                     // train and test together
  std::string shape = "criteo-kaggle";  // or criteo-tb
  double scale = 0.001;                 // of the tables' sizes; 1: the true cardinalities
  int64_t max_rows_per_table = 0;       // 0: no limit
  uint64_t seed = 1;
  double test_fraction = 0.1;  // the last part of the rows
  std::function<void(int64_t rows)> progress;
};

struct GenerateSummary {
  int64_t train_rows = 0, test_rows = 0;
  double label_rate = 0;
  std::optional<double> planted_auc;  // of the planted model itself, on the test split
  std::vector<int64_t> cardinalities;
};

/// Rows are a function of (seed, row), whatever the number of threads. Throws Error where the output holds a data set
/// already.
GenerateSummary generate(const GenerateOptions& options);

/// What generate() writes, row by row.
class Generator {
 public:
  /// `rows`: of the whole data set; decides which ids carry an effect. max_rows_per_table 0: no limit.
  Generator(const std::string& shape, double scale, int64_t max_rows_per_table, uint64_t seed, int64_t rows);

  const std::vector<int64_t>& cardinalities() const { return cardinalities_; }
  int64_t numerical_features() const;
  /// Rows [first, first + count).   odds [count]: the planted model's logits
  void make(int64_t first, int64_t count, Batch& batch, std::vector<float>& odds) const;

 private:
  struct Table {
    int64_t values = 0;          // ids 1 .. values
    double exponent = 0;         // of the power law
    double missing = 0;          // share of id 0
    double atom = 0;             // of the rest: share of id 1 beyond its part of the power law
    double fresh = 0;            // of the rest: share of uniformly drawn ids
    int missing_group = 0;       // tables of a group miss their value together
    int64_t first_plain_id = 0;  // ids from here on carry no effect
    double norm = 0;             // integral of the power law
  };

  struct Integer {
    double missing;
    double quantiles[4];  // 10 %, 50 %, 90 %, 99 %
  };

  double probability(const Table& table, int64_t id) const;
  int64_t draw_id(const Table& table, uint32_t choice, uint32_t position, bool missing, bool atom) const;
  double effect(size_t table, int64_t id) const;
  float make_row(int64_t row, float* numerical, int64_t* ids, int64_t stride, float& label) const;

  uint64_t seed_;
  std::vector<Table> tables_;
  std::vector<Integer> integers_;
  std::vector<int64_t> cardinalities_;
  double bias_ = 0;
};

}  // namespace dlrm
