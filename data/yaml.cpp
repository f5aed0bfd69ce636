#include "data/yaml.h"

#include <yaml-cpp/eventhandler.h>

#include <sstream>

#include "data/files.h"

namespace dlrm {
namespace {

/// Whether a document says anything.
class Content : public YAML::EventHandler {
 public:
  bool found = false;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { found = true; }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override { found = true; }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    found = true;
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    found = true;
  }
  void OnMapEnd() override {}
};

}  // namespace

// Not by YAML::LoadAll: there are files on which that of yaml-cpp 0.7 never ends.
YAML::Node parse_yaml(const std::string& yaml, const std::string& name) {
  try {
    std::istringstream stream(yaml);
    YAML::Parser parser(stream);
    Content first, second;
    parser.HandleNextDocument(first);
    parser.HandleNextDocument(second);
    check(!second.found, name, ": expected one YAML document, found more");
    return YAML::Load(yaml);
  } catch (const YAML::Exception& error) {
    fail(name, ":", error.mark.line + 1, ": not YAML: ", error.msg);
  }
}

YAML::Node load_yaml(const std::string& path) {
  return parse_yaml(read_text(path), path);
}

}  // namespace dlrm
