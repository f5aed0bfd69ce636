#include "data/generate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/auc.h"
#include "data/criteo_tsv.h"
#include "data/split_binary.h"
#include "kernels/error.h"
#include "kernels/parallel.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

// Cardinalities, missing shares and top-id shares as measured on the real logs; exponents fitted so that the expected
// number of distinct ids per column in a batch of 4096 is the measured one (all together 0.213 of the lookups for
// Kaggle, 0.151 for Terabyte), for columns of fewer than 64 values cut at 2.5.
struct ColumnShape {
  int64_t values;
  double exponent, missing, atom, fresh;
  int missing_group;
};

constexpr std::array<ColumnShape, 26> kKaggleColumns = {{
    {1460, 1.994, 0, 0, 0, 0},         {583, 1.392, 0, 0, 0, 0},       {10131227, 1.085, .039, 0, .2, 1},
    {2202608, 1.127, .039, 0, .1, 1},  {305, 2.5, 0, 0, 0, 0},         {24, 2.5, .137, 0, 0, 2},
    {12517, 0.936, 0, 0, 0, 0},        {633, 2.339, 0, 0, 0, 0},       {3, 0.05, 0, 0, 0, 0},
    {93145, 1.104, 0, 0, 0, 0},        {5683, 1.003, 0, 0, 0, 0},      {8351593, 1.1, .039, 0, .2, 1},
    {3194, 0.997, 0, 0, 0, 0},         {27, 2.5, 0, 0, 0, 0},          {14992, 1.115, 0, 0, 0, 0},
    {5461306, 1.116, .039, 0, .16, 1}, {10, 2.5, 0, 0, 0, 0},          {5652, 1.236, 0, 0, 0, 0},
    {2173, 1.411, .414, 0, 0, 3},      {4, 2.5, .414, 0, 0, 3},        {7046547, 1.108, .039, 0, .18, 1},
    {18, 2.5, .817, 0, 0, 4},          {15, 2.5, 0, 0, 0, 0},          {286181, 1.211, .039, 0, .05, 1},
    {105, 2.5, .414, 0, 0, 3},         {142572, 1.131, .414, 0, 0, 3},
}};

constexpr std::array<ColumnShape, 26> kTerabyteColumns = {{
    {227605432, 1.262, .026, .268, .1, 1},
    {39060, 1.213, 0, 0, 0, 0},
    {17295, 1.042, 0, 0, 0, 0},
    {7424, 1.472, 0, 0, 0, 0},
    {20265, 1.307, 0, 0, 0, 0},
    {3, 0.05, 0, 0, 0, 0},
    {7122, 1.084, 0, 0, 0, 0},
    {1543, 1.467, 0, 0, 0, 0},
    {63, 2.5, 0, 0, 0, 0},
    {130229467, 1.283, .026, .268, .1, 1},
    {3067956, 1.3, .026, .268, 0, 1},
    {405282, 1.128, 0, 0, 0, 0},
    {10, 2.5, 0, 0, 0, 0},
    {2209, 1.656, .467, 0, 0, 2},
    {11938, 1.296, 0, 0, 0, 0},
    {155, 2.865, .467, 0, 0, 2},
    {4, 2.5, .467, 0, 0, 2},
    {976, 1.992, 0, 0, 0, 0},
    {14, 2.5, 0, 0, 0, 0},
    {292775614, 1.258, .026, .268, .1, 1},
    {40790948, 1.342, .026, .268, .1, 1},
    {187188510, 1.269, .026, .268, .1, 1},
    {590152, 1.309, .467, 0, 0, 2},
    {12973, 1.097, 0, 0, 0, 0},
    {108, 3.178, 0, 0, 0, 0},
    {36, 2.5, 0, 0, 0, 0},
}};

struct IntegerShape {
  double missing;
  double quantiles[4];  // 10 %, 50 %, 90 %, 99 %
};

constexpr std::array<IntegerShape, kCriteoIntegers> kKaggleIntegers = {{
    {.445, {0, 1, 9, 44}},
    {0, {0, 3, 206, 2298}},
    {.191, {1, 8, 61, 364}},
    {.194, {1, 5, 21, 45}},
    {.048, {11, 2224, 32424, 279571}},
    {.252, {2, 38, 341, 1575}},
    {.047, {0, 3, 31, 200}},
    {.001, {0, 8, 35, 48}},
    {.047, {2, 40, 310, 1248}},
    {.445, {0, 1, 1, 3}},
    {.047, {0, 1, 6, 23}},
    {.772, {0, 0, 2, 15}},
    {.194, {1, 5, 27, 76}},
}};

// Only medians were measured; the spread is Kaggle's kind.
constexpr IntegerShape around(double missing, double median) {
  return {missing, {double(int64_t(median / 8)), median, 6 * median + 2, 40 * median + 10}};
}
constexpr std::array<IntegerShape, kCriteoIntegers> kTerabyteIntegers = {{
    around(.238, 6),
    around(.102, 207),
    around(.254, 3),
    around(.493, 36),
    around(.465, 5),
    around(.092, 0),
    around(.032, 0),
    around(0, 5),
    around(0, 5),
    around(.092, 0),
    around(.465, 2),
    around(.015, 3602),
    around(.254, 4),
}};

