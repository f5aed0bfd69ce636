// The list of codecs. Adding one: write its header, add it to with_codec and codec_names; tests, benchmark rows and the
// config's name for it follow by themselves.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "kernels/codecs/pfor.h"
#include "kernels/codecs/raw.h"
#include "kernels/error.h"

namespace dlrm {

enum class CodecId : int32_t { raw = RawCodec::id, pfor = PforCodec::id };

inline constexpr std::array<CodecId, 2> kCodecs = {CodecId::raw, CodecId::pfor};

/// Calls f(Codec{}) with the codec's type.
template <class F>
decltype(auto) with_codec(CodecId id, F&& f) {
  switch (id) {
    case CodecId::raw:
      return f(RawCodec{});
    case CodecId::pfor:
      return f(PforCodec{});
  }
  fail("codec ", int(id), " is not known to this program");
}

inline std::string codec_name(CodecId id) {
  return with_codec(id, [](auto codec) { return std::string(codec.name); });
}

/// Throws Error where no codec has this name.
inline CodecId codec_by_name(std::string_view name) {
  for (CodecId id : kCodecs)
    if (codec_name(id) == name) return id;
  fail("codec '", name, "' is not known to this program");
}

/// Bytes of one row's slot; rows are fp32.
inline size_t slot_bytes(CodecId id, int64_t dim) {
  return with_codec(id, [&](auto codec) { return codec.slot_bytes(dim); });
}

}  // namespace dlrm
