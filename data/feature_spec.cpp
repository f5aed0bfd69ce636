#include "data/feature_spec.h"

#include <algorithm>
#include <limits>
#include <set>

#include "data/files.h"
#include "data/yaml.h"
#include "kernels/error.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

std::string located(const std::string& path, const YAML::Node& node) {
  return node.IsDefined() && node.Mark().line >= 0 ? text(path, ":", node.Mark().line + 1) : path;
}

void check_map(const std::string& path, const YAML::Node& node, const std::string& what) {
  check(node.IsDefined() && node.IsMap(), path, ": ", what, ": expected a mapping");
}

std::vector<std::string> names_of(const std::string& path, const YAML::Node& node, const std::string& what) {
  check(node.IsDefined() && node.IsSequence(), located(path, node), ": ", what, ": expected a list of features");
  std::vector<std::string> names;
  for (const YAML::Node& name : node) names.push_back(yaml_as<std::string>(name, path, what, "a feature name"));
  return names;
}

class Reader {
 public:
  Reader(const std::string& path, const YAML::Node& root) : path_(path), root_(root) {}

  FeatureSpec read() {
    check(root_.IsMap(), path_, ": expected a mapping");
    read_channels();
    read_features();
    const YAML::Node sources = root_["source_spec"];
    check_map(path_, sources, "source_spec");
    for (const auto& source : sources) {
      const std::string split = yaml_as<std::string>(source.first, path_, "source_spec", "a name");
      check(split == "train" || split == "test", path_, ": source_spec: expected train and test, found '", split, "'");
      spec_.splits[split] = read_split(split, source.second);
    }
    check(spec_.splits.size() == 2, path_, ": source_spec: expected train and test");
    const YAML::Node metadata = root_["metadata"];
    if (metadata.IsDefined() && metadata.IsMap())
      for (const auto& entry : metadata)
        if (entry.first.IsScalar() && entry.second.IsScalar())
          spec_.metadata[entry.first.Scalar()] = entry.second.Scalar();
    return spec_;
  }

 private:
  void read_channels() {
    const YAML::Node channels = root_["channel_spec"];
    check_map(path_, channels, "channel_spec");
    for (const auto& channel : channels) {
      const std::string name = yaml_as<std::string>(channel.first, path_, "channel_spec", "a name");
      check(name == "categorical" || name == "label" || name == "numerical", path_,
            ": channel_spec: expected categorical, label and numerical, found '", name, "'");
    }
    const auto labels = names_of(path_, channels["label"], "channel_spec.label");
    check(labels.size() == 1, path_, ": channel_spec.label: expected one feature, found ", labels.size());
    spec_.label = labels[0];
    spec_.numerical = names_of(path_, channels["numerical"], "channel_spec.numerical");
    for (const std::string& name : names_of(path_, channels["categorical"], "channel_spec.categorical"))
      spec_.tables.push_back({name, 0, ""});
    check(!spec_.numerical.empty() && !spec_.tables.empty(), path_,
          ": channel_spec: expected a numerical and a categorical feature at least");
  }

  /// The description of a feature; each name may be used once.
  YAML::Node feature(const std::string& name) {
    check(used_.insert(name).second, path_, ": channel_spec: feature '", name, "' stands there twice");
    const YAML::Node node = root_["feature_spec"][name];
    check(node.IsDefined() && node.IsMap(), path_, ": feature_spec: feature '", name, "' of channel_spec is missing");
    return node;
  }

  std::string dtype(const YAML::Node& node, const std::string& name, const std::vector<std::string>& allowed) {
    const std::string found = yaml_as<std::string>(node["dtype"], path_, "dtype of '" + name + "'", "a type");
    std::string list;
    for (const std::string& type : allowed) list += (list.empty() ? "" : ", ") + type;
    check(std::find(allowed.begin(), allowed.end(), found) != allowed.end(), located(path_, node), ": dtype of '", name,
          "': expected ", list, ", found '", found, "'");
    return found;
  }

