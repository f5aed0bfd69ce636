#include "dlrm/weights.h"

#include <algorithm>
#include <charconv>
#include <future>
#include <numeric>

#include "dlrm/layouts/layouts.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieceBytes = 32 << 20;

/// The features' numbers in the order in which their vectors entered the interaction.
std::vector<int64_t> interaction_order(const fs::path& path, const StoredWeights& stored, const std::string& asked) {
  const int64_t tables = int64_t(stored.tables.size());
  std::vector<int64_t> natural(size_t(tables), 0);
  std::iota(natural.begin(), natural.end(), 0);
  const auto by_cardinality = [&] {
    std::vector<int64_t> order = natural;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return stored.tables[size_t(a)].rows > stored.tables[size_t(b)].rows;
    });
    return order;
  };
  const auto checked = [&](std::vector<int64_t> order, const std::string& where) {
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    check(sorted == natural, where, ": expected each of the features 0 to ", tables - 1, " once");
    return order;
  };
  if (asked == "natural") return natural;
  if (asked == "cardinality") return by_cardinality();
  if (!asked.empty()) {
    std::vector<int64_t> order;
    for (const char *at = asked.data(), *end = at + asked.size(); at <= end; ++at) {
      int64_t feature = -1;
      const auto [stop, error] = std::from_chars(at, end, feature);
      check(error == std::errc() && (stop == end || *stop == ','),
            "--interaction-order: expected natural, cardinality or features as in 0,5,3, found '", asked, "'");
      order.push_back(feature);
      at = stop;
    }
    return checked(std::move(order), "--interaction-order");
  }
  switch (stored.order) {
    case StoredWeights::Order::natural:
      return natural;
    case StoredWeights::Order::cardinality:
      return by_cardinality();
    case StoredWeights::Order::listed:
      return checked(stored.listed, path.string() + ": the interaction order");
    case StoredWeights::Order::unknown:
      break;
  }
  fail(path.string(),
       ": the order in which the tables' vectors enter the interaction is not known: ", stored.why_unknown,
       ". Hint: --interaction-order natural or cardinality or a list");
}

/// The first `keep` columns of a matrix.
std::vector<float> first_columns(const std::vector<float>& matrix, int64_t rows, int64_t cols, int64_t keep) {
  std::vector<float> result;
  result.reserve(size_t(rows * keep));
  for (int64_t r = 0; r < rows; ++r)
    result.insert(result.end(), matrix.begin() + r * cols, matrix.begin() + r * cols + keep);
  return result;
}

/// The column of the pair of vectors i > j among a first top layer's inputs.
int64_t pair_column(int64_t dim, int64_t i, int64_t j) {
  return dim + i * (i - 1) / 2 + j;
}

/// The first top layer's weight for vectors in natural order, without padding.   order: see interaction_order()
std::vector<float> in_natural_order(const std::vector<float>& weight, int64_t out, int64_t in, int64_t dim,
                                    const std::vector<int64_t>& order) {
  const int64_t vectors = 1 + int64_t(order.size()), width = dim + vectors * (vectors - 1) / 2;
  std::vector<float> result = first_columns(weight, out, in, width);
  const auto natural = [&](int64_t position) { return position == 0 ? 0 : 1 + order[size_t(position - 1)]; };
  for (int64_t i = 1; i < vectors; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const int64_t a = natural(i), b = natural(j), to = pair_column(dim, std::max(a, b), std::min(a, b));
      for (int64_t o = 0; o < out; ++o)
        result[size_t(o * width + to)] = weight[size_t(o * in + pair_column(dim, i, j))];
    }
  }
  return result;
}

/// Checks that the layers follow each other and returns their widths.
std::vector<int64_t> widths(const fs::path& path, const std::string& mlp, const std::vector<StoredLayer>& layers) {
  check(!layers.empty(), path.string(), ": has no layers of the ", mlp, " MLP");
  std::vector<int64_t> result;
  for (size_t i = 0; i < layers.size(); ++i) {
    check(layers[i].out >= 1 && layers[i].in >= 1, path.string(), ": ", mlp, " layer ", i, " is empty");
    check(i == 0 || layers[i].in == layers[i - 1].out, path.string(), ": ", mlp, " layer ", i, " takes ", layers[i].in,
          " values, expected ", i == 0 ? 0 : layers[i - 1].out);
    result.push_back(layers[i].out);
  }
  return result;
}