constexpr double kExpectedForEffect = 30;  // an id expected fewer times cannot be learnt and carries no effect
constexpr double kTableSigma = 0.32;       // of the effects
constexpr double kIntegerSigma = 0.25;
constexpr int64_t kCalibrationRows = 20000;
constexpr int64_t kBlockRows = 65536;

/// Uniform words for one row: word i is a function of (seed, row, i).
class RowRandom {
 public:
  RowRandom(uint64_t seed, int64_t row) : seed_(seed), row_(uint64_t(row)) {}
  uint32_t next() {
    if (used_ == 4) {
      words_ = philox(seed_, row_, block_++);
      used_ = 0;
    }
    return words_.word[used_++];
  }
  float uniform() { return uniform_float(next()); }

 private:
  uint64_t seed_, row_, block_ = 0;
  Random4 words_{};
  int used_ = 4;
};

/// A value at a given rank, straight lines in ln(value + 1) between the quantiles.
int32_t integer_at(const double (&quantiles)[4], double rank) {
  const double ranks[6] = {0, .1, .5, .9, .99, 1};
  const double values[6] = {0, quantiles[0], quantiles[1], quantiles[2], quantiles[3], 8 * quantiles[3]};
  int i = 0;
  while (i < 4 && rank >= ranks[i + 1]) ++i;
  const double share = (rank - ranks[i]) / (ranks[i + 1] - ranks[i]);
  const double low = std::log1p(values[i]), high = std::log1p(values[i + 1]);
  return int32_t(std::floor(std::expm1(low + share * (high - low)) + 0.5));
}

/// A normal number for effect (table, id) or weight (-1, feature).
double planted(uint64_t seed, int64_t table, int64_t id) {
  const Random4 random = philox(seed ^ 0x506c616e74656421ull, uint64_t(table), uint64_t(id));
  return normal_double(random.word[0], random.word[1]);
}

}  // namespace

Generator::Generator(const std::string& shape, double scale, int64_t max_rows_per_table, uint64_t seed, int64_t rows)
    : seed_(seed) {
  check(shape == "criteo-kaggle" || shape == "criteo-tb", "--shape: expected criteo-kaggle or criteo-tb, found '",
        shape, "'");
  check(scale > 0 && scale <= 1, "--scale: expected more than 0, at most 1, found ", scale);
  check(max_rows_per_table == 0 || max_rows_per_table >= 5,
        "--max-rows-per-table: expected 5 or more, or 0 for no limit, found ", max_rows_per_table);
  const bool kaggle = shape == "criteo-kaggle";
  for (const ColumnShape& column : kaggle ? kKaggleColumns : kTerabyteColumns) {
    Table table;
    table.values = std::max(std::min<int64_t>(column.values, 4), int64_t(std::llround(double(column.values) * scale)));
    if (max_rows_per_table > 0) table.values = std::min(table.values, max_rows_per_table - 1);
    table.exponent = column.exponent;
    table.missing = column.missing;
    table.atom = column.atom;
    table.fresh = column.fresh;
    table.missing_group = column.missing_group;
    table.norm = (std::pow(double(table.values + 1), 1 - table.exponent) - 1) / (1 - table.exponent);
    // Probabilities fall with the id, so the ids that carry an effect are the first ones.
    int64_t low = 1, high = table.values + 1;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      (probability(table, middle) * double(rows) >= kExpectedForEffect ? low : high) =
          probability(table, middle) * double(rows) >= kExpectedForEffect ? middle + 1 : middle;
    }
    table.first_plain_id = low;
    tables_.push_back(table);
    cardinalities_.push_back(table.values + 1);
  }
  for (const IntegerShape& integer : kaggle ? kKaggleIntegers : kTerabyteIntegers) {
    Integer copy{integer.missing, {}};
    std::copy_n(integer.quantiles, 4, copy.quantiles);
    integers_.push_back(copy);
  }

  // The bias that gives the label rate, by bisection over the first rows.
  const double rate = kaggle ? 0.25 : 0.03;
  Batch batch;
  std::vector<float> odds;
  make(0, kCalibrationRows, batch, odds);
  double low = -20, high = 20;
  for (int i = 0; i < 60; ++i) {
    bias_ = (low + high) / 2;
    double mean = 0;
    for (float logit : odds) mean += 1 / (1 + std::exp(-(double(logit) + bias_))) / double(odds.size());
    (mean < rate ? low : high) = bias_;
  }
}

int64_t Generator::numerical_features() const {
  return int64_t(integers_.size());
}

double Generator::probability(const Table& table, int64_t id) const {
  if (id == 0) return table.missing;
  const double s = 1 - table.exponent;
  const double law = (std::pow(double(id + 1), s) - std::pow(double(id), s)) / s / table.norm;
  const double rest =
      (1 - table.atom - table.fresh) * law + table.fresh / double(table.values) + (id == 1 ? table.atom : 0);
  return (1 - table.missing) * rest;
}

