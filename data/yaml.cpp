#include "data/yaml.h"

#include <fstream>
#include <iterator>

namespace dlrm {

YAML::Node parse_yaml(const std::string& text, const std::string& name) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    fail(name, ":", error.mark.line + 1, ": not YAML: ", error.msg);
  }
}

YAML::Node load_yaml(const std::string& path) {
  std::ifstream file(path);
  check(bool(file), path, ": cannot be opened");
  return parse_yaml({std::istreambuf_iterator<char>(file), {}}, path);
}

}  // namespace dlrm
