// Everything a user can set: one YAML file, then `--set key.path=value`. What each key means, its default and what it
// may be is the table in config.cpp, which `config_help` prints; to add a key, add a member here and a line there.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlrm/schedule.h"

namespace dlrm {

struct OptimizerConfig {
  std::string name = "sgd";
  double lr = 1.0;
  double eps = 0.0;  // 0 becomes the optimizer's usual value when a config is read
  double beta1 = 0.9, beta2 = 0.999;
  bool operator==(const OptimizerConfig&) const = default;
};

struct DataSection {
  std::string path;
  int64_t batch = 2048;
  bool operator==(const DataSection&) const = default;
};

struct ModelSection {
  int64_t dim = 64;
  std::vector<int64_t> bottom = {512, 256, 64};
  std::vector<int64_t> top = {512, 256, 1};
  std::string precision = "fp32";
  bool operator==(const ModelSection&) const = default;
};

struct EmbeddingSection {
  std::string codec = "pfor";
  std::string lookup_rounding = "nearest";
  std::string dtype = "fp32";
  OptimizerConfig optimizer;
  bool operator==(const EmbeddingSection&) const = default;
};

struct TrainSection {
  int64_t steps = 0;
  int64_t epochs = 1;
  uint64_t seed = 0;
  std::string device = "auto";
  int64_t threads = 0;
  std::string output;
  bool resume = false;
  std::string init_from;
  int64_t evaluate_every = 0;
  int64_t checkpoint_every = 0;
  int64_t keep_checkpoints = 2;
  double target_auc = 0.0;
  int64_t log_every = 100;
  OptimizerConfig optimizer;
  Schedule schedule;
  bool operator==(const TrainSection&) const = default;
};

struct CommSection {
  std::string backend = "auto";
  bool operator==(const CommSection&) const = default;
};

struct Config {
  DataSection data;
  ModelSection model;
  EmbeddingSection embedding;
  TrainSection train;
  CommSection comm;
  bool operator==(const Config&) const = default;
};

/// The config of a YAML file with overrides "key.path=value", whose values are YAML too, applied in order.
/// Throws Error naming the file (or the override), the line, the key, what was expected and what was found.
Config load_config(const std::string& path, std::span<const std::string> sets = {});

/// The same for YAML that is at hand; `name` stands for the file in messages.
Config parse_config(const std::string& yaml, const std::string& name, std::span<const std::string> sets = {});

/// Every key and its value, as YAML that parses to the same config again.
std::string to_yaml(const Config& config);

/// Every key with its default and what it means, as a YAML file with comments.
std::string config_help();

}  // namespace dlrm
