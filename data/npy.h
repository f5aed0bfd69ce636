// NumPy's array files, of float32 in C order.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dlrm {

struct NpyArray {
  std::vector<int64_t> shape;  // empty: a single number
  std::vector<float> values;
};

/// Throws Error where the file is not an array of float32 in C order, or is longer or shorter than its shape says.
NpyArray read_npy(const std::string& path);

/// Writes the file that numpy.save writes. Throws Error where values are not as many as the shape says.
void write_npy(const std::string& path, std::span<const float> values, const std::vector<int64_t>& shape);

namespace detail {
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;
}  // namespace detail

/// Reads a file that need not fit into memory.
class NpyReader {
 public:
  explicit NpyReader(std::string path);

  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const { return size_; }  // elements
  /// The next values. Throws Error where fewer are left.
  void read(std::span<float> values);

 private:
  std::string path_;
  detail::File file_;
  std::vector<int64_t> shape_;
  int64_t size_ = 0, done_ = 0;
};

/// Writes a file piece by piece. Errors, such as a full disk, surface in append or close at the latest.
class NpyWriter {
 public:
  NpyWriter(std::string path, const std::vector<int64_t>& shape);

  void append(std::span<const float> values);
  /// Throws Error unless all values of the shape were appended and everything was written. Without it the file is no
  /// complete one.
  void close();

 private:
  void write(const void* bytes, size_t size);

  std::string path_;
  detail::File file_;
  int64_t size_ = 0, done_ = 0;
};

}  // namespace dlrm
