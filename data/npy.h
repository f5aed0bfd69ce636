// NumPy's .npy files of float32, C order.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

namespace dlrm {

/// Writes a file of a known shape piece by piece, in version 1.0, the data aligned to 64 bytes. Errors name the file.
class NpyWriter {
 public:
  NpyWriter(std::filesystem::path path, const std::vector<int64_t>& shape);
  void append(std::span<const float> values);
  /// Throws Error where fewer values came than the shape has, or the disk is full.
  void finish();

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  int64_t missing_;
};

void write_npy(const std::filesystem::path& path, std::span<const float> values, const std::vector<int64_t>& shape);

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// Reads versions 1 to 3. Throws Error on anything but little-endian float32 in C order, and where the size of the file
/// is not what its header says.
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace dlrm
