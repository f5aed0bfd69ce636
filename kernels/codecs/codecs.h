// The list of codecs. Adding one: write its header, add it to with_codec and kCodecs; tests, benchmark rows and the
// config's name for it follow by themselves.
//
// Rows go in and come out as fp32. A codec of bf16 rows is given numbers of bf16: their lower halves are zero.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/codecs/ibp.h"
#include "kernels/codecs/pfor.h"
#include "kernels/codecs/raw.h"
#include "kernels/error.h"

namespace dlrm {

enum class CodecId : int32_t { raw = RawCodec::id, ibp = IbpCodec::id, pfor = PforCodec::id };

inline constexpr std::array<CodecId, 3> kCodecs = {CodecId::raw, CodecId::ibp, CodecId::pfor};

/// What the slots of one table have in common.
struct CodecParams {
  size_t slot_bytes = 0;
  const uint32_t* masks = nullptr;  // of ibp
  DType dtype = DType::fp32;
};

/// Calls f with the codec of a table.
template <class F>
decltype(auto) with_codec(CodecId id, const CodecParams& params, F&& f) {
  switch (id) {
    case CodecId::raw:
      return f(RawCodec{params.dtype});
    case CodecId::ibp:
      return f(IbpCodec{params.masks, params.slot_bytes, params.dtype});
    case CodecId::pfor:
      return f(PforCodec{params.dtype});
  }
  fail("codec ", int(id), " is not known to this program");
}

inline std::string codec_name(CodecId id) {
  return with_codec(id, {}, [](auto codec) { return std::string(codec.name); });
}

/// Throws Error where no codec has this name.
inline CodecId codec_by_name(std::string_view name) {
  for (CodecId id : kCodecs)
    if (codec_name(id) == name) return id;
  fail("codec '", name, "' is not known to this program");
}

/// Bytes of one row's slot, of a table that was not fitted.
inline size_t slot_bytes(CodecId id, DType dtype, int64_t dim) {
  return with_codec(id, {}, [&](auto codec) { return codec.slot_bytes(dtype, dim); });
}

/// What a table learnt from a sample of its rows.
struct CodecFit {
  CodecId codec = CodecId::raw;
  size_t slot_bytes = 0;
  std::vector<uint32_t> masks;  // of ibp, [2, columns]
  DType dtype = DType::fp32;

  CodecParams params() const { return {slot_bytes, masks.data(), dtype}; }
};

/// rows [count, dim], host memory; of a bf16 table numbers of bf16, here and below
CodecFit fit_codec(CodecId id, DType dtype, const float* rows, int64_t count, int64_t dim);
/// Bytes that a row of the sample costs on average: its slot, and where it does not fit, an overflow entry too.
double bytes_per_row(const CodecFit& fit, const float* rows, int64_t count, int64_t dim);
/// The codec with the smallest slots, of equals the faster one. For training raw or pfor: masks that suit a table's
/// rows are broken by their first update.
CodecFit choose_codec(bool for_training, DType dtype, const float* rows, int64_t count, int64_t dim);

}  // namespace dlrm
