// The only door to yaml-cpp: its nodes are used as they are, its exceptions become Error with the file's name.
#pragma once
#include <yaml-cpp/yaml.h>

#include <string>

namespace dlrm {

/// Throws Error, naming file and line, where the file is missing or is not YAML.
YAML::Node load_yaml(const std::string& path);

/// The same for YAML that is at hand; `name` stands for the file in messages.
YAML::Node parse_yaml(const std::string& yaml, const std::string& name);

/// The node as a T. Throws Error "PATH:LINE: what: expected EXPECTED" where it is not one.
template <class T>
T yaml_as(const YAML::Node& node, const std::string& path, const std::string& what, const std::string& expected);

}  // namespace dlrm

#include "kernels/error.h"

template <class T>
T dlrm::yaml_as(const YAML::Node& node, const std::string& path, const std::string& what, const std::string& expected) {
  if (!node.IsDefined()) fail(path, ": ", what, " is missing, expected ", expected);
  try {
    return node.as<T>();
  } catch (const YAML::Exception&) {
    const std::string found = node.IsScalar() ? "'" + node.Scalar() + "'" : node.IsMap() ? "a mapping" : "a list";
    fail(path, ":", node.Mark().line + 1, ": ", what, ": expected ", expected, ", found ", found);
  }
}
