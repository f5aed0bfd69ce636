#include "dlrm/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <limits>
#include <map>
#include <set>
#include <variant>

#include "data/files.h"
#include "data/yaml.h"
#include "dlrm/nearest.h"
#include "kernels/codecs/codecs.h"
#include "kernels/device.h"
#include "kernels/error.h"
#include "kernels/optimizer.h"

namespace dlrm {
namespace {

// The table of keys ---------------------------------------------------------------------------------------------------

using Member = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<int64_t>*>;

// What a value may be: numbers (each of a list) within [low, high], strings one of `choices` unless that is empty.
struct Rule {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices;
};

Rule any() {
  return {};
}
Rule at_least(double low) {
  return {low};
}
Rule between(double low, double high) {
  return {low, high};
}
Rule one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const CodecId id : kCodecs) names.push_back(codec_name(id));
  names.push_back("auto");
  return names;
}

struct Key {
  std::string name;  // with its sections: train.optimizer.lr
  Member (*member)(Config& config);
  Rule rule;
  std::string meaning;
};

// A key is called as the member it sets, so the two cannot drift apart.
#define KEY(path) #path, [](Config & config) -> Member { return &config.path; }

constexpr double kMaxWidth = 1 << 20;  // of a layer or row, so that products of two sizes stay far from overflow
constexpr double kMaxBatch = 1 << 24;
constexpr double kBelowOne = 1 - 1e-6;  // so that a float is below 1, too
constexpr double kMaxFloat = std::numeric_limits<float>::max();

// In the order in which they are printed; the keys of a section stand together.
const std::vector<Key>& keys() {
  static const std::vector<Key> table = {
      {KEY(data.path), any(), "directory of the data set"},
      {KEY(data.batch), between(1, kMaxBatch), "samples per step, over all ranks"},
      {KEY(model.dim), between(1, kMaxWidth), "width of an embedding row"},
      {KEY(model.bottom), between(1, kMaxWidth), "layer widths of the bottom MLP; the last is model.dim"},
      {KEY(model.top), between(1, kMaxWidth), "layer widths of the top MLP; the last is 1"},
      {KEY(model.precision), one_of({kPrecisionNames.begin(), kPrecisionNames.end()}),
       "arithmetic of the MLPs and the interaction"},
      {KEY(embedding.codec), one_of(codec_names()),
       "how rows are compressed; every codec gives the same bits; auto: the smallest for what a table holds"},
      {KEY(embedding.lookup_rounding), one_of({"nearest", "truncate"}),
       "bf16 of rows for a bf16 model; truncate reads less of a compressed row"},
      {KEY(embedding.dtype), one_of({kDTypeNames.begin(), kDTypeNames.end()}),
       "numbers that rows are made of; bf16 rows are rounded stochastically after each step"},
      {KEY(embedding.optimizer.name), one_of({kOptimizerNames.begin(), kOptimizerNames.end()}),
       "optimizer of the tables"},
      {KEY(embedding.optimizer.lr), between(0, kMaxFloat), "learning rate of the tables"},
      {KEY(embedding.optimizer.eps), between(0, kMaxFloat), "0: 1e-10 for adagrad, 1e-8 for rowwise_adagrad and adam"},
      {KEY(embedding.optimizer.beta1), between(0, kBelowOne), "of adam: decay of the average of gradients"},
      {KEY(embedding.optimizer.beta2), between(0, kBelowOne), "of adam: decay of the average of their squares"},
      {KEY(train.steps), at_least(0), "steps to train; 0: as many as train.epochs asks"},
      {KEY(train.epochs), at_least(1), "passes over the training data, where train.steps is 0"},
      {KEY(train.seed), any(), "of initial values and random rounding"},
      {KEY(train.device), one_of({"auto", "cpu", "cuda"}), "auto: cuda where there is a GPU"},
      {KEY(train.threads), between(0, 4096), "CPU threads; 0: all"},
      {KEY(train.output), any(), "directory that checkpoints and logs are written to"},
      {KEY(train.resume), any(), "continue from the last checkpoint in train.output"},
      {KEY(train.init_from), any(),
       "checkpoint, also another program's, that gives the initial weights; empty: random ones"},
      {KEY(train.evaluate_every), at_least(0), "steps between evaluations; 0: only at the end"},
      {KEY(train.checkpoint_every), at_least(0), "steps between checkpoints; 0: only at the end"},
      {KEY(train.keep_checkpoints), at_least(1), "checkpoints kept; older ones are removed"},
      {KEY(train.target_auc), between(0, 1), "stop once an evaluation reaches it; 0: never"},
      {KEY(train.log_every), at_least(1), "steps between progress lines"},
      {KEY(train.optimizer.name), one_of({"sgd", "adagrad", "adam"}), "optimizer of the MLPs"},
      {KEY(train.optimizer.lr), between(0, kMaxFloat), "learning rate of the MLPs"},
      {KEY(train.optimizer.eps), between(0, kMaxFloat), "0: 1e-10 for adagrad, 1e-8 for adam"},
      {KEY(train.optimizer.beta1), between(0, kBelowOne), "of adam: decay of the average of gradients"},
      {KEY(train.optimizer.beta2), between(0, kBelowOne), "of adam: decay of the average of their squares"},
      {KEY(train.schedule.warmup), at_least(0), "steps of linear warm-up of both learning rates"},
      {KEY(train.schedule.decay_start), at_least(0), "step at which quadratic decay begins"},
      {KEY(train.schedule.decay_steps), at_least(0), "steps from there to a learning rate of 0; 0: no decay"},
      {KEY(comm.backend), one_of({"auto", "single"}), "how ranks talk to each other"},
  };
  return table;
}

