#include "kernels/codecs/codecs.h"

#include <algorithm>

namespace dlrm {

double bytes_per_row(const CodecFit& fit, const float* rows, int64_t count, int64_t dim) {
  int64_t overflow = 0;
  std::vector<std::byte> slot(fit.slot_bytes);
  with_codec(fit.codec, fit.params(), [&](auto codec) {
    for (int64_t row = 0; row < count; ++row) overflow += !codec.encode(Solo{}, rows + row * dim, dim, slot.data());
  });
  return double(fit.slot_bytes) + double(overflow) / double(std::max<int64_t>(count, 1)) * double(dim) * sizeof(float);
}

CodecFit fit_codec(CodecId id, DType dtype, const float* rows, int64_t count, int64_t dim) {
  if (id != CodecId::ibp) return {id, slot_bytes(id, dtype, dim), {}, dtype};
  IbpFit fit = fit_ibp(dtype, rows, count, dim);
  return {id, fit.slot_bytes, std::move(fit.masks), dtype};
}

CodecFit choose_codec(bool for_training, DType dtype, const float* rows, int64_t count, int64_t dim) {
  CodecFit best;
  double least = 0;
  for (CodecId id : {CodecId::raw, CodecId::pfor, CodecId::ibp}) {  // the fastest first
    if (for_training && id == CodecId::ibp) continue;
    CodecFit fit = fit_codec(id, dtype, rows, count, dim);
    const double bytes = bytes_per_row(fit, rows, count, dim);
    if (id != CodecId::raw && bytes >= least) continue;
    least = bytes;
    best = std::move(fit);
  }
  return best;
}

}  // namespace dlrm
