#include "dlrm/nearest.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace dlrm {
namespace {

char lower(char letter) {
  return char(std::tolower(static_cast<unsigned char>(letter)));
}

// Damerau-Levenshtein distance in its restricted form (Boytsov, "Indexing methods for approximate dictionary
// searching", 2011, section 2.2.1): three rows of the table suffice.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_above(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_above, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> valid) {
  std::string best;
  size_t best_distance = std::string::npos;
  for (const std::string& candidate : valid) {
    const size_t distance = edit_distance(word, candidate);
    const size_t near = std::max<size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (distance > near || distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> valid) {
  const std::string meant = nearest(word, valid);
  return meant.empty() ? "" : " Did you mean '" + meant + "'?";
}

}  // namespace dlrm
