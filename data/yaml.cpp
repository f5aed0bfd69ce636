#include "data/yaml.h"

#include <vector>

#include "data/files.h"

namespace dlrm {

YAML::Node parse_yaml(const std::string& yaml, const std::string& name) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(yaml);
    check(documents.size() <= 1, name, ": expected one YAML document, found ", documents.size());
    return documents.empty() ? YAML::Node(YAML::NodeType::Null) : documents[0];
  } catch (const YAML::Exception& error) {
    fail(name, ":", error.mark.line + 1, ": not YAML: ", error.msg);
  }
}

YAML::Node load_yaml(const std::string& path) {
  return parse_yaml(read_text(path), path);
}

}  // namespace dlrm