// Values: how each type is named, read, checked and written -----------------------------------------------------------

template <class Number>
constexpr bool kIsNumber = std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>;

std::string type_name(bool) {
  return "true or false";
}
std::string type_name(int64_t) {
  return "a whole number";
}
std::string type_name(uint64_t) {
  return "a whole number";
}
std::string type_name(double) {
  return "a number";
}
std::string type_name(const std::string&) {
  return "a string";
}
std::string type_name(const std::vector<int64_t>&) {
  return "a list of whole numbers";
}

// yaml-cpp marks scalars in quotes, which are strings whatever they spell, with the tag "!".
bool is_plain(const YAML::Node& node) {
  return node.IsScalar() && node.Tag() != "!";
}

// Strict on purpose: as<int>() of yaml-cpp reads 010 as 8.
template <class Number>
requires kIsNumber<Number>
bool parse(const YAML::Node& node, Number& value) {
  if (!is_plain(node)) return false;
  const std::string& digits = node.Scalar();
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  return error == std::errc() && stop == end;
}
bool parse(const YAML::Node& node, bool& value) {
  if (!is_plain(node)) return false;
  value = node.Scalar() == "true";
  return value || node.Scalar() == "false";
}
bool parse(const YAML::Node& node, std::string& value) {
  if (!node.IsScalar()) return false;
  value = node.Scalar();
  return true;
}
bool parse(const YAML::Node& node, std::vector<int64_t>& values) {
  if (!node.IsSequence()) return false;
  values.resize(node.size());
  return std::equal(node.begin(), node.end(), values.begin(),
                    [](const YAML::Node& element, int64_t& value) { return parse(element, value); });
}

template <class Number>
requires kIsNumber<Number>
bool allows(const Rule& rule, Number value) {
  return double(value) >= rule.low && double(value) <= rule.high;  // false for NaN
}
bool allows(const Rule&, bool) {
  return true;
}
bool allows(const Rule& rule, const std::string& value) {
  return rule.choices.empty() || std::find(rule.choices.begin(), rule.choices.end(), value) != rule.choices.end();
}
bool allows(const Rule& rule, const std::vector<int64_t>& values) {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [&](int64_t value) { return allows(rule, value); });
}

template <class Number>
requires kIsNumber<Number> std::string print(Number value) {
  char digits[32];
  return {digits, std::to_chars(digits, std::end(digits), value).ptr};
}
std::string print(bool value) {
  return value ? "true" : "false";
}
std::string print(const std::string& value) {
  const auto is_safe = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.'; };
  const auto is_safe_later = [&](char c) { return is_safe(c) || c == '_' || c == '-'; };
  const bool plain = !value.empty() && is_safe(value[0]) && std::all_of(value.begin(), value.end(), is_safe_later);
  const bool spells_nothing = value == "null" || value == "Null" || value == "NULL";
  if (plain && !spells_nothing) return value;
  std::ostringstream quoted;  // YAML 1.2, section 5.7
  for (const char c : value) {
    if (c == '"' || c == '\\')
      quoted << '\\' << c;
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted << "\\x" << std::hex << std::setw(2) << std::setfill('0') << int(c);
    else
      quoted << c;
  }
  return '"' + quoted.str() + '"';
}
std::string print(const std::vector<int64_t>& values) {
  std::string list;
  for (const int64_t value : values) list += (list.empty() ? "" : ", ") + print(value);
  return '[' + list + ']';
}

