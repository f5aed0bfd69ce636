// The fuzz targets on their seeds, and on seeds cut short and changed. scripts/fuzz looks further.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/targets.h"
#include "tests/rows.h"

namespace dlrm {
namespace {

/// folder: seeds or found
std::vector<std::vector<uint8_t>> inputs_of(const FuzzTarget& target, const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  const std::string where = DLRM_SOURCE_DIR "/tests/fuzz/" + folder + "/" + std::string(target.name);
  if (!std::filesystem::exists(where)) return {};
  for (const auto& entry : std::filesystem::directory_iterator(where)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::vector<uint8_t>> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class FuzzTest : public testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzTest, SeedsAreAccepted) {
  const auto seeds = inputs_of(GetParam(), "seeds");
  EXPECT_FALSE(seeds.empty());
  for (const auto& seed : seeds) EXPECT_NO_THROW(GetParam().run(seed));
}

TEST_P(FuzzTest, WhatFuzzingFoundIsAnErrorAtMost) {
  for (const auto& input : inputs_of(GetParam(), "found")) run_target(GetParam(), input);
}

TEST_P(FuzzTest, SeedsCutShortAreErrorsAtMost) {
  for (const auto& seed : inputs_of(GetParam(), "seeds")) {
    const size_t step = std::max<size_t>(1, seed.size() / 400);
    for (size_t size = 0; size < seed.size(); size += step) run_target(GetParam(), std::span(seed).first(size));
  }
}

TEST_P(FuzzTest, ChangedSeedsAreErrorsAtMost) {
  for (const auto& seed : inputs_of(GetParam(), "seeds")) {
    for (int64_t round = 0; round < 400; ++round) {
      std::vector<uint8_t> changed = seed;
      for (int64_t k = 0; k <= round % 4; ++k)
        changed[word_at(1 + uint64_t(k), round) % changed.size()] = uint8_t(word_at(9 + uint64_t(k), round));
      run_target(GetParam(), changed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, FuzzTest, testing::ValuesIn(kFuzzTargets.begin(), kFuzzTargets.end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dlrm
