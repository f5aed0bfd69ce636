#include "dlrm/export_tf2.h"

#include "data/npy.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// [out, in] to [in padded, out].
std::vector<float> kernel_of(const std::vector<float>& weight, int64_t in, int64_t out, int64_t padded_in) {
  std::vector<float> kernel(size_t(padded_in * out), 0.0f);
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i) kernel[size_t(i * out + o)] = weight[size_t(o * in + i)];
  return kernel;
}

void export_mlp(const Checkpoint& checkpoint, const std::string& name, const std::vector<int64_t>& widths,
                const fs::path& output) {
  for (size_t layer = 0; layer < widths.size(); ++layer) {
    const std::string ours = text(name, "_", layer, "_"), theirs = text(name, "_mlp_layer_", layer, "_");
    const std::vector<float> weight = read_array(checkpoint, ours + "weight");
    const int64_t out = widths[layer], in = int64_t(weight.size()) / out;
    const int64_t padded_in = layer == 0 ? (in + 7) / 8 * 8 : in;
    write_npy((output / (theirs + "kernel_part0.npy")).string(), kernel_of(weight, in, out, padded_in),
              {padded_in, out});
    write_npy((output / (theirs + "bias_part0.npy")).string(), read_array(checkpoint, ours + "bias"), {out});
  }
}

}  // namespace

void export_tf2(const Checkpoint& checkpoint, const fs::path& output) {
  check(!fs::exists(output), output.string(), ": exists already");
  fs::create_directories(output);
  export_mlp(checkpoint, "bottom", checkpoint.model.bottom, output);
  export_mlp(checkpoint, "top", checkpoint.model.top, output);
  const int64_t dim = checkpoint.model.dim;
  for (size_t t = 0; t < checkpoint.tables.size(); ++t) {
    NpyWriter file((output / text("feature_", t, "_part0.npy")).string(), {checkpoint.model.tables[t].rows, dim});
    visit_rows(checkpoint, t, [&](int64_t, int64_t count, const float* rows, const float*) {
      file.append({rows, size_t(count * dim)});
    });
    file.close();
  }
}

}  // namespace dlrm