  void read_features() {
    check_map(path_, root_["feature_spec"], "feature_spec");
    spec_.label_dtype = dtype(feature(spec_.label), spec_.label, {"bool", "int8", "uint8"});
    for (const std::string& name : spec_.numerical) dtype(feature(name), name, {"float16"});
    for (FeatureSpec::Table& table : spec_.tables) {
      const YAML::Node node = feature(table.name);
      table.dtype = dtype(node, table.name, {"int8", "int16", "int32"});
      table.cardinality =
          yaml_as<int64_t>(node["cardinality"], path_, "cardinality of '" + table.name + "'", "a number");
      check(table.cardinality >= 1 && table.cardinality <= int64_t(std::numeric_limits<int32_t>::max()) + 1,
            located(path_, node), ": cardinality of '", table.name, "': expected 1 .. 2^31, found ", table.cardinality);
      const YAML::Node hotness = node["hotness"];
      check(
          !hotness.IsDefined() || yaml_as<int64_t>(hotness, path_, "hotness of '" + table.name + "'", "a number") == 1,
          located(path_, node), ": hotness of '", table.name, "': expected 1, split_binary holds one id per sample");
    }
    for (const auto& entry : root_["feature_spec"]) {
      const std::string name = yaml_as<std::string>(entry.first, path_, "feature_spec", "a name");
      check(used_.count(name) == 1, path_, ": feature_spec: feature '", name, "' is in no channel");
    }
  }

  FeatureSpec::Files read_split(const std::string& split, const YAML::Node& chunks) {
    const std::string where = "source_spec." + split;
    check(chunks.IsSequence(), path_, ": ", where, ": expected a list of chunks");
    std::map<std::string, std::string> file_of;
    for (const YAML::Node& chunk : chunks) {
      check(chunk.IsMap(), located(path_, chunk), ": ", where, ": expected a mapping");
      const std::string type = yaml_as<std::string>(chunk["type"], path_, where + ": type", "split_binary");
      check(type == "split_binary", located(path_, chunk), ": ", where, ": type: expected split_binary, found '", type,
            "'");
      const auto features = names_of(path_, chunk["features"], where + ": features");
      const auto files = names_of(path_, chunk["files"], where + ": files");
      check(files.size() == 1, located(path_, chunk), ": ", where, ": expected one file a chunk, found ", files.size());
      const bool numerical = features == spec_.numerical;
      check(numerical || features.size() == 1, located(path_, chunk), ": ", where,
            ": expected one feature a chunk, or all numerical ones in the order of channel_spec");
      for (const std::string& feature : features) {
        check(used_.count(feature) == 1, located(path_, chunk), ": ", where, ": unknown feature '", feature, "'");
        check(file_of.emplace(feature, files[0]).second, located(path_, chunk), ": ", where, ": feature '", feature,
              "' stands there twice");
      }
    }
    const auto file = [&](const std::string& feature) {
      check(file_of.count(feature) == 1, path_, ": ", where, ": feature '", feature, "' has no file");
      return file_of[feature];
    };
    FeatureSpec::Files files{file(spec_.label), file(spec_.numerical[0]), {}};
    for (const std::string& name : spec_.numerical)
      check(file(name) == files.numerical, path_, ": ", where, ": expected all numerical features in one file");
    for (const FeatureSpec::Table& table : spec_.tables) files.tables.push_back(file(table.name));
    return files;
  }

  const std::string path_;
  const YAML::Node root_;
  FeatureSpec spec_;
  std::set<std::string> used_;
};

void emit_chunk(YAML::Emitter& out, const std::vector<std::string>& features, const std::string& file) {
  out << YAML::BeginMap << YAML::Key << "type" << YAML::Value << "split_binary" << YAML::Key << "features"
      << YAML::Value << YAML::Flow << features << YAML::Key << "files" << YAML::Value << YAML::Flow
      << std::vector<std::string>{file} << YAML::EndMap;
}

}  // namespace

