#include "dlrm/schedule.h"

#include <gtest/gtest.h>

#include <limits>

namespace dlrm {
namespace {

// NVIDIA DeepLearningExamples, DLRM base model: base learning rate 24, one epoch of 64,013 steps.
constexpr Schedule kNvidia{.warmup = 8000, .decay_start = 48000, .decay_steps = 24000};

TEST(ScheduleTest, WarmsUpFromZeroAtStepZero) {
  EXPECT_EQ(learning_rate_factor(kNvidia, 0), 0.0f);
}
TEST(ScheduleTest, WarmsUpLinearly) {
  EXPECT_EQ(learning_rate_factor(kNvidia, 1), 1.0f / 8000.0f);
  EXPECT_EQ(learning_rate_factor(kNvidia, 4000), 0.5f);
}
TEST(ScheduleTest, IsConstantFromTheEndOfWarmupToTheStartOfDecay) {
  EXPECT_EQ(learning_rate_factor(kNvidia, 8000), 1.0f);
  EXPECT_EQ(learning_rate_factor(kNvidia, 48000), 1.0f);
}
TEST(ScheduleTest, DecaysWithTheSquareOfWhatIsLeft) {
  EXPECT_EQ(learning_rate_factor(kNvidia, 60000), 0.25f);
}
TEST(ScheduleTest, EndsTheEpochAtThePublishedLearningRate) {
  EXPECT_NEAR(24.0f * learning_rate_factor(kNvidia, 64013), 2.66, 0.005);
}
TEST(ScheduleTest, IsZeroAfterTheDecay) {
  EXPECT_GT(learning_rate_factor(kNvidia, 71999), 0.0f);
  EXPECT_EQ(learning_rate_factor(kNvidia, 72000), 0.0f);
  EXPECT_EQ(learning_rate_factor(kNvidia, std::numeric_limits<int64_t>::max()), 0.0f);
}

// MLPerf v1, batch 55,296: base learning rate 24.
TEST(ScheduleTest, FollowsTheMlperfReference) {
  constexpr Schedule mlperf{.warmup = 2750, .decay_start = 49315, .decay_steps = 27772};
  EXPECT_EQ(learning_rate_factor(mlperf, 1375), 0.5f);
  EXPECT_EQ(learning_rate_factor(mlperf, 49315 + 27772 / 2), 0.25f);
  EXPECT_EQ(learning_rate_factor(mlperf, 49315 + 27772), 0.0f);
}

TEST(ScheduleTest, WithoutWarmupOrDecayIsOne) {
  EXPECT_EQ(learning_rate_factor({}, 0), 1.0f);
  EXPECT_EQ(learning_rate_factor({}, std::numeric_limits<int64_t>::max()), 1.0f);
}
TEST(ScheduleTest, HugeStepCountsDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(learning_rate_factor({.warmup = 0, .decay_start = kHuge - 1, .decay_steps = kHuge}, kHuge - 1), 1.0f);
}

}  // namespace
}  // namespace dlrm
