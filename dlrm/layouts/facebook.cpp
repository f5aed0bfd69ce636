#include <memory>

#include "data/torch_file.h"
#include "dlrm/layouts/layouts.h"
#include "kernels/error.h"

// {"state_dict": {"emb_l.I.weight" [rows, dim], "bot_l.2L.weight" [out, in], "bot_l.2L.bias", "top_l.2L.weight", ...},
// ...}; the odd modules are activations. Interaction in natural order, without padding.
namespace dlrm {
namespace {

namespace fs = std::filesystem;
using SharedFile = std::shared_ptr<const TorchFile>;

std::vector<StoredLayer> layers(const SharedFile& file, const PickleValue& state, const std::string& mlp) {
  const std::string where = file->path().string();
  std::vector<StoredLayer> found;
  for (;;) {
    const std::string name = text(mlp, ".", 2 * found.size(), ".");
    const PickleValue *weight = state.find(name + "weight"), *bias = state.find(name + "bias");
    if (!weight && !bias) return found;
    check(weight && bias, where, ": ", name, "weight without ", name, "bias, or the other way round");
    const TorchTensor w = file->tensor(*weight, name + "weight"), b = file->tensor(*bias, name + "bias");
    check(w.shape.size() == 2, where, ": ", name, "weight: expected a matrix, found ", w.shape.size(), " dimensions");
    check(b.shape == std::vector<int64_t>{w.shape[0]}, where, ": ", name, "bias: expected ", w.shape[0], " values");
    found.push_back({w.shape[0], w.shape[1], [file, w] { return file->read(w); }, [file, b] { return file->read(b); }});
  }
}

}  // namespace

std::optional<StoredWeights> open_facebook(const fs::path& path) {
  if (!fs::is_regular_file(path)) return {};
  const auto file = std::make_shared<const TorchFile>(path);
  const std::string where = path.string();
  const PickleValue* state = file->root().find("state_dict");
  check(state != nullptr, where, ": has no entry 'state_dict', expected a file of facebookresearch/dlrm --save-model");
  for (const auto& [key, what] :
       {std::pair(".weight_q", "the quotient-remainder trick"), std::pair(".embs.weight", "mixed dimensions"),
        std::pair("v_W_l.0", "learned pooling")})
    check(!state->find(text(std::string_view(key).starts_with("v_") ? "" : "emb_l.0", key)), where, ": a model with ",
          what, ", which this program does not have");

  StoredWeights stored;
  stored.layout = "facebookresearch/dlrm --save-model";
  stored.bottom = layers(file, *state, "bot_l");
  stored.top = layers(file, *state, "top_l");
  for (;;) {
    const std::string name = text("emb_l.", stored.tables.size(), ".weight");
    const PickleValue* weight = state->find(name);
    if (!weight) break;
    const TorchTensor w = file->tensor(*weight, name);
    check(w.shape.size() == 2, where, ": ", name, ": expected a table [rows, dim], found ", w.shape.size(),
          " dimensions");
    stored.tables.push_back(
        {text(where, ": ", name), w.shape[0], w.shape[1], [file, w](int64_t first, int64_t count, float* rows) {
           file->read(w, first * w.shape[1], count * w.shape[1], rows);
         }});
  }
  check(!stored.bottom.empty(), where, ": has no layers bot_l");
  stored.numerical = stored.bottom[0].in;
  stored.numerical_transform = "ln(x+1)";
  return stored;
}

}  // namespace dlrm