std::vector<float> checked_array(const fs::path& path, const std::string& name, std::vector<float> values) {
  const bool finite = std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  check(finite, path.string(), ": ", name, " has values that are not finite");
  return values;
}

std::string list_text(const std::vector<int64_t>& numbers) {
  std::string result;
  for (int64_t number : numbers) result += (result.empty() ? "" : ",") + std::to_string(number);
  return result;
}

Weights normal_form(const fs::path& path, StoredWeights found, const WeightsOptions& options) {
  const auto stored = std::make_shared<const StoredWeights>(std::move(found));
  Weights weights{path, stored->layout, stored->notes, {}, stored->numerical_transform, {}, {}, {}};
  ModelConfig& model = weights.model;
  model.bottom = widths(path, "bottom", stored->bottom);
  model.top = widths(path, "top", stored->top);
  model.dim = model.bottom.back();
  check(model.top.back() == 1, path.string(), ": the top MLP ends in ", model.top.back(), " values, expected 1");
  check(!stored->tables.empty(), path.string(), ": has no tables");
  for (const StoredTable& table : stored->tables) {
    check(table.dim == model.dim, table.name, ": rows of ", table.dim, ", expected ", model.dim,
          ", the width of the bottom MLP");
    check(table.rows >= 1 && table.rows <= kMostRows, table.name, ": ", table.rows, " rows, expected 1 to ", kMostRows);
    model.tables.push_back({text("feature_", model.tables.size()), table.rows});
  }

  const int64_t in = stored->bottom[0].in;
  model.numerical = stored->numerical > 0   ? stored->numerical
                    : options.numerical > 0 ? options.numerical
                    : in == 16              ? 13
                                            : in;
  check(model.numerical <= in && in - model.numerical < 8, path.string(), ": the first bottom layer takes ", in,
        " values, expected ", model.numerical, " numerical features, rounded up to a multiple of 8 at most");
  if (model.numerical != in)
    weights.notes.push_back(
        text(model.numerical, " numerical features, the other ", in - model.numerical, " inputs are padding"));
  const int64_t vectors = 1 + int64_t(model.tables.size()), width = model.dim + vectors * (vectors - 1) / 2;
  check(stored->top[0].in >= width && stored->top[0].in - width <= 8, path.string(), ": the first top layer takes ",
        stored->top[0].in, " values, expected ", width, " for ", model.tables.size(),
        " tables, or a few more as padding");
  const std::vector<int64_t> order = interaction_order(path, *stored, options.interaction_order);
  weights.notes.push_back(text("tables entered the interaction in the order ", list_text(order)));

  weights.array = [path, stored, order, model](const std::string& name) {
    for (const bool is_top : {false, true}) {
      const std::vector<StoredLayer>& layers = is_top ? stored->top : stored->bottom;
      for (size_t l = 0; l < layers.size(); ++l) {
        const std::string start = text(is_top ? "top_" : "bottom_", l, "_");
        const StoredLayer& layer = layers[l];
        if (name == start + "bias") return checked_array(path, name, layer.bias());
        if (name != start + "weight") continue;
        if (l > 0) return checked_array(path, name, layer.weight());
        return checked_array(path, name,
                             is_top ? in_natural_order(layer.weight(), layer.out, layer.in, model.dim, order)
                                    : first_columns(layer.weight(), layer.out, layer.in, model.numerical));
      }
    }
    fail(path.string(), ": has no array ", name);
  };
  weights.rows = [stored](size_t table, int64_t first, int64_t count, float* rows) {
    stored->tables[table].read(first, count, rows);
  };
  return weights;
}

