#include "dlrm/about.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/parallel.h"

namespace dlrm {
namespace {

/// The value of the first line of `path` that begins with `key`.
std::string field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return line.substr(std::min(line.size(), line.find_first_not_of(" \t:", key.size())));
  return "unknown";
}

}  // namespace

std::string version() {
  return "dlrm " DLRM_VERSION;
}

std::string about_this_run(const std::string& device) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return nlohmann::ordered_json{{"version", version()},
                                {"compiler", __VERSION__},
                                {"build", DLRM_BUILD},
                                {"host", host},
                                {"cpu", field("/proc/cpuinfo", "model name")},
                                {"cores", std::thread::hardware_concurrency()},
                                {"memory", field("/proc/meminfo", "MemTotal")},
                                {"threads", thread_count()},
                                {"device", device}}
             .dump(2) +
         "\n";
}

}  // namespace dlrm
