// Lines of a text file, plain or gzip; which one is seen from its content.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/files.h"

namespace dlrm {

class TextInput {
 public:
  /// Throws Error where the file cannot be opened.
  explicit TextInput(const std::string& path);
  TextInput(const TextInput&) = delete;
  TextInput& operator=(const TextInput&) = delete;
  ~TextInput();

  /// The next line without its '\n' (a '\r' stays); valid until the next call. False at the end. A last line without
  /// '\n' counts. Throws Error where gzip data is damaged or cut short.
  bool next(std::string_view& line);
  /// Of the line last returned, from 1.
  int64_t line_number() const { return line_number_; }
  const std::string& path() const { return path_; }

 private:
  /// More bytes behind the ones not yet used. False at the end of the file.
  bool fill();

  std::string path_;
  void* file_;  // gzFile
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  int64_t line_number_ = 0;
};

}  // namespace dlrm