void check_same_shape(const Weights& weights, const ModelConfig& model) {
  const auto same = [&](const std::string& what, int64_t found, int64_t expected) {
    check(found == expected, weights.path.string(), ": ", what, ": found ", found, ", expected ", expected);
  };
  same("numerical features", weights.model.numerical, model.numerical);
  same("model.dim", weights.model.dim, model.dim);
  check(weights.model.bottom == model.bottom, weights.path.string(), ": model.bottom: found ",
        list_text(weights.model.bottom), ", expected ", list_text(model.bottom));
  check(weights.model.top == model.top, weights.path.string(), ": model.top: found ", list_text(weights.model.top),
        ", expected ", list_text(model.top));
  same("tables", int64_t(weights.model.tables.size()), int64_t(model.tables.size()));
  for (size_t t = 0; t < model.tables.size(); ++t)
    same("rows of table " + model.tables[t].name, weights.model.tables[t].rows, model.tables[t].rows);
}

}  // namespace

Weights open_weights(const fs::path& path, const WeightsOptions& options) {
  check(fs::exists(path), path.string(), ": there is no such file or directory");
  for (const auto& open : {open_tf2_npy, open_nvidia_pytorch, open_facebook})
    if (auto stored = open(path)) return normal_form(path, std::move(*stored), options);
  if (!fs::exists(path / "manifest.json") && newest_checkpoint(path).empty())
    fail(path.string(),
         ": holds no checkpoint that is known: neither one of this program (manifest.json, or "
         "checkpoints/step_N/manifest.json), of NVIDIA's TensorFlow 2 (feature_0_part0.npy) or PyTorch DLRM "
         "(bottom_model.mlp.pt), nor a file of facebookresearch/dlrm");
  const auto own = std::make_shared<const Checkpoint>(open_checkpoint(path));
  return {own->path, "dlrm checkpoint", {}, own->model, own->numerical_transform, own, {}, {}};
}

std::vector<float> sample_rows(const Weights& weights, size_t t, int64_t most) {
  if (weights.own) return sample_rows(*weights.own, t, most);
  const int64_t rows = weights.model.tables[t].rows, dim = weights.model.dim, count = std::min(rows, most);
  std::vector<float> sample(size_t(count * dim));
  for (int64_t i = 0; i < count; ++i) weights.rows(t, i * rows / count, 1, &sample[size_t(i * dim)]);
  return sample;
}

void load_weights(const Weights& weights, Model& model, Queue& queue,
                  const std::function<void(size_t done, size_t all)>& progress) {
  if (weights.own) return load_checkpoint(*weights.own, model, queue, false);
  check_same_shape(weights, model.config());
  for (const Parameter& parameter : model.parameters()) model.write(queue, parameter, weights.array(parameter.name));

  const int64_t dim = weights.model.dim;
  int64_t most_rows = 0;
  size_t all = 0, done = 0;
  for (const TableConfig& table : weights.model.tables) {
    most_rows = std::max(most_rows, table.rows);
    all += size_t(table.rows * dim) * sizeof(float);
  }
  const int64_t piece = std::clamp<int64_t>(kPieceBytes / (dim * int64_t(sizeof(float))), 1, most_rows);
  std::vector<float> next(size_t(piece * dim)), current(next.size());
  for (size_t t = 0; t < weights.model.tables.size(); ++t) {
    if (model.store().wants_fit(int64_t(t)))
      model.store().fit(queue, int64_t(t), sample_rows(weights, t, EmbeddingStore::kSampleRows));
    const int64_t rows = weights.model.tables[t].rows;
    const auto read = [&](int64_t first) {
      if (first < rows) weights.rows(t, first, std::min(piece, rows - first), next.data());
    };
    std::future<void> reading = std::async(std::launch::async, read, 0);
    for (int64_t first = 0; first < rows; first += piece) {
      reading.get();
      std::swap(next, current);
      reading = std::async(std::launch::async, read, first + piece);
      const int64_t count = std::min(piece, rows - first);
      model.store().write_rows(queue, int64_t(t), first, count, current.data());
      done += size_t(count * dim) * sizeof(float);
      if (progress) progress(done, all);
    }
    reading.get();
  }
}

}  // namespace dlrm
