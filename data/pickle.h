// Python's pickles as data: what a pickle would build is read as a tree, and nothing is ever called. Globals (classes
// and functions) must be on a list; the opcodes are those that protocols 2 to 4 need for numbers, texts, containers,
// calls and persistent ids.
// Format: CPython's Lib/pickletools.py.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/files.h"

namespace dlrm {

struct PickleValue {
  enum class Kind { none, boolean, integer, real, text, list, dict, global, call, persistent };
  Kind kind = Kind::none;
  int64_t integer = 0;                     // of boolean and integer
  double real = 0;                         // of real
  std::string text;                        // of text and bytes; of a global "module name"
  std::vector<const PickleValue*> items;   // of list, tuple and set; of dict key, value, key, value ...; of call the
                                           // callable and the tuple of arguments; of persistent the id
  std::vector<const PickleValue*> filled;  // of a call: what was put into its result as into a dict

  bool is_text(std::string_view value) const { return kind == Kind::text && text == value; }
  bool is_global(std::string_view value) const { return kind == Kind::global && text == value; }
  /// The value of a text key in a dict, or in the result of a call that was filled as one; null without it.
  const PickleValue* find(std::string_view key) const;
};

class Pickle {
 public:
  /// Reads one pickle from byte `begin` of a file on, which ends before `end`. Throws Error naming file and byte where
  /// it is damaged, asks for a global that is not in `allowed` ("module name"), or for an opcode that is not known.
  Pickle(const InputFile& file, uint64_t begin, uint64_t end, std::span<const std::string_view> allowed);

  const PickleValue& root() const { return *root_; }
  /// Every value that was made, in that order.
  template <class F>
  void for_each(F f) const {
    for (const PickleValue& value : values_) f(value);
  }
  /// Where the pickle ends in the file.
  uint64_t end() const { return end_; }

 private:
  class Reader;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
  uint64_t end_ = 0;
};

}  // namespace dlrm
