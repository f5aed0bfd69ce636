// Files that must survive a crash: every write checked, flushed to the disk, named in errors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace dlrm {

/// CRC-32 (zlib's) of bytes that come in pieces.
class Checksum {
 public:
  void add(const void* data, size_t bytes);
  uint32_t value() const { return value_; }

 private:
  uint32_t value_ = 0;
};

Checksum checksum_of(const std::string& text);

/// A new file, written at any offset.
class OutputFile {
 public:
  /// Throws Error where it cannot be made.
  explicit OutputFile(std::filesystem::path path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();
  /// Throws Error where not all bytes could be written (disk full).
  void write(size_t offset, const void* data, size_t bytes);
  /// Returns when the disk has the bytes.
  void finish();

 private:
  std::filesystem::path path_;
  int file_;
};

/// An existing file, read at any offset.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();
  size_t bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  /// Throws Error where the file ends before offset + bytes.
  void read(size_t offset, void* data, size_t bytes) const;

 private:
  std::filesystem::path path_;
  int file_;
  size_t bytes_ = 0;
};

/// Flushes a file, or a directory's entries, to the disk.
void sync_path(const std::filesystem::path& path);

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace dlrm
