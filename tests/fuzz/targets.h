// What is fuzzed: everything that parses outside bytes. A target takes any bytes; what they are not it may only say by
// throwing Error.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace dlrm {

struct FuzzTarget {
  std::string_view name;  // and the folder of its seeds
  void (*run)(std::span<const uint8_t> bytes);
};

extern const std::span<const FuzzTarget> kFuzzTargets;

/// Runs one, and swallows Error alone.
void run_target(const FuzzTarget& target, std::span<const uint8_t> bytes);

}  // namespace dlrm
