// NumPy's array files. Read: float16, float32 and float64, in C order and matrices in Fortran order too. Written:
// float32 in C order. Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/files.h"

namespace dlrm {

struct NpyArray {
  std::vector<int64_t> shape;  // empty: a single number
  std::vector<float> values;
};

/// In C order. Throws Error where the file is another kind of array, or is longer or shorter than its shape says.
NpyArray read_npy(const std::string& path);

/// Writes the file that numpy.save writes. Throws Error where values are not as many as the shape says.
void write_npy(const std::string& path, std::span<const float> values, const std::vector<int64_t>& shape);

namespace detail {
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;
}  // namespace detail

/// Reads a file that need not fit into memory. Several threads may read at once.
class NpyReader {
 public:
  explicit NpyReader(const std::string& path);

  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const { return size_; }  // elements
  /// Rows [first, first + count) of the first dimension, in C order.   values [count * size() / shape()[0]]
  void read_rows(int64_t first, int64_t count, float* values) const;

 private:
  /// Consecutive elements of the file, `stride` floats apart in `values`.
  void read_elements(int64_t first, int64_t count, float* values, int64_t stride) const;

  InputFile file_;
  std::vector<int64_t> shape_;
  int64_t size_ = 0;
  size_t begin_ = 0;          // of the values, in bytes
  size_t element_bytes_ = 4;  // 2: float16, 4: float32, 8: float64
  bool fortran_ = false;
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
