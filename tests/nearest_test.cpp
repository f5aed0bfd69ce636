#include "dlrm/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace dlrm {
namespace {

const std::vector<std::string> kCodecs = {"raw", "ibp", "pfor"};

TEST(NearestTest, FindsALetterThatWasDropped) {
  EXPECT_EQ(nearest("pfr", kCodecs), "pfor");
}
TEST(NearestTest, FindsALetterThatWasAdded) {
  EXPECT_EQ(nearest("pforr", kCodecs), "pfor");
}
TEST(NearestTest, CountsASwapAsOneSlip) {
  EXPECT_EQ(nearest("rwa", kCodecs), "raw");
}
TEST(NearestTest, IgnoresCase) {
  EXPECT_EQ(nearest("PFOR", kCodecs), "pfor");
}
TEST(NearestTest, FindsTheWordItself) {
  EXPECT_EQ(nearest("ibp", kCodecs), "ibp");
}
TEST(NearestTest, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest("gzip", kCodecs), "");
}
TEST(NearestTest, IsEmptyForAnEmptyWord) {
  EXPECT_EQ(nearest("", kCodecs), "");
}
TEST(NearestTest, IsEmptyWithoutValidWords) {
  EXPECT_EQ(nearest("raw", {}), "");
}
TEST(NearestTest, PrefersTheFewestSlips) {
  EXPECT_EQ(nearest("train.step", std::vector<std::string>{"train.seed", "train.steps"}), "train.steps");
}

TEST(DidYouMeanTest, NamesTheWordOrSaysNothing) {
  EXPECT_EQ(did_you_mean("pfr", kCodecs), " Did you mean 'pfor'?");
  EXPECT_EQ(did_you_mean("gzip", kCodecs), "");
}

}  // namespace
}  // namespace dlrm
