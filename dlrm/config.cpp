#include "dlrm/config.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <set>

#include "data/files.h"
#include "data/yaml.h"
#include "dlrm/nearest.h"
#include "dlrm/table_text.h"
#include "kernels/codecs/codecs.h"
#include "kernels/optimizer.h"

namespace dlrm {
namespace {

// Values --------------------------------------------------------------------------------------------------------------

constexpr const char* kind_of(const int64_t&) {
  return "a whole number";
}
constexpr const char* kind_of(const double&) {
  return "a number";
}
constexpr const char* kind_of(const bool&) {
  return "true or false";
}
constexpr const char* kind_of(const std::string&) {
  return "a word";
}
constexpr const char* kind_of(const std::vector<int64_t>&) {
  return "a list of whole numbers";
}

std::string yaml_of(int64_t value) {
  return std::to_string(value);
}
std::string yaml_of(bool value) {
  return value ? "true" : "false";
}
std::string yaml_of(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
std::string yaml_of(const std::string& value) {
  std::string quoted = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}
std::string yaml_of(const std::vector<int64_t>& values) {
  std::string list;
  for (int64_t value : values) list += (list.empty() ? "" : ", ") + std::to_string(value);
  return "[" + list + "]";
}

/// What a value must be, beyond its type. Throws Error where it is not.
template <class T>
using Rule = std::function<void(const std::string& where, const T& value)>;

template <class T>
Rule<T> anything() {
  return [](const std::string&, const T&) {};
}

Rule<int64_t> at_least(int64_t least) {
  return [least](const std::string& where, int64_t value) {
    check(value >= least, where, ": expected ", least, " or more, found ", value);
  };
}

Rule<double> number(double least, double most) {
  return [=](const std::string& where, double value) {
    check(std::isfinite(value) && value >= least && value <= most, where, ": expected a number from ", yaml_of(least),
          std::isfinite(most) ? " to " + yaml_of(most) : " up", ", found ", yaml_of(value));
  };
}

Rule<std::string> one_of(std::vector<std::string> names) {
  return [names](const std::string& where, const std::string& value) {
    if (std::find(names.begin(), names.end(), value) != names.end()) return;
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    fail(where, ": expected one of ", all, ", found '", value, "'.", did_you_mean(value, names));
  };
}

void check_widths(const std::string& where, const std::vector<int64_t>& widths) {
  check(!widths.empty(), where, ": expected one layer width or more, found none");
  for (int64_t width : widths) check(width >= 1, where, ": expected widths of 1 or more, found ", width);
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (CodecId id : kCodecs) names.push_back(codec_name(id));
  return names;
}

// Keys ----------------------------------------------------------------------------------------------------------------

struct Key {
  std::string name;
  std::string meaning;
  std::function<void(Config&, const YAML::Node&, const std::string& where)> read;
  std::function<std::string(const Config&)> write;
};

/// `member` gives the key's place in a Config.
template <class Member, class T = std::remove_reference_t<std::invoke_result_t<Member, Config&>>>
Key key(const std::string& name, Member member, std::type_identity_t<Rule<T>> rule, const std::string& meaning) {
  const auto read = [=](Config& config, const YAML::Node& node, const std::string& where) {
    T value{};
    try {
      value = node.as<T>();
    } catch (const YAML::Exception&) {
      const std::string found = node.IsScalar() ? "'" + node.Scalar() + "'" : node.IsMap() ? "a mapping" : "a list";
      fail(where, ": expected ", kind_of(value), ", found ", node.IsNull() ? "nothing" : found);
    }
    rule(where, value);
    member(config) = value;
  };
  return {name, meaning, read, [=](const Config& config) { return yaml_of(member(const_cast<Config&>(config))); }};
}

const double kInfinity = std::numeric_limits<double>::infinity();

void add_optimizer(std::vector<Key>& keys, const std::string& name, OptimizerConfig& (*member)(Config&),
                   const std::vector<std::string>& optimizers, const std::string& what) {
  keys.push_back(key(
      name + ".name", [=](Config & c) -> auto& { return member(c).name; }, one_of(optimizers), "Optimizer of " + what));
  keys.push_back(key(
      name + ".lr", [=](Config & c) -> auto& { return member(c).lr; }, number(0, kInfinity), "Its base learning rate"));
  keys.push_back(key(
      name + ".eps", [=](Config & c) -> auto& { return member(c).eps; }, number(-1, kInfinity),
      "Its epsilon; -1: 1e-10 for adagrad, 1e-8 for rowwise_adagrad"));
}

#define MEMBER(path)        \
  [](Config & c) -> auto& { \
    return c.path;          \
  }

std::vector<Key> make_keys() {
  const auto any_text = anything<std::string>();
  std::vector<Key> keys = {
      key("data.path", MEMBER(data.path), any_text, "Directory with feature_spec.yaml"),
      key("data.batch", MEMBER(data.batch), at_least(1), "Samples of one training step"),
      key("model.dim", MEMBER(model.dim), at_least(1), "Elements of one embedding row"),
      key("model.bottom", MEMBER(model.bottom), check_widths, "Layer widths of the bottom MLP; the last is model.dim"),
      key("model.top", MEMBER(model.top), check_widths, "Layer widths of the top MLP; the last is 1"),
      key("model.precision", MEMBER(model.precision), one_of({"fp32", "tf32", "bf16"}), "Arithmetic of the MLPs"),
      key("embedding.codec", MEMBER(embedding.codec), one_of(codec_names()), "How rows are stored; all are lossless"),
      key("embedding.dtype", MEMBER(embedding.dtype), one_of({"fp32"}), "Type of the elements of a row"),
  };
  add_optimizer(
      keys, "embedding.optimizer", [](Config & c) -> auto& { return c.embedding.optimizer; },
      {kOptimizerNames.begin(), kOptimizerNames.end()}, "the tables");
  const std::vector<Key> train = {
      key("train.steps", MEMBER(train.steps), at_least(0), "Steps to train; 0: as train.epochs says"),
      key("train.epochs", MEMBER(train.epochs), at_least(1), "Passes over the training data, where train.steps is 0"),
      key("train.seed", MEMBER(train.seed), at_least(0), "Of every random number"),
      key("train.device", MEMBER(train.device), any_text, "auto (a GPU if there is one), cpu, cuda"),
      key("train.threads", MEMBER(train.threads), at_least(0), "CPU threads; 0: all. Results do not depend on it"),
      key("train.output", MEMBER(train.output), any_text, "Directory of the run: logs and checkpoints"),
      key("train.resume", MEMBER(train.resume), anything<bool>(),
          "Continue from the newest checkpoint in train.output"),
      key("train.init_from", MEMBER(train.init_from), any_text, "Checkpoint or run whose weights to start from"),
      key("train.evaluate_every", MEMBER(train.evaluate_every), at_least(0), "Steps; 0: only at the end"),
      key("train.checkpoint_every", MEMBER(train.checkpoint_every), at_least(0), "Steps; 0: only at the end"),
      key("train.keep_checkpoints", MEMBER(train.keep_checkpoints), at_least(1), "How many of the newest are kept"),
      key("train.target_auc", MEMBER(train.target_auc), number(0, 1), "Stop when the test AUC reaches it; 0: never"),
      key("train.log_every", MEMBER(train.log_every), at_least(1), "Steps between lines of the log"),
  };
  keys.insert(keys.end(), train.begin(), train.end());
  add_optimizer(
      keys, "train.optimizer", [](Config & c) -> auto& { return c.train.optimizer; }, {"sgd", "adagrad"}, "the MLPs");
  const std::vector<Key> rest = {
      key("train.schedule.warmup", MEMBER(train.schedule.warmup), at_least(0), "Steps of linear warm-up from 0"),
      key("train.schedule.decay_start", MEMBER(train.schedule.decay_start), at_least(0), "Step where decay begins"),
      key("train.schedule.decay_steps", MEMBER(train.schedule.decay_steps), at_least(0),
          "Steps of polynomial decay (power 2) to 0; 0: none"),
      key("comm.backend", MEMBER(comm.backend), one_of({"auto", "single"}), "How ranks talk; so far there is one rank"),
  };
  keys.insert(keys.end(), rest.begin(), rest.end());
  return keys;
}

#undef MEMBER

const std::vector<Key>& all_keys() {
  static const std::vector<Key> keys = make_keys();
  return keys;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : all_keys()) names.push_back(key.name);
  return names;
}

// Reading -------------------------------------------------------------------------------------------------------------

bool is_section(const std::string& name) {
  for (const Key& key : all_keys())
    if (key.name.starts_with(name + ".")) return true;
  return false;
}

void read_key(Config& config, const std::string& name, const YAML::Node& node, const std::string& where) {
  for (const Key& key : all_keys())
    if (key.name == name) return key.read(config, node, where + ": " + name);
  fail(where, ": '", name, "' is not a key.", did_you_mean(name, key_names()));
}

void read_section(Config& config, const std::string& prefix, const YAML::Node& node, const std::string& file) {
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string where = text(file, ":", entry.first.Mark().line + 1);
    const std::string word = yaml_as<std::string>(entry.first, file, "key", "a word");
    const std::string name = prefix.empty() ? word : prefix + "." + word;
    check(seen.insert(word).second, where, ": ", name, " stands here twice");
    if (!is_section(name)) {
      read_key(config, name, entry.second, where);
    } else if (!entry.second.IsNull()) {
      check(entry.second.IsMap(), where, ": ", name, ": expected a mapping");
      read_section(config, name, entry.second, file);
    }
  }
}

void read_set(Config& config, const std::string& set) {
  const size_t equals = set.find('=');
  check(equals != set.npos && equals > 0, "--set ", set, ": expected KEY=VALUE");
  YAML::Node value;
  try {
    value = YAML::Load(set.substr(equals + 1));
  } catch (const YAML::Exception& error) {
    fail("--set ", set, ": the value is not YAML: ", error.msg);
  }
  if (value.IsNull()) value = std::string();
  read_key(config, set.substr(0, equals), value, "--set");
}

void set_default_eps(OptimizerConfig& optimizer) {
  if (optimizer.eps >= 0) return;
  optimizer.eps = optimizer.name == "adagrad" ? 1e-10 : optimizer.name == "rowwise_adagrad" ? 1e-8 : 0;
}

void check_together(const Config& config, const std::string& name) {
  check(config.model.bottom.back() == config.model.dim, name, ": model.bottom: expected to end in model.dim (",
        config.model.dim, "), found ", config.model.bottom.back());
  check(config.model.top.back() == 1, name, ": model.top: expected to end in 1, found ", config.model.top.back());
}

}  // namespace

