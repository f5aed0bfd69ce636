// What program this is and what it runs on: for --version, logs and bug reports.
#pragma once
#include <string>

namespace dlrm {

/// "dlrm 0.1.0"
std::string version();
/// JSON: version, compiler, build type, CPU, cores, memory, threads, device, host.
std::string about_this_run(const std::string& device);

}  // namespace dlrm
