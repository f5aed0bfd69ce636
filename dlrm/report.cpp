#include "dlrm/report.h"

#include <array>
#include <cmath>
#include <ostream>

#include "dlrm/table_text.h"

namespace dlrm {
namespace {

std::string or_undefined(const std::optional<double>& value, int digits) {
  return value ? fixed(*value, digits) : "undefined";
}

std::vector<std::string> table_row(const std::string& name, int64_t rows, DType dtype, const std::string& codec,
                                   size_t stored, size_t raw, int64_t overflow) {
  return {name,
          with_commas(rows),
          std::string(dtype_name(dtype)),
          codec,
          with_commas(int64_t(stored)),
          with_commas(int64_t(raw)),
          fixed(double(raw) / double(stored), 3),
          with_commas(overflow)};
}

/// Of the exponent fields, in bits.
double exponent_entropy(const std::vector<float>& values) {
  std::array<double, 256> counts{};
  for (float value : values) ++counts[bits_of(value) >> 23 & 255];
  double entropy = 0;
  for (double count : counts)
    if (count > 0) entropy -= count / double(values.size()) * std::log2(count / double(values.size()));
  return entropy;
}

}  // namespace

void print_metrics(std::ostream& out, const Metrics& m) {
  out << table_text({"samples", "AUC", "log loss", "normalised entropy", "calibration", "label rate"},
                    {{with_commas(m.samples), or_undefined(m.auc, 6), fixed(m.log_loss, 6),
                      or_undefined(m.normalized_entropy, 6), or_undefined(m.calibration, 4), fixed(m.label_rate, 4)}});
}

void print_tables(std::ostream& out, const Checkpoint& checkpoint) {
  std::vector<std::vector<std::string>> lines;
  int64_t all_rows = 0, all_overflow = 0;
  size_t all_stored = 0, all_raw = 0;
  const DType dtype = checkpoint.model.table_dtype;
  for (size_t t = 0; t < checkpoint.tables.size(); ++t) {
    const TableConfig& about = checkpoint.model.tables[t];
    const Checkpoint::Table& table = checkpoint.tables[t];
    const size_t stored = table.stored_bytes(about.rows, checkpoint.model.dim);
    const size_t raw = size_t(about.rows * checkpoint.model.dim) * size_of(dtype);
    lines.push_back(
        table_row(about.name, about.rows, dtype, codec_name(about.codec), stored, raw, table.overflow_rows));
    all_rows += about.rows;
    all_overflow += table.overflow_rows;
    all_stored += stored;
    all_raw += raw;
  }
  if (!lines.empty()) lines.push_back(table_row("all", all_rows, dtype, "", all_stored, all_raw, all_overflow));
  out << table_text({"table", "rows", "dtype", "codec", "stored bytes", "raw bytes", "ratio", "overflow rows"}, lines);
}

void print_compressibility(std::ostream& out, const Weights& weights) {
  const int64_t dim = weights.model.dim;
  const DType dtype = weights.model.table_dtype;
  const double bits = 8 * double(size_of(dtype)), sign_and_mantissa = bits - 8;
  std::vector<std::string> header = {"table", "sampled rows", "exponent entropy", "bound"};
  for (CodecId id : kCodecs)
    if (id != CodecId::raw) header.push_back(codec_name(id));
  std::vector<std::vector<std::string>> lines;
  for (size_t t = 0; t < weights.model.tables.size(); ++t) {
    const std::vector<float> sample = sample_rows(weights, t, EmbeddingStore::kSampleRows);
    const int64_t count = int64_t(sample.size()) / dim;
    const double entropy = exponent_entropy(sample);
    lines.push_back({weights.model.tables[t].name, with_commas(count), fixed(entropy, 2),
                     fixed(bits / (sign_and_mantissa + entropy), 3)});
    for (CodecId id : kCodecs) {
      if (id == CodecId::raw) continue;
      const double bytes = bytes_per_row(fit_codec(id, dtype, sample.data(), count, dim), sample.data(), count, dim);
      lines.back().push_back(fixed(double(dim) * bits / 8 / bytes, 3));
    }
  }
  out << table_text(header, lines);
}

}  // namespace dlrm
