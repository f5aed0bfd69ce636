#include "data/npy.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>

#include "data/half.h"
#include "kernels/error.h"

// Layout, all little-endian:
//   "\x93NUMPY"   u8 major   u8 minor   u16 (major 1) or u32 (2, 3) bytes of the header
//   header: a Python dict in ASCII, spaces, "\n"; the values start at a multiple of 64
//     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//   values
namespace dlrm {
namespace {

static_assert(std::endian::native == std::endian::little && sizeof(float) == 4);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlign = 64;
constexpr size_t kMaxHeader = 1 << 20;  // far above any real one
// NumPy leaves room for the first size to grow to this many digits (GROWTH_AXIS_MAX_DIGITS).
constexpr size_t kGrowthDigits = 21;

std::string python_tuple(const std::vector<int64_t>& shape) {
  std::string tuple = "(";
  for (size_t i = 0; i < shape.size(); ++i) tuple += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return tuple + (shape.size() == 1 ? ",)" : ")");
}

// Elements, or -1 where their bytes do not fit 63 bits.
int64_t elements(const std::vector<int64_t>& shape) {
  int64_t product = sizeof(double);
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(product, size, &product)) return -1;
  return product / int64_t(sizeof(double));
}

std::string make_header(const std::vector<int64_t>& shape) {
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': " + python_tuple(shape) + ", }";
  if (!shape.empty()) dict.append(kGrowthDigits - std::to_string(shape[0]).size(), ' ');
  const size_t before = kMagic.size() + 4;
  dict.append(kAlign - (before + dict.size() + 1) % kAlign, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {'\1', '\0', char(dict.size() & 0xff), char(dict.size() >> 8)};
  return header + dict;
}

// Reads the one dict that a header may be, token by token; anything else is an error.
class HeaderParser {
 public:
  HeaderParser(std::string_view header, const std::string& path) : rest_(header), path_(path) {}

  struct Header {
    std::vector<int64_t> shape;
    size_t element_bytes = 0;
    bool fortran = false;
  };

  Header parse() {
    expect("{");
    while (!accept("}")) {
      read_entry(string());
      if (accept(",")) continue;
      expect("}");
      break;
    }
    skip_spaces();
    check(rest_.empty(), path_, ": the header does not end after its dict");
    check(has_descr_ && has_order_ && has_shape_, path_, ": the header lacks one of descr, fortran_order and shape");
    return result_;
  }

 private:
  void read_entry(const std::string& key) {
    expect(":");
    if (key == "descr") {
      check(peek() == '\'' || peek() == '"', path_, ": expected '<f4', '<f2' or '<f8', found a structured type");
      const std::string descr = string();
      check(descr == "<f4" || descr == "<f2" || descr == "<f8", path_, ": expected '<f4', '<f2' or '<f8', found '",
            descr, "'");
      result_.element_bytes = size_t(descr[2] - '0');
      has_descr_ = true;
    } else if (key == "fortran_order") {
      result_.fortran = !accept("False");
      if (result_.fortran) expect("True");
      has_order_ = true;
    } else if (key == "shape") {
      read_shape();
      has_shape_ = true;
    } else {
      fail(path_, ": the header has an unknown entry '", key, "'");
    }
  }

  void read_shape() {
    result_.shape.clear();
    expect("(");
    while (!accept(")")) {
      result_.shape.push_back(number());
      if (accept(",")) continue;
      expect(")");
      break;
    }
  }

  int64_t number() {
    skip_spaces();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    check(error == std::errc() && value >= 0, path_, ": the shape in the header is not one");
    rest_.remove_prefix(size_t(end - rest_.data()));
    accept("L");  // Python 2 wrote 3L
    return value;
  }

  std::string string() {
    const char quote = peek();
    const size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    check(end != std::string_view::npos, path_, ": the header is damaged: expected a string");
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(" \n"))); }
  char peek() {
    skip_spaces();
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) { check(accept(token), path_, ": the header is damaged: expected ", token); }

  std::string_view rest_;
  const std::string& path_;
  Header result_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

/// The header's dict, and where the values begin.
std::pair<std::string, size_t> read_header(const InputFile& file) {
  const std::string path = file.path().string();
  size_t at = 0;
  const auto next = [&](size_t bytes) {
    check(bytes <= file.bytes() - at, path, ": the file ends inside its header");
    std::string result(bytes, '\0');
    file.read(at, result.data(), bytes);
    at += bytes;
    return result;
  };
  const std::string start = next(kMagic.size() + 2);
  check(start.starts_with(kMagic), path, ": not a .npy file: it does not start with \\x93NUMPY");
  const int major = uint8_t(start[kMagic.size()]), minor = uint8_t(start[kMagic.size() + 1]);
  check(major >= 1 && major <= 3 && minor == 0, path, ": expected .npy version 1.0, 2.0 or 3.0, found ", major, ".",
        minor);
  uint32_t size = 0;
  const std::string length = next(major == 1 ? 2 : 4);
  std::memcpy(&size, length.data(), length.size());
  check(size <= kMaxHeader, path, ": the header claims ", size, " bytes, expected at most ", kMaxHeader);
  std::string dict = next(size);
  return {std::move(dict), at};
}

}  // namespace