Config parse_config(const std::string& yaml, const std::string& name, const std::vector<std::string>& sets) {
  Config config;
  const YAML::Node root = parse_yaml(yaml, name);
  check(root.IsMap() || root.IsNull(), name, ": expected a mapping");
  read_section(config, "", root, name);
  for (const std::string& set : sets) read_set(config, set);
  set_default_eps(config.embedding.optimizer);
  set_default_eps(config.train.optimizer);
  check_together(config, name);
  return config;
}

Config load_config(const std::string& path, const std::vector<std::string>& sets) {
  return parse_config(read_text(path), path, sets);
}

std::string to_yaml(const Config& config) {
  std::string yaml;
  std::vector<std::string> open;  // sections around the last key
  for (const Key& key : all_keys()) {
    std::vector<std::string> path;
    for (size_t at = 0, dot; (dot = key.name.find('.', at)) != std::string::npos; at = dot + 1)
      path.push_back(key.name.substr(at, dot - at));
    size_t same = 0;
    while (same < std::min(open.size(), path.size()) && open[same] == path[same]) ++same;
    for (size_t level = same; level < path.size(); ++level) yaml += std::string(2 * level, ' ') + path[level] + ":\n";
    yaml +=
        std::string(2 * path.size(), ' ') + key.name.substr(key.name.rfind('.') + 1) + ": " + key.write(config) + "\n";
    open = path;
  }
  return yaml;
}

std::string config_help() {
  const Config defaults;
  std::string help;
  for (const Key& key : all_keys()) {
    std::string line = "  " + key.name + ": " + key.write(defaults);
    line.resize(std::max<size_t>(line.size() + 2, 42), ' ');
    help += line + key.meaning + "\n";
  }
  return help;
}

}  // namespace dlrm
