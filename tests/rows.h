// Rows whose bits try a codec.
#pragma once
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/random.h"

namespace dlrm {

inline uint32_t word_at(uint64_t seed, int64_t i) {
  return philox(seed, uint64_t(i), 0).word[0];
}

inline std::vector<float> normal_row(int64_t dim, uint64_t seed, double deviation = 1e-3) {
  std::vector<float> row(static_cast<size_t>(dim));
  for (int64_t i = 0; i < dim; ++i) {
    const Random4 random = philox(seed, uint64_t(i), 1);
    row[size_t(i)] = float(deviation * normal_double(random.word[0], random.word[1]));
  }
  return row;
}

struct NamedRow {
  std::string name;
  std::vector<float> values;
};

inline constexpr DType kDTypes[] = {DType::fp32, DType::bf16};

/// What a store of this dtype holds once the rows were written to it.
inline std::vector<float> as_stored(DType dtype, std::vector<float> values) {
  if (dtype == DType::bf16)
    for (float& value : values) value = nearest_bf16(value);
  return values;
}

/// The kinds of rows that the lossless promise must hold for.
inline std::vector<NamedRow> trying_rows(int64_t dim, DType dtype = DType::fp32) {
  const size_t n = size_t(dim);
  const auto filled = [&](uint32_t bits) { return std::vector<float>(n, std::bit_cast<float>(bits)); };
  const auto made = [&](auto value_of) {
    std::vector<float> row(n);
    for (int64_t i = 0; i < dim; ++i) row[size_t(i)] = std::bit_cast<float>(uint32_t(value_of(i)));
    return row;
  };
  std::vector<NamedRow> rows = {
      {"zeros", filled(0)},
      {"negative zeros", filled(0x80000000)},
      {"ones", filled(0x3f800000)},
      {"infinities", filled(0x7f800000)},
      {"quiet NaNs with payload", filled(0x7fc12345)},
      {"signalling NaNs with payload", filled(0xff812345)},
      {"denormals", made([](int64_t i) { return word_at(1, i) & 0x807fffff; })},
      {"random bits", made([](int64_t i) { return word_at(2, i); })},
      {"NaNs, infinities and numbers",
       made([](int64_t i) { return i % 3 ? word_at(3, i) : 0x7f800000 | word_at(4, i); })},
      {"one huge, many tiny",
       made([](int64_t i) { return i == 0 ? 0x7f000000 : 0x00800000 + (word_at(5, i) & 0x7fffff); })},
      {"zeros among numbers",
       made([](int64_t i) { return i % 9 ? 0x3c000000 | (word_at(6, i) & 0x7fffff) : word_at(7, i) & 0x80000000; })},
      {"largest and smallest", made([](int64_t i) { return i % 2 ? 0x7f7fffff : 0x80000001; })},
  };
  for (uint64_t seed : {11, 12, 13}) rows.push_back({"normal numbers", normal_row(dim, seed)});
  rows.push_back({"trained-like numbers", normal_row(dim, 14)});
  for (size_t i = 0; i < n; i += 3) rows.back().values[i] *= 1e-4f;
  if (dtype == DType::bf16)
    for (NamedRow& row : rows)
      for (float& value : row.values) value = truncated(value);  // NaN payloads and all
  return rows;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline const std::vector<int64_t> kTryingDims = {1, 3, 16, 17, 32, 64, 96, 128, 130, 256, 1028};

}  // namespace dlrm
