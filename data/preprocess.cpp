#include "data/preprocess.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "data/criteo_tsv.h"
#include "data/split_binary.h"
#include "data/text_input.h"
#include "kernels/error.h"

namespace dlrm {
namespace {

constexpr int64_t kBlockRows = 16384;
constexpr int64_t kProgressRows = 1 << 17;

using Counts = std::array<std::unordered_map<uint32_t, int64_t>, kCriteoCategories>;
using Vocabulary = std::array<std::unordered_map<uint32_t, int64_t>, kCriteoCategories>;  // value to id

/// Calls visit(row) for every row of every input.
template <class Visit>
int64_t for_each_row(const PreprocessOptions& options, int pass, Visit visit) {
  int64_t rows = 0;
  for (const std::string& path : options.inputs) {
    TextInput input(path);
    std::string_view line;
    while (input.next(line)) {
      visit(parse_criteo_row(line, path, input.line_number()));
      if (++rows % kProgressRows == 0 && options.progress) options.progress(pass, rows);
    }
    check(input.line_number() > 0, path, ": is empty, expected rows of 40 columns");
  }
  return rows;
}

Vocabulary number_values(const Counts& counts, int64_t frequency_limit) {
  Vocabulary vocabulary;
  for (size_t column = 0; column < counts.size(); ++column) {
    std::vector<std::pair<int64_t, uint32_t>> kept;  // count, value
    for (const auto& [value, count] : counts[column])
      if (count >= frequency_limit) kept.emplace_back(count, value);
    std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    int64_t id = 0;
    for (const auto& [count, value] : kept) vocabulary[column][value] = ++id;
  }
  return vocabulary;
}

/// Collects rows into blocks, the first `train_rows` of them for train, the others for test.
class Encoder {
 public:
  Encoder(const PreprocessOptions& options, const Vocabulary& vocabulary, SplitBinaryWriter& writer, int64_t train_rows)
      : options_(options), vocabulary_(vocabulary), writer_(writer), train_rows_(train_rows) {}

  void add(const CriteoRow& row) {
    rows_.push_back(row);
    ++seen_;
    if (seen_ == train_rows_ || int64_t(rows_.size()) == kBlockRows) flush();
  }

  void flush() {
    if (rows_.empty()) return;
    Batch batch;
    batch.size = int64_t(rows_.size());
    batch.ids.resize(rows_.size() * kCriteoCategories);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const CriteoRow& row = rows_[r];
      batch.labels.push_back(float(row.label));
      for (size_t i = 0; i < kCriteoIntegers; ++i)
        batch.numerical.push_back(numerical_feature(row.integers[i], row.integers_present >> i & 1));
      for (size_t c = 0; c < kCriteoCategories; ++c) batch.ids[c * rows_.size() + r] = id(row, c);
    }
    writer_.append(seen_ <= train_rows_ ? "train" : "test", batch);
    rows_.clear();
  }

 private:
  int64_t id(const CriteoRow& row, size_t column) const {
    if (!(row.categories_present >> column & 1)) return 0;
    if (options_.modulo > 0) return row.categories[column] % options_.modulo;
    const auto found = vocabulary_[column].find(row.categories[column]);
    return found == vocabulary_[column].end() ? 0 : found->second;
  }

  const PreprocessOptions& options_;
  const Vocabulary& vocabulary_;
  SplitBinaryWriter& writer_;
  int64_t train_rows_, seen_ = 0;
  std::vector<CriteoRow> rows_;
};

}  // namespace

PreprocessSummary preprocess(const PreprocessOptions& options) {
  check(!options.inputs.empty(), "preprocess: expected an input file or more");
  check(options.test_fraction >= 0 && options.test_fraction <= 1, "--test-fraction: expected 0 to 1, found ",
        options.test_fraction);
  check(options.frequency_limit >= 0 && options.modulo >= 0, "--frequency-limit and --modulo: expected 0 or more");
  check(options.frequency_limit == 0 || options.modulo == 0, "--frequency-limit and --modulo exclude each other");
  check(options.modulo <= INT32_MAX, "--modulo: expected less than 2^31, found ", options.modulo);
  check(!std::filesystem::exists(std::filesystem::path(options.output) / kFeatureSpecName), options.output,
        ": holds a data set already");

  Counts counts;
  PreprocessSummary summary;
  const int64_t rows = for_each_row(options, 1, [&](const CriteoRow& row) {
    summary.positives += row.label;
    if (options.modulo > 0) return;
    for (size_t c = 0; c < kCriteoCategories; ++c)
      if (row.categories_present >> c & 1) ++counts[c][row.categories[c]];
  });
  summary.test_rows = int64_t(double(rows) * options.test_fraction);
  summary.train_rows = rows - summary.test_rows;
  const Vocabulary vocabulary = number_values(counts, options.frequency_limit);
  for (const auto& column : vocabulary)
    summary.cardinalities.push_back(options.modulo > 0 ? options.modulo : int64_t(column.size()) + 1);

  FeatureSpec spec = make_feature_spec(kCriteoIntegers, summary.cardinalities);
  spec.metadata["source"] = "criteo tsv";
  spec.metadata[options.modulo > 0 ? "modulo" : "frequency_limit"] =
      std::to_string(options.modulo > 0 ? options.modulo : options.frequency_limit);
  SplitBinaryWriter writer(options.output, std::move(spec));
  Encoder encoder(options, vocabulary, writer, summary.train_rows);
  const int64_t again = for_each_row(options, 2, [&](const CriteoRow& row) { encoder.add(row); });
  check(again == rows, "the inputs had ", rows, " rows in the first pass and ", again, " in the second");
  encoder.flush();
  writer.finish();
  return summary;
}

}  // namespace dlrm
