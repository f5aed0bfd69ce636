// "Did you mean ...?": the valid word that a mistyped one was probably meant to be.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace dlrm {

/// The word of `valid` that takes the fewest typing slips to turn into `word`: letters added, dropped, changed or
/// swapped with a neighbour; upper and lower case count as the same. Empty where none is near (more than a third of the
/// letters differ); the first of several equally near.
std::string nearest(std::string_view word, std::span<const std::string> valid);

/// " Did you mean 'NEAREST'?", or nothing where no word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> valid);

}  // namespace dlrm
