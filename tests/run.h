// Small runs for tests: a data set and a config in a temporary directory.
#pragma once
#include "data/split_binary.h"
#include "dlrm/config.h"
#include "tests/dataset.h"
#include "tests/temp_dir.h"

namespace dlrm {

inline const std::vector<int64_t> kRunTables = {3, 40, 500, 7};

/// A data set in dir/data and a config that trains on it into dir/run.
inline Config run_config(const TempDir& dir, int64_t train, int64_t test, const std::string& device = "cpu") {
  make_dataset(dir.path() / "data", train, test, kRunTables);
  Config config;
  config.data.path = dir / "data";
  config.data.batch = 16;
  config.model.dim = 16;
  config.model.bottom = {8, 16};
  config.model.top = {8, 1};
  config.embedding.optimizer = {"adagrad", 0.05, 1e-10};
  config.train.optimizer = {"adagrad", 0.05, 1e-10};
  config.train.device = device;
  config.train.output = dir / "run";
  return config;
}

}  // namespace dlrm