FeatureSpec read_feature_spec(const fs::path& directory) {
  const std::string path = (directory / kFeatureSpecName).string();
  const YAML::Node root = load_yaml(path);
  try {
    return Reader(path, root).read();
  } catch (const YAML::Exception& error) {
    fail(path, ":", error.mark.line + 1, ": ", error.msg);
  }
}

void write_feature_spec(const fs::path& directory, const FeatureSpec& spec) {
  YAML::Emitter out;
  std::vector<std::string> names;
  for (const FeatureSpec::Table& table : spec.tables) names.push_back(table.name);
  out << YAML::BeginMap;
  out << YAML::Key << "channel_spec" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "categorical" << YAML::Value << names;
  out << YAML::Key << "label" << YAML::Value << std::vector<std::string>{spec.label};
  out << YAML::Key << "numerical" << YAML::Value << spec.numerical << YAML::EndMap;
  out << YAML::Key << "feature_spec" << YAML::Value << YAML::BeginMap;
  for (const FeatureSpec::Table& table : spec.tables)
    out << YAML::Key << table.name << YAML::Value << YAML::BeginMap << YAML::Key << "cardinality" << YAML::Value
        << table.cardinality << YAML::Key << "dtype" << YAML::Value << table.dtype << YAML::EndMap;
  const auto emit_type = [&](const std::string& name, const std::string& dtype) {
    out << YAML::Key << name << YAML::Value << YAML::BeginMap << YAML::Key << "dtype" << YAML::Value << dtype
        << YAML::EndMap;
  };
  emit_type(spec.label, spec.label_dtype);
  for (const std::string& name : spec.numerical) emit_type(name, "float16");
  out << YAML::EndMap;
  out << YAML::Key << "metadata" << YAML::Value << YAML::BeginMap;
  for (const auto& [key, value] : spec.metadata) out << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << value;
  out << YAML::EndMap;
  out << YAML::Key << "source_spec" << YAML::Value << YAML::BeginMap;
  for (const auto& [split, files] : spec.splits) {
    out << YAML::Key << split << YAML::Value << YAML::BeginSeq;
    emit_chunk(out, spec.numerical, files.numerical);
    emit_chunk(out, {spec.label}, files.label);
    for (size_t t = 0; t < spec.tables.size(); ++t) emit_chunk(out, {spec.tables[t].name}, files.tables[t]);
    out << YAML::EndSeq;
  }
  out << YAML::EndMap << YAML::EndMap;
  write_text(directory / kFeatureSpecName, std::string(out.c_str()) + "\n");
}

std::string id_dtype(int64_t cardinality) {
  if (cardinality < std::numeric_limits<int8_t>::max()) return "int8";
  if (cardinality < std::numeric_limits<int16_t>::max()) return "int16";
  return "int32";
}

size_t id_bytes(const std::string& dtype) {
  if (dtype == "int8") return 1;
  if (dtype == "int16") return 2;
  if (dtype == "int32") return 4;
  fail("dtype '", dtype, "': expected int8, int16 or int32");
}

FeatureSpec make_feature_spec(int64_t numerical, const std::vector<int64_t>& cardinalities) {
  FeatureSpec spec;
  for (int64_t i = 0; i < numerical; ++i) spec.numerical.push_back(text("num_", i));
  for (const std::string split : {"train", "test"})
    spec.splits[split] = {split + "/label.bin", split + "/numerical.bin", {}};
  for (size_t t = 0; t < cardinalities.size(); ++t) {
    spec.tables.push_back({text("cat_", t, ".bin"), cardinalities[t], id_dtype(cardinalities[t])});
    for (auto& [split, files] : spec.splits) files.tables.push_back(text(split, "/cat_", t, ".bin"));
  }
  return spec;
}

}  // namespace dlrm
