// The one exception of this program: what was being done, what was expected, what was found, and a hint where one
// helps.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace dlrm {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The parts written one after the other, as to a stream.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws Error:  fail(path, ": row ", row, " has ", found, " columns, expected 40");
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(text(parts...));
}

/// Throws Error with the given parts unless `ok`. For inputs; our own mistakes are for assert.
template <class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) fail(parts...);
}

}  // namespace dlrm
