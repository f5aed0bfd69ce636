// Finds what somebody meant to type.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace dlrm {

/// The valid word nearest to `word` by edits and swaps of neighbours (optimal string alignment); empty where none is
/// near.
std::string nearest(std::string_view word, std::span<const std::string> valid);

/// " Did you mean 'WORD'?", or empty.
std::string did_you_mean(std::string_view word, std::span<const std::string> valid);

}  // namespace dlrm