std::string join(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

// "a whole number, 1 or more".
template <class T>
std::string expected(const Rule& rule, const T& value) {
  if (rule.choices.size() == 1) return rule.choices[0];
  if (!rule.choices.empty()) return "one of " + join(rule.choices);
  const std::string each = std::is_class_v<T> ? "each " : "";
  if (std::isinf(rule.low)) return type_name(value);
  if (rule.high >= kMaxFloat) return type_name(value) + ", " + each + print(rule.low) + " or more";
  return type_name(value) + ", " + each + print(rule.low) + " to " + print(rule.high);
}

std::string found(const YAML::Node& node) {
  if (node.IsScalar()) return "'" + node.Scalar() + "'";
  if (!node.IsSequence()) return node.IsMap() ? "a mapping" : "nothing";
  std::vector<std::string> elements;
  for (const YAML::Node& element : node) elements.push_back(element.IsScalar() ? element.Scalar() : "...");
  return text("[", join(elements), "]");
}

// Reading -------------------------------------------------------------------------------------------------------------

bool is_within(const std::string& name, const std::string& section) {
  return section.empty() || name.starts_with(section + ".");
}

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

// The keys and sections that stand directly in `section`, with their full names; "" for the outermost.
std::vector<std::string> children(const std::string& section) {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (!is_within(key.name, section)) continue;
    const size_t start = section.empty() ? 0 : section.size() + 1;
    const std::string name = key.name.substr(0, key.name.find('.', start));
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

// A slip of the fingers, or the right word in the wrong section.
std::string hint_for_unknown_key(const std::string& name, const std::string& section) {
  std::vector<std::string> candidates = children(section);
  for (const Key& key : keys()) candidates.push_back(key.name);
  if (std::string hint = did_you_mean(name, candidates); !hint.empty()) return hint;
  for (const std::string& near : {section, std::string()}) {
    for (const Key& key : keys()) {
      if (is_within(key.name, near) && last_part(key.name) == last_part(name))
        return " Did you mean '" + key.name + "'?";
    }
  }
  return "";
}

// Of a key or section; `where` begins the message.
void check_known(const std::string& name, const std::string& where) {
  const bool known = std::any_of(keys().begin(), keys().end(),
                                 [&](const Key& key) { return key.name == name || is_within(key.name, name); });
  if (known) return;
  const std::string section = name.substr(0, name.find('.') == std::string::npos ? 0 : name.rfind('.'));
  std::vector<std::string> valid = children(section);
  for (std::string& child : valid) child = last_part(child);
  fail(where, "unknown key '", name, "', expected ", valid.empty() ? "a known section" : "one of " + join(valid), ".",
       hint_for_unknown_key(name, section));
}

// One file or override that gives values to a config.
class Reader {
 public:
  /// `name` begins the messages, followed by a line number where it is a file's.
  Reader(std::string name, bool is_file, Config& config, std::map<std::string, std::string>& set_at)
      : name_(std::move(name)), is_file_(is_file), config_(config), set_at_(set_at) {}

  /// Reads the key or section called `name` ("": everything), which is a known one, from its value.
  void read(const std::string& name, const YAML::Node& node) {
    const auto key = std::find_if(keys().begin(), keys().end(), [&](const Key& k) { return k.name == name; });
    key != keys().end() ? read_key(*key, node) : read_section(name, node);
  }

 private:
  void read_key(const Key& key, const YAML::Node& node) {
    const auto read = [&](auto* member) {
      if (parse(node, *member) && allows(key.rule, *member)) return;
      const std::string hint = node.IsScalar() ? did_you_mean(node.Scalar(), key.rule.choices) : "";
      fail(at(node), key.name, ": expected ", expected(key.rule, *member), "; found ", found(node), ".", hint);
    };
    std::visit(read, key.member(config_));
    set_at_[key.name] = at(node);
  }

  void read_section(const std::string& section, const YAML::Node& node) {
    if (node.IsNull()) return;  // "train:" with nothing below it
    check(node.IsMap(), at(node), section.empty() ? "the file" : section, ": expected a mapping; found ", found(node));
    std::set<std::string> seen;
    for (const auto& entry : node) {
      check(entry.first.IsScalar(), at(entry.first), "expected the name of a key; found ", found(entry.first));
      const std::string name = (section.empty() ? "" : section + ".") + entry.first.Scalar();
      check_known(name, at(entry.first));
      check(seen.insert(name).second, at(entry.first), name, ": expected once; found twice");
      read(name, entry.second);
    }
  }

  std::string at(const YAML::Node& node) const {
    return is_file_ ? text(name_, ":", node.Mark().line + 1, ": ") : name_ + ": ";
  }

  std::string name_;
  bool is_file_;
  Config& config_;
  std::map<std::string, std::string>& set_at_;
};

void read_override(const std::string& set, Config& config, std::map<std::string, std::string>& set_at) {
  const std::string where = "--set " + set;
  const size_t equals = set.find('=');
  check(equals != std::string::npos, where, ": expected key.path=value; found no '='");
  const std::string name = set.substr(0, equals);
  check_known(name, where + ": ");
  Reader(where, false, config, set_at).read(name, parse_yaml(set.substr(equals + 1), where));
}

// What concerns more than one key -------------------------------------------------------------------------------------

double usual_eps(const std::string& optimizer) {
  if (optimizer == "adagrad") return 1e-10;         // torch.optim.Adagrad
  if (optimizer == "rowwise_adagrad") return 1e-8;  // FBGEMM
  if (optimizer == "adam") return 1e-8;             // torch.optim.Adam, SparseAdam
  return 0.0;                                       // sgd has none
}

void resolve(OptimizerConfig& optimizer) {
  if (optimizer.eps == 0.0) optimizer.eps = usual_eps(optimizer.name);
}

void check_last_layer(const std::vector<int64_t>& layers, int64_t width, const std::string& key,
                      const std::string& reason, const std::string& where) {
  check(layers.back() == width, where, key, ": expected the last layer to be ", width, reason, "; found ",
        layers.back());
}

}  // namespace

Config parse_config(const std::string& yaml, const std::string& name, std::span<const std::string> sets) {
  Config config;
  std::map<std::string, std::string> set_at;  // key -> how messages about it begin
  Reader(name, true, config, set_at).read("", parse_yaml(yaml, name));
  for (const std::string& set : sets) read_override(set, config, set_at);

  const auto where = [&](const std::string& key) { return set_at.contains(key) ? set_at[key] : name + ": "; };
  check_last_layer(config.model.bottom, config.model.dim, "model.bottom", " (model.dim)", where("model.bottom"));
  check_last_layer(config.model.top, 1, "model.top", "", where("model.top"));
  const Schedule& schedule = config.train.schedule;
  check(schedule.decay_steps == 0 || schedule.decay_start >= schedule.warmup, where("train.schedule.decay_start"),
        "train.schedule.decay_start: expected ", schedule.warmup, " (train.schedule.warmup) or more; found ",
        schedule.decay_start);
  resolve(config.embedding.optimizer);
  resolve(config.train.optimizer);
  return config;
}

Config load_config(const std::string& path, std::span<const std::string> sets) {
  return parse_config(read_text(path), path, sets);
}

// Writing -------------------------------------------------------------------------------------------------------------

namespace {

// Every key of `config`, each with a comment where `comments`.
std::string write(Config config, bool comments) {
  constexpr int kCommentColumn = 28;
  std::ostringstream out;
  std::vector<std::string> open;  // sections
  for (const Key& key : keys()) {
    std::vector<std::string> sections;
    std::istringstream parts(key.name);
    for (std::string part; std::getline(parts, part, '.');) sections.push_back(part);
    sections.pop_back();
    for (size_t depth = 0; depth < sections.size(); ++depth) {
      if (depth < open.size() && open[depth] == sections[depth]) continue;
      open.resize(depth);
      open.push_back(sections[depth]);
      out << std::string(2 * depth, ' ') << sections[depth] << ":\n";
    }
    open = sections;
    const auto print_value = [](const auto* member) { return print(*member); };
    const auto print_expected = [&](const auto* member) { return expected(key.rule, *member); };
    const Member member = key.member(config);
    std::string line = std::string(2 * sections.size(), ' ') + last_part(key.name) + ": ";
    line += std::visit(print_value, member);
    if (comments) {
      line.resize(std::max<size_t>(line.size(), kCommentColumn), ' ');
      line += "  # " + key.meaning + " (" + std::visit(print_expected, member) + ")";
    }
    out << line << '\n';
  }
  return out.str();
}

}  // namespace

std::string to_yaml(const Config& config) {
  return write(config, false);
}
std::string config_help() {
  return write({}, true);
}

}  // namespace dlrm
