#include "dlrm/verify.h"

#include <cstring>

#include "data/read_ahead.h"
#include "dlrm/evaluate.h"
#include "dlrm/trainer.h"

namespace dlrm {
namespace {

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

class Verifier {
 public:
  Verifier(Model& expected, Model& found, Queue& queue) : expected_(expected), found_(found), queue_(queue) {}

  Verification run(const Config& config, const Dataset& data, int64_t steps) {
    expected_.initialize(queue_, config.train.seed);
    found_.initialize(queue_, config.train.seed);
    ReadAhead batches(data.train(), config.data.batch, 0, steps);
    while (const Batch* batch = batches.next()) {
      const StepState state = step_state(config, result_.steps);
      const float a = expected_.train_step(queue_, *batch, state), b = found_.train_step(queue_, *batch, state);
      ++result_.steps;
      if (std::memcmp(&a, &b, sizeof a) != 0) return differs(-1, -1, text("losses differ: ", a, " and ", b));
      if (!same_touched_rows()) return result_;
    }
    if (same_weights()) same_scores(config, data);
    return result_;
  }

 private:
  Verification differs(int64_t table, int64_t row, const std::string& what) {
    result_.difference = Difference{result_.steps, table, row, text("step ", result_.steps, ": ", what)};
    return result_;
  }

  bool same_touched_rows() {
    const Model::TouchedRows a = expected_.touched_rows(queue_), b = found_.touched_rows(queue_);
    const size_t dim = size_t(expected_.config().dim);
    for (size_t i = 0; i < a.rows.size(); ++i)
      if (!same_values(a.rows[i].first, a.rows[i].second, 1, &a.values[i * dim], &b.values[i * dim])) return false;
    return true;
  }

  bool same_rows(int64_t table, int64_t first, int64_t count) {
    std::vector<float> a(size_t(count * expected_.config().dim)), b(a.size());
    expected_.store().read_rows(queue_, table, first, count, a.data());
    found_.store().read_rows(queue_, table, first, count, b.data());
    return same_values(table, first, count, a.data(), b.data());
  }

  /// a, b [count, dim]
  bool same_values(int64_t table, int64_t first, int64_t count, const float* a, const float* b) {
    const int64_t dim = expected_.config().dim;
    result_.rows_compared += count;
    if (std::memcmp(a, b, size_t(count * dim) * sizeof(float)) == 0) return true;
    int64_t i = 0;
    while (std::memcmp(a + i, b + i, sizeof(float)) == 0) ++i;
    const int64_t row = first + i / dim;
    differs(table, row,
            text("table ", expected_.config().tables[size_t(table)].name, ", row ", row, ", element ", i % dim,
                 " differs: ", a[i], " and ", b[i]));
    return false;
  }

  bool same_weights() {
    for (const Parameter& parameter : expected_.parameters()) {
      for (int64_t state = Model::kValues; state < expected_.states(); ++state) {
        const std::vector<float> a = expected_.read(queue_, parameter, state);
        result_.weights_compared += int64_t(a.size());
        if (equal_bits(a, found_.read(queue_, parameter, state))) continue;
        differs(-1, -1, parameter.name + (state == Model::kValues ? " differs" : "'s optimizer state differs"));
        return false;
      }
    }
    constexpr int64_t kRows = 65536;
    for (int64_t t = 0; t < expected_.store().tables(); ++t) {
      const int64_t rows = expected_.config().tables[size_t(t)].rows;
      for (int64_t first = 0; first < rows; first += kRows) {
        const int64_t count = std::min(kRows, rows - first);
        if (!same_rows(t, first, count)) return false;
        result_.weights_compared += count * expected_.config().dim;
        if (equal_bits(expected_.store().read_encoded(queue_, t, first, count).state,
                       found_.store().read_encoded(queue_, t, first, count).state))
          continue;
        differs(t, first,
                text("table ", expected_.config().tables[size_t(t)].name, ", optimizer state of rows ", first, " to ",
                     first + count - 1, " differs"));
        return false;
      }
    }
    return true;
  }

  void same_scores(const Config& config, const Dataset& data) {
    std::vector<float> a, b;
    result_.auc = evaluate(expected_, queue_, data.test(), config.data.batch, &a).metrics.auc;
    evaluate(found_, queue_, data.test(), config.data.batch, &b);
    if (!equal_bits(a, b)) differs(-1, -1, "predictions on the test split differ");
  }

  Model& expected_;
  Model& found_;
  Queue& queue_;
  Verification result_;
};

}  // namespace

Verification verify(const Config& config, const Dataset& data, Model& expected, Model& found, Queue& queue,
                    int64_t steps) {
  return Verifier(expected, found, queue).run(config, data, steps);
}

}  // namespace dlrm
