#include <memory>

#include "data/torch_file.h"
#include "dlrm/layouts/layouts.h"
#include "kernels/error.h"

//   bottom_model.mlp.pt, top_model.mlp.pt   {"weights": [tensor [out, in] ...], "biases": [...]}
//   top_model.out.pt                        {"weight": [1, in], "bias": [1]}, its keys perhaps after "module."
//   bottom_model.embeddings.I.bin           rows * dim floats, little-endian
//   embeddings.I.meta.pt                    {"shape": torch.Size([rows, dim])}
//   metadata.pt                             {"data": {"device_mapping": {"embedding": [[table ...] per rank]}, ...},
//                                            "config": {the command line's flags}}
namespace dlrm {
namespace {

namespace fs = std::filesystem;
using Kind = PickleValue::Kind;

using SharedFile = std::shared_ptr<const TorchFile>;

const PickleValue& entry(const TorchFile& file, const PickleValue& dict, const std::string& key) {
  const PickleValue* found = dict.find(key);
  check(found != nullptr, file.path().string(), ": has no entry '", key, "'");
  return *found;
}

StoredLayer layer_of(const SharedFile& file, const PickleValue& weight, const PickleValue& bias,
                     const std::string& name) {
  const std::string where = file->path().string();
  const TorchTensor w = file->tensor(weight, name + " weight"), b = file->tensor(bias, name + " bias");
  check(w.shape.size() == 2, where, ": ", name, " weight: expected a matrix, found ", w.shape.size(), " dimensions");
  check(b.shape == std::vector<int64_t>{w.shape[0]}, where, ": ", name, " bias: expected ", w.shape[0], " values");
  return {w.shape[0], w.shape[1], [file, w] { return file->read(w); }, [file, b] { return file->read(b); }};
}

std::vector<StoredLayer> mlp_layers(const fs::path& path) {
  const auto file = std::make_shared<const TorchFile>(path);
  const PickleValue &weights = entry(*file, file->root(), "weights"), &biases = entry(*file, file->root(), "biases");
  check(weights.kind == Kind::list && biases.kind == Kind::list && weights.items.size() == biases.items.size(),
        path.string(), ": expected as many weights as biases");
  std::vector<StoredLayer> layers;
  for (size_t i = 0; i < weights.items.size(); ++i)
    layers.push_back(layer_of(file, *weights.items[i], *biases.items[i], text("layer ", i)));
  return layers;
}

StoredLayer last_layer(const fs::path& path) {
  const auto file = std::make_shared<const TorchFile>(path);
  const std::string prefix = file->root().find("module.weight") ? "module." : "";
  return layer_of(file, entry(*file, file->root(), prefix + "weight"), entry(*file, file->root(), prefix + "bias"),
                  "the last layer");
}

StoredTable table_of(const fs::path& directory, int64_t index, int64_t dim) {
  const fs::path path = directory / text("bottom_model.embeddings.", index, ".bin");
  const auto file = std::make_shared<const InputFile>(path);
  const size_t row_bytes = size_t(dim) * sizeof(float);
  check(file->bytes() > 0 && file->bytes() % row_bytes == 0, path.string(), ": ", file->bytes(),
        " bytes, expected whole rows of ", dim, " floats");
  StoredTable table{path.string(), int64_t(file->bytes() / row_bytes), dim, {}};
  const fs::path meta = directory / text("embeddings.", index, ".meta.pt");
  if (fs::exists(meta)) {
    const TorchFile about(meta);
    const PickleValue& shape = entry(about, about.root(), "shape");
    const PickleValue* sizes =
        shape.kind == Kind::call && !shape.items[1]->items.empty() ? shape.items[1]->items[0] : nullptr;
    check(sizes && sizes->items.size() == 2, meta.string(), ": expected a shape [rows, dim]");
    check(sizes->items[0]->integer == table.rows && sizes->items[1]->integer == dim, path.string(), ": ", table.rows,
          " rows of ", dim, ", expected ", sizes->items[0]->integer, " of ", sizes->items[1]->integer, " as ",
          meta.filename().string(), " says");
  }
  table.read = [file, row_bytes](int64_t first, int64_t count, float* rows) {
    file->read(size_t(first) * row_bytes, rows, size_t(count) * row_bytes);
  };
  return table;
}

void read_order(const fs::path& path, StoredWeights& stored) {
  using Order = StoredWeights::Order;
  if (!fs::exists(path)) {
    stored.order = Order::unknown;
    stored.why_unknown = path.string() + " is missing, which would list the tables in that order";
    return;
  }
  const TorchFile file(path);
  const PickleValue& data = entry(file, file.root(), "data");
  const PickleValue* mapping = data.find("device_mapping");
  if (mapping == nullptr) {
    stored.order = Order::natural;
    stored.notes.push_back(
        "metadata.pt has no device mapping: saved by one GPU before 2022, natural interaction order");
    return;
  }
  const PickleValue& embedding = entry(file, *mapping, "embedding");
  const PickleValue* config = file.root().find("config");
  const PickleValue* ordered = config ? config->find("bottom_features_ordered") : nullptr;
  if (ordered && ordered->kind == Kind::boolean && ordered->integer && embedding.items.size() > 1) {
    stored.order = Order::natural;
    return;
  }
  stored.order = Order::listed;
  for (const PickleValue* rank : embedding.items)
    for (const PickleValue* table : rank->items) stored.listed.push_back(table->integer);
}

}  // namespace

std::optional<StoredWeights> open_nvidia_pytorch(const fs::path& path) {
  if (!fs::exists(path / "bottom_model.mlp.pt")) return {};
  StoredWeights stored;
  stored.layout = "NVIDIA PyTorch (NGC dlrm_base_pyt_ckpt)";
  stored.bottom = mlp_layers(path / "bottom_model.mlp.pt");
  stored.top = mlp_layers(path / "top_model.mlp.pt");
  stored.top.push_back(last_layer(path / "top_model.out.pt"));
  check(!stored.bottom.empty(), (path / "bottom_model.mlp.pt").string(), ": has no layers");
  stored.numerical = stored.bottom[0].in;
  stored.numerical_transform = "ln(x+3)";
  for (int64_t i = 0; fs::exists(path / text("bottom_model.embeddings.", i, ".bin")); ++i)
    stored.tables.push_back(table_of(path, i, stored.bottom.back().out));
  read_order(path / "metadata.pt", stored);
  return stored;
}

}  // namespace dlrm
