#include "data/text_input.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "kernels/error.h"

namespace dlrm {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

}  // namespace

TextInput::TextInput(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")), buffer_(kBlockBytes) {
  check(file_ != nullptr, path, ": cannot be opened: ", std::strerror(errno));
  gzbuffer(static_cast<gzFile>(file_), kBlockBytes);
}

TextInput::~TextInput() {
  gzclose(static_cast<gzFile>(file_));
}

bool TextInput::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const size_t room = std::min<size_t>(buffer_.size() - end_, 1u << 30);
  const int read = gzread(static_cast<gzFile>(file_), buffer_.data() + end_, unsigned(room));
  int status = Z_OK;
  const char* message = gzerror(static_cast<gzFile>(file_), &status);
  if (status == Z_ERRNO) fail(path_, ": cannot be read: ", std::strerror(errno));
  check(status != Z_BUF_ERROR, path_, ": gzip data is cut short after line ", line_number_);
  check(read >= 0 && status == Z_OK, path_, ": gzip data is damaged after line ", line_number_, ": ", message);
  end_ += size_t(read);
  return read > 0;
}

bool TextInput::next(std::string_view& line) {
  size_t searched = 0;
  for (;;) {
    const void* newline = std::memchr(buffer_.data() + begin_ + searched, '\n', end_ - begin_ - searched);
    if (newline) {
      const size_t at = size_t(static_cast<const char*>(newline) - buffer_.data());
      line = {buffer_.data() + begin_, at - begin_};
      begin_ = at + 1;
      ++line_number_;
      return true;
    }
    searched = end_ - begin_;
    if (fill()) continue;
    if (begin_ == end_) return false;
    line = {buffer_.data() + begin_, end_ - begin_};
    begin_ = end_;
    ++line_number_;
    return true;
  }
}

}  // namespace dlrm
