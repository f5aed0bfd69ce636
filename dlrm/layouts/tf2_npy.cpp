#include <algorithm>
#include <charconv>
#include <map>
#include <memory>

#include "data/npy.h"
#include "dlrm/layouts/layouts.h"
#include "kernels/error.h"

// July 2022, the NGC item dlrm_base_tf2_ckpt_ds-criteo-fl15, version 22.06_tf32:
//   bottom_mlp_layer_L_{kernel,bias}_part0.npy, top_mlp_layer_L_..., kernels [in, out]; feature_I_part0.npy [rows, dim]
// March 2022: the same, but feature_I_ROWS_partK.npy, pieces of a table, and the tables enter the interaction by
// descending rows.
namespace dlrm {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> number_of(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || value < 0) return {};
  return value;
}

/// "feature_I_part0.npy" or "feature_I_ROWS_partK.npy".
struct FeatureName {
  int64_t feature = 0, piece = 0;
  std::optional<int64_t> rows;

  static std::optional<FeatureName> of(std::string_view name) {
    if (!name.starts_with("feature_") || !name.ends_with(".npy")) return {};
    name = name.substr(8, name.size() - 12);
    const size_t part = name.rfind("_part");
    if (part == name.npos) return {};
    const auto piece = number_of(name.substr(part + 5));
    name = name.substr(0, part);
    const size_t bar = name.find('_');
    FeatureName result;
    if (bar != name.npos) {
      result.rows = number_of(name.substr(bar + 1));
      if (!result.rows) return {};
    }
    const auto feature = number_of(name.substr(0, bar));
    if (!feature || !piece) return {};
    result.feature = *feature;
    result.piece = *piece;
    return result;
  }
};

/// [in, out] to [out, in].
std::vector<float> transposed(const NpyArray& kernel) {
  const size_t in = size_t(kernel.shape[0]), out = size_t(kernel.shape[1]);
  std::vector<float> weight(in * out);
  for (size_t i = 0; i < in; ++i)
    for (size_t o = 0; o < out; ++o) weight[o * in + i] = kernel.values[i * out + o];
  return weight;
}

std::vector<StoredLayer> layers(const fs::path& path, const std::string& mlp) {
  std::vector<StoredLayer> found;
  for (;;) {
    const std::string start = text(mlp, "_layer_", found.size(), "_");
    const std::string kernel = path / (start + "kernel_part0.npy"), bias = path / (start + "bias_part0.npy");
    if (!fs::exists(kernel) && !fs::exists(bias)) return found;
    const std::vector<int64_t> shape = NpyReader(kernel).shape(), bias_shape = NpyReader(bias).shape();
    check(shape.size() == 2, kernel, ": expected a matrix, found ", shape.size(), " dimensions");
    check(bias_shape == std::vector<int64_t>{shape[1]}, bias, ": expected ", shape[1], " values, as ", kernel,
          " has columns");
    found.push_back({shape[1], shape[0], [kernel] { return transposed(read_npy(kernel)); },
                     [bias] { return read_npy(bias).values; }});
  }
}

/// The pieces of one table, by their number.
StoredTable table_of(const std::string& name, const std::map<int64_t, std::string>& files,
                     std::optional<int64_t> rows) {
  struct Piece {
    std::unique_ptr<NpyReader> file;
    int64_t first = 0, rows = 0;
  };
  auto pieces = std::make_shared<std::vector<Piece>>();
  StoredTable table{name, 0, 0, {}};
  for (const auto& [number, file] : files) {
    check(number == int64_t(pieces->size()), name, ": its piece ", pieces->size(), " is missing, found ", file);
    auto reader = std::make_unique<NpyReader>(file);
    const std::vector<int64_t>& shape = reader->shape();
    check(shape.size() == 2 && shape[0] >= 1 && shape[1] >= 1, file, ": expected a table [rows, dim]");
    check(pieces->empty() || shape[1] == table.dim, file, ": rows of ", shape[1], ", expected ", table.dim);
    table.dim = shape[1];
    pieces->push_back({std::move(reader), table.rows, shape[0]});
    table.rows += shape[0];
  }
  check(!rows || *rows == table.rows, name, ": its pieces have ", table.rows, " rows, its name says ",
        rows.value_or(0));
  table.read = [pieces, dim = table.dim](int64_t first, int64_t count, float* to) {
    for (const Piece& piece : *pieces) {
      const int64_t begin = std::max(first, piece.first), end = std::min(first + count, piece.first + piece.rows);
      if (begin < end) piece.file->read_rows(begin - piece.first, end - begin, to + (begin - first) * dim);
    }
  };
  return table;
}

}  // namespace

std::optional<StoredWeights> open_tf2_npy(const fs::path& path) {
  std::map<int64_t, std::map<int64_t, std::string>> files;  // by feature and piece
  std::map<int64_t, std::optional<int64_t>> rows;
  if (!fs::is_directory(path)) return {};
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto name = FeatureName::of(entry.path().filename().string());
    if (!name) continue;
    check(files[name->feature].emplace(name->piece, entry.path()).second, entry.path().string(), ": piece ",
          name->piece, " of feature ", name->feature, " is there twice");
    const auto [known, fresh] = rows.emplace(name->feature, name->rows);
    check(fresh || known->second == name->rows, entry.path().string(), ": feature ", name->feature,
          " is there under another name too");
  }
  if (files.empty()) return {};

  StoredWeights stored;
  const bool in_pieces = rows.begin()->second.has_value();
  for (const auto& [feature, pieces] : files) {
    const std::string first = pieces.begin()->second;
    check(feature == int64_t(stored.tables.size()), path.string(), ": the table of feature ", stored.tables.size(),
          " is missing, found ", first);
    check(rows[feature].has_value() == in_pieces, first, ": named unlike the other tables");
    stored.tables.push_back(table_of(first, pieces, rows[feature]));
  }
  stored.bottom = layers(path, "bottom_mlp");
  stored.top = layers(path, "top_mlp");
  stored.layout = in_pieces ? "NVIDIA TensorFlow 2, .npy in pieces (March 2022)"
                            : "NVIDIA TensorFlow 2, .npy (July 2022, NGC dlrm_base_tf2_ckpt)";
  stored.order = in_pieces ? StoredWeights::Order::cardinality : StoredWeights::Order::natural;
  stored.numerical_transform = "ln(x+3)";
  stored.notes.push_back(
      "the interaction is taken to be [bottom, pairs], as of NVIDIA's CUDA operation: files do not say");
  return stored;
}

}  // namespace dlrm
