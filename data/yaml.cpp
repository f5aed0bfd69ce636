#include "data/yaml.h"

#include <fstream>

namespace dlrm {

YAML::Node load_yaml(const std::string& path) {
  std::ifstream file(path);
  check(bool(file), path, ": cannot be opened");
  try {
    return YAML::Load(file);
  } catch (const YAML::Exception& error) {
    fail(path, ":", error.mark.line + 1, ": not YAML: ", error.msg);
  }
}

}  // namespace dlrm
