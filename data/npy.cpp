#include "data/npy.h"

#include <cerrno>
#include <cstring>
#include <regex>

#include "kernels/error.h"

namespace dlrm {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr int64_t kMostValues = int64_t(1) << 60;

int64_t values_of(const std::vector<int64_t>& shape) {
  int64_t values = 1;
  for (int64_t extent : shape) values *= extent;
  return values;
}

std::string header(const std::vector<int64_t>& shape) {
  std::string extents;
  for (size_t i = 0; i < shape.size(); ++i) extents += (i ? ", " : "") + std::to_string(shape[i]);
  if (shape.size() == 1) extents += ",";
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + extents + "), }";
  const size_t before = kMagicBytes + 2 + 2;
  dict.append(63 - (before + dict.size()) % 64, ' ');
  dict += '\n';
  std::string head(kMagic, kMagicBytes);
  head += '\x01';
  head += '\x00';
  head += char(dict.size() & 255);
  head += char(dict.size() >> 8);
  return head + dict;
}

/// What stands between two expressions in the header's dict literal.
std::string entry(const std::filesystem::path& path, const std::string& dict, const std::string& pattern) {
  std::smatch match;
  check(std::regex_search(dict, match, std::regex(pattern)), path.string(), ": not a .npy header: ", dict);
  return match[1];
}

std::vector<int64_t> shape_of(const std::filesystem::path& path, const std::string& extents) {
  std::vector<int64_t> shape;
  int64_t values = 1;
  for (size_t at = 0; at < extents.size();) {
    const size_t comma = std::min(extents.find(',', at), extents.size());
    const std::string word = extents.substr(at, comma - at);
    at = comma + 1;
    if (word.find_first_not_of(' ') == word.npos) continue;
    const size_t digits = word.find_first_of("0123456789");
    check(digits != word.npos && word.size() - digits <= 18, path.string(), ": shape (", extents,
          ") is not understood");
    shape.push_back(std::stoll(word.substr(digits)));
    check(shape.back() == 0 || values <= kMostValues / shape.back(), path.string(), ": shape (", extents,
          ") is too large");
    values *= std::max<int64_t>(shape.back(), 1);
  }
  return shape;
}

}  // namespace

NpyWriter::NpyWriter(std::filesystem::path path, const std::vector<int64_t>& shape)
    : path_(std::move(path)), file_(path_, std::ios::binary | std::ios::trunc), missing_(values_of(shape)) {
  const std::string head = header(shape);
  file_.write(head.data(), std::streamsize(head.size()));
  check(bool(file_), path_.string(), ": cannot be written: ", std::strerror(errno));
}

void NpyWriter::append(std::span<const float> values) {
  missing_ -= int64_t(values.size());
  check(missing_ >= 0, path_.string(), ": more values than its shape has");
  file_.write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size_bytes()));
  check(bool(file_), path_.string(), ": cannot be written: ", std::strerror(errno));
}

void NpyWriter::finish() {
  check(missing_ == 0, path_.string(), ": ", missing_, " values fewer than its shape has");
  file_.close();
  check(bool(file_), path_.string(), ": cannot be written: ", std::strerror(errno));
}

void write_npy(const std::filesystem::path& path, std::span<const float> values, const std::vector<int64_t>& shape) {
  NpyWriter file(path, shape);
  file.append(values);
  file.finish();
}

NpyArray read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  check(bool(file), path.string(), ": cannot be opened");
  unsigned char head[12] = {};
  file.read(reinterpret_cast<char*>(head), 10);
  check(bool(file) && std::memcmp(head, kMagic, kMagicBytes) == 0, path.string(), ": not a .npy file");
  const int version = head[6];
  check(version >= 1 && version <= 3, path.string(), ": .npy version ", version, ", expected 1, 2 or 3");
  if (version > 1) file.read(reinterpret_cast<char*>(head + 10), 2);
  const size_t header_start = version == 1 ? 10 : 12;
  const size_t header_bytes =
      head[8] | size_t(head[9]) << 8 | (version > 1 ? size_t(head[10]) << 16 | size_t(head[11]) << 24 : 0);
  const size_t file_bytes = std::filesystem::file_size(path);
  check(bool(file) && header_start + header_bytes <= file_bytes, path.string(), ": ends within its header");
  std::string dict(header_bytes, ' ');
  file.read(dict.data(), std::streamsize(header_bytes));

  const std::string type = entry(path, dict, "'descr': *'([^']*)'");
  check(type == "<f4", path.string(), ": element type '", type, "', expected '<f4' (little-endian float32)");
  const std::string fortran = entry(path, dict, "'fortran_order': *(True|False)");
  check(fortran == "False", path.string(), ": Fortran order, expected C order");
  NpyArray array{shape_of(path, entry(path, dict, "'shape': *\\(([0-9, ]*)\\)")), {}};
  const size_t expected = header_start + header_bytes + size_t(values_of(array.shape)) * sizeof(float);
  check(file_bytes == expected, path.string(), ": ", file_bytes, " bytes, expected ", expected);
  array.values.resize(size_t(values_of(array.shape)));
  file.read(reinterpret_cast<char*>(array.values.data()), std::streamsize(array.values.size() * sizeof(float)));
  check(bool(file), path.string(), ": cannot be read");
  return array;
}

}  // namespace dlrm
