#include "data/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "kernels/error.h"

namespace dlrm {

void Checksum::add(const void* data, size_t bytes) {
  if (bytes == 0) return;  // zlib takes a null pointer as a wish to begin anew
  value_ = uint32_t(crc32_z(value_, static_cast<const Bytef*>(data), bytes));
}

Checksum checksum_of(const std::string& text) {
  Checksum sum;
  sum.add(text.data(), text.size());
  return sum;
}

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  check(file_ >= 0, path_.string(), ": cannot be written: ", std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
}

void OutputFile::write(size_t offset, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = pwrite(file_, from, bytes, off_t(offset));
    if (done < 0 && errno == EINTR) continue;
    check(done > 0, path_.string(), ": cannot write ", bytes, " bytes at ", offset, ": ", std::strerror(errno));
    from += done;
    offset += size_t(done);
    bytes -= size_t(done);
  }
}

void OutputFile::finish() {
  const bool flushed = fsync(file_) == 0;
  const bool closed = close(file_) == 0;
  file_ = -1;
  check(flushed && closed, path_.string(), ": cannot be written: ", std::strerror(errno));
}

InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  check(file_ >= 0, path_.string(), ": cannot be read: ", std::strerror(errno));
  struct stat info;
  check(fstat(file_, &info) == 0 && S_ISREG(info.st_mode), path_.string(), ": is a directory, expected a file");
  bytes_ = size_t(info.st_size);
}

InputFile::~InputFile() {
  close(file_);
}

void InputFile::read(size_t offset, void* data, size_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t done = pread(file_, to, bytes, off_t(offset));
    if (done < 0 && errno == EINTR) continue;
    check(done >= 0, path_.string(), ": cannot be read: ", std::strerror(errno));
    check(done > 0, path_.string(), ": ends at byte ", offset, ", expected ", bytes, " more");
    to += done;
    offset += size_t(done);
    bytes -= size_t(done);
  }
}

void sync_path(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  check(file >= 0, path.string(), ": cannot be opened: ", std::strerror(errno));
  const bool flushed = fsync(file) == 0;
  close(file);
  check(flushed, path.string(), ": cannot be written: ", std::strerror(errno));
}

std::string read_text(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(0, text.data(), text.size());
  file.finish();
}

}  // namespace dlrm