NpyReader::NpyReader(const std::string& path) : file_(path) {
  const auto [dict, begin] = read_header(file_);
  const HeaderParser::Header header = HeaderParser(dict, path).parse();
  begin_ = begin;
  shape_ = header.shape;
  element_bytes_ = header.element_bytes;
  fortran_ = header.fortran && shape_.size() > 1;
  check(!fortran_ || shape_.size() == 2, path, ": Fortran order of ", shape_.size(), " dimensions, expected 2");
  size_ = elements(shape_);
  check(size_ >= 0, path, ": the shape ", python_tuple(shape_), " is too large");
  const uint64_t expected = begin_ + uint64_t(size_) * element_bytes_;
  check(file_.bytes() == expected, path, ": expected ", expected, " bytes for the shape ", python_tuple(shape_),
        ", found ", file_.bytes());
}

void NpyReader::read_elements(int64_t first, int64_t count, float* values, int64_t stride) const {
  const size_t at = begin_ + size_t(first) * element_bytes_;
  const auto read_as = [&](auto number, auto convert) {
    std::vector<decltype(number)> raw(static_cast<size_t>(count));
    file_.read(at, raw.data(), raw.size() * sizeof number);
    for (size_t i = 0; i < raw.size(); ++i) values[int64_t(i) * stride] = convert(raw[i]);
  };
  if (element_bytes_ == 2) return read_as(uint16_t(), half_to_float);
  if (element_bytes_ == 8) return read_as(double(), [](double value) { return float(value); });
  if (stride != 1) return read_as(float(), [](float value) { return value; });
  file_.read(at, values, size_t(count) * sizeof(float));
}

void NpyReader::read_rows(int64_t first, int64_t count, float* values) const {
  const int64_t rows = shape_.empty() ? 1 : shape_[0], width = rows == 0 ? 0 : size_ / rows;
  check(first >= 0 && count >= 0 && first <= rows - count, file_.path().string(), ": rows ", first, " to ",
        first + count, " of ", rows);
  if (!fortran_) return read_elements(first * width, count * width, values, 1);
  for (int64_t column = 0; column < width; ++column)
    read_elements(column * rows + first, count, values + column, width);
}

NpyArray read_npy(const std::string& path) {
  NpyReader reader(path);
  NpyArray array{reader.shape(), std::vector<float>(size_t(reader.size()))};
  if (reader.size() > 0) reader.read_rows(0, reader.shape().empty() ? 1 : reader.shape()[0], array.values.data());
  return array;
}

NpyWriter::NpyWriter(std::string path, const std::vector<int64_t>& shape) : path_(std::move(path)) {
  check(std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 0; }) && elements(shape) >= 0, path_,
        ": ", python_tuple(shape), " is not a shape");
  size_ = elements(shape);
  file_.reset(std::fopen(path_.c_str(), "wb"));
  check(file_ != nullptr, path_, ": cannot be created: ", std::strerror(errno));
  const std::string header = make_header(shape);
  write(header.data(), header.size());
}

void NpyWriter::append(std::span<const float> values) {
  check(int64_t(values.size()) <= size_ - done_, path_, ": ", size_ - done_, " of ", size_, " values are missing, ",
        values.size(), " were appended");
  if (values.empty()) return;
  write(values.data(), values.size_bytes());
  done_ += int64_t(values.size());
}

void NpyWriter::close() {
  check(done_ == size_, path_, ": expected ", size_, " values, ", done_, " were appended");
  const bool flushed = std::fflush(file_.get()) == 0;
  check(flushed, path_, ": cannot be written: ", std::strerror(errno));
  const bool closed = std::fclose(file_.release()) == 0;
  check(closed, path_, ": cannot be written: ", std::strerror(errno));
}

void NpyWriter::write(const void* bytes, size_t size) {
  const bool written = std::fwrite(bytes, 1, size, file_.get()) == size;
  check(written, path_, ": cannot be written: ", std::strerror(errno));
}

void write_npy(const std::string& path, std::span<const float> values, const std::vector<int64_t>& shape) {
  NpyWriter writer(path, shape);
  writer.append(values);
  writer.close();
}

}  // namespace dlrm