int64_t Generator::draw_id(const Table& table, uint32_t choice, uint32_t position, bool missing, bool atom) const {
  if (missing) return 0;
  if (table.atom > 0 && atom) return 1;
  const double u = (double(position) + 0.5) * 0x1p-32;
  // An atom is drawn for all tables at once, so the fresh share is of what is left.
  if ((double(choice) + 0.5) * 0x1p-32 * (1 - table.atom) < table.fresh) return 1 + int64_t(u * double(table.values));
  const double s = 1 - table.exponent;
  const double x = std::pow(1 + u * s * table.norm, 1 / s);
  return std::clamp<int64_t>(int64_t(x), 1, table.values);
}

double Generator::effect(size_t table, int64_t id) const {
  const Table& t = tables_[table];
  const bool often = id == 0 ? t.missing > 0 : id < t.first_plain_id;
  return often ? kTableSigma * planted(seed_, int64_t(table), id) : 0;
}

float Generator::make_row(int64_t row, float* numerical, int64_t* ids, int64_t stride, float& label) const {
  RowRandom random(seed_, row);
  double logit = bias_;
  std::array<double, 8> missing_rank;
  for (double& rank : missing_rank) rank = random.uniform();
  const double atom_rank = random.uniform(), label_rank = random.uniform();
  for (size_t i = 0; i < integers_.size(); ++i) {
    const bool present = random.uniform() >= integers_[i].missing;
    numerical[i] = numerical_feature(integer_at(integers_[i].quantiles, random.uniform()), present);
    const double centre = std::log(integers_[i].quantiles[1] + 3),
                 spread = std::log(integers_[i].quantiles[3] + 3) - centre;
    if (present) logit += kIntegerSigma * planted(seed_, -1, int64_t(i)) * 2 * (numerical[i] - centre) / spread;
  }
  for (size_t t = 0; t < tables_.size(); ++t) {
    const Table& table = tables_[t];
    const uint32_t choice = random.next(), position = random.next();
    const bool missing = missing_rank[size_t(table.missing_group)] < table.missing;
    const int64_t id = draw_id(table, choice, position, missing, atom_rank < table.atom);
    ids[int64_t(t) * stride] = id;
    logit += effect(t, id);
  }
  label = label_rank < 1 / (1 + std::exp(-logit)) ? 1.0f : 0.0f;
  return float(logit);
}

void Generator::make(int64_t first, int64_t count, Batch& batch, std::vector<float>& odds) const {
  batch.size = count;
  batch.first_sample = first;
  batch.labels.resize(size_t(count));
  batch.numerical.resize(size_t(count) * integers_.size());
  batch.ids.resize(size_t(count) * tables_.size());
  odds.resize(size_t(count));
  parallel_for(count, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      odds[size_t(i)] = make_row(first + i, &batch.numerical[size_t(i) * integers_.size()], &batch.ids[size_t(i)],
                                 count, batch.labels[size_t(i)]);
  });
}

GenerateSummary generate(const GenerateOptions& options) {
  check(options.rows >= 1, "--rows: expected 1 or more, found ", options.rows);
  check(options.test_fraction >= 0 && options.test_fraction <= 1, "--test-fraction: expected 0 to 1, found ",
        options.test_fraction);
  const Generator generator(options.shape, options.scale, options.max_rows_per_table, options.seed, options.rows);
  GenerateSummary summary;
  summary.cardinalities = generator.cardinalities();
  summary.test_rows = int64_t(double(options.rows) * options.test_fraction);
  summary.train_rows = options.rows - summary.test_rows;

  SplitBinaryWriter writer(options.output, make_feature_spec(generator.numerical_features(), summary.cardinalities));
  Batch batch;
  std::vector<float> odds, test_odds, test_labels;
  double positives = 0;
  for (int64_t row = 0; row < options.rows; row += batch.size) {
    const bool test = row >= summary.train_rows;
    generator.make(row, std::min(kBlockRows, (test ? options.rows : summary.train_rows) - row), batch, odds);
    writer.append(test ? "test" : "train", batch);
    for (float label : batch.labels) positives += label;
    if (test) {
      test_odds.insert(test_odds.end(), odds.begin(), odds.end());
      test_labels.insert(test_labels.end(), batch.labels.begin(), batch.labels.end());
    }
    if (options.progress) options.progress(row + batch.size);
  }
  summary.label_rate = positives / double(options.rows);
  summary.planted_auc = exact_auc(test_odds, test_labels);
  auto& metadata = writer.spec().metadata;
  metadata["source"] = "generated";
  metadata["shape"] = options.shape;
  metadata["scale"] = text(options.scale);
  metadata["seed"] = text(options.seed);
  metadata["rows"] = text(options.rows);
  if (summary.planted_auc) metadata["planted_auc"] = text(*summary.planted_auc);
  writer.finish();
  return summary;
}

}  // namespace dlrm
