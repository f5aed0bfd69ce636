// What a run is told: one YAML file, changed by --set key=value. Every key is in the table in config.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/schedule.h"

namespace dlrm {

struct OptimizerConfig {
  std::string name = "sgd";
  double lr = 0.1;
  double eps = -1;  // below 0: the optimizer's default, which load_config fills in

  bool operator==(const OptimizerConfig&) const = default;
};

struct Config {
  struct {
    std::string path;
    int64_t batch = 2048;
  } data;
  struct {
    int64_t dim = 64;
    std::vector<int64_t> bottom = {512, 256, 64};
    std::vector<int64_t> top = {512, 256, 1};
    std::string precision = "fp32";
  } model;
  struct {
    std::string codec = "pfor";
    std::string dtype = "fp32";
    OptimizerConfig optimizer;
  } embedding;
  struct {
    int64_t steps = 0;
    int64_t epochs = 1;
    int64_t seed = 1;
    std::string device = "auto";
    int64_t threads = 0;
    std::string output;
    bool resume = false;
    std::string init_from;
    int64_t evaluate_every = 0;
    int64_t checkpoint_every = 0;
    int64_t keep_checkpoints = 2;
    double target_auc = 0;
    int64_t log_every = 100;
    OptimizerConfig optimizer;
    Schedule schedule;
  } train;
  struct {
    std::string backend = "auto";
  } comm;
};

/// The file, then `sets` ("train.steps=500"; the value is YAML: model.top=[64,1]). Throws Error naming file and line,
/// key, expected and found; an unknown key or name also gets the nearest valid one.
Config load_config(const std::string& path, const std::vector<std::string>& sets);
/// The same for the text of a file; `name` is what errors call it.
Config parse_config(const std::string& yaml, const std::string& name, const std::vector<std::string>& sets = {});

/// Every key with its value, loadable again.
std::string to_yaml(const Config& config);

/// Every key with its default and meaning, for --help.
std::string config_help();

}  // namespace dlrm
