// Raw Criteo rows for tests.
#pragma once
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace dlrm {

/// A line with the given label, integers "1" and category `c` in every column.
inline std::string criteo_line(const std::string& label, const std::string& category, int columns = 40) {
  std::string line = label;
  for (int column = 1; column < columns; ++column) line += "\t" + (column <= 13 ? "1" : category);
  return line + "\n";
}

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = unsigned(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = unsigned(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// The first 10,000 rows of day_0 of the Criteo Terabyte logs, or empty: DLRM_CRITEO_SAMPLE, or beside the sources.
inline std::string criteo_sample() {
  const char* set = std::getenv("DLRM_CRITEO_SAMPLE");
  const std::string path = set ? set : DLRM_SOURCE_DIR "/../shared/data/criteo_tb_day0_head10k.tsv.gz";
  return std::filesystem::exists(path) ? path : "";
}

#define DLRM_SKIP_WITHOUT_SAMPLE() \
  if (criteo_sample().empty()) GTEST_SKIP() << "no real Criteo rows: set DLRM_CRITEO_SAMPLE to day_0's first 10,000"

}  // namespace dlrm
