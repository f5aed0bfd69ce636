#include "dlrm/report.h"

#include <ostream>

#include "dlrm/table_text.h"

namespace dlrm {
namespace {

std::string or_undefined(const std::optional<double>& value, int digits) {
  return value ? fixed(*value, digits) : "undefined";
}

std::vector<std::string> table_row(const std::string& name, int64_t rows, const std::string& codec, size_t stored,
                                   size_t raw, int64_t overflow) {
  return {name,
          with_commas(rows),
          "fp32",
          codec,
          with_commas(int64_t(stored)),
          with_commas(int64_t(raw)),
          fixed(double(raw) / double(stored), 3),
          with_commas(overflow)};
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
  for (size_t t = 0; t < checkpoint.tables.size(); ++t) {
    const TableConfig& about = checkpoint.model.tables[t];
    const Checkpoint::Table& table = checkpoint.tables[t];
    const size_t stored = table.stored_bytes(about.rows, checkpoint.model.dim);
    const size_t raw = size_t(about.rows * checkpoint.model.dim) * sizeof(float);
    lines.push_back(table_row(about.name, about.rows, codec_name(about.codec), stored, raw, table.overflow_rows));
    all_rows += about.rows;
    all_overflow += table.overflow_rows;
    all_stored += stored;
    all_raw += raw;
  }
  if (!lines.empty()) lines.push_back(table_row("all", all_rows, "", all_stored, all_raw, all_overflow));
  out << table_text({"table", "rows", "dtype", "codec", "stored bytes", "raw bytes", "ratio", "overflow rows"}, lines);
}

}  // namespace dlrm
