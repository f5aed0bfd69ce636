#include "data/npy.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>

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
  int64_t product = sizeof(float);
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(product, size, &product)) return -1;
  return product / int64_t(sizeof(float));
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

  std::vector<int64_t> shape() {
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
    return shape_;
  }

 private:
  void read_entry(const std::string& key) {
    expect(":");
    if (key == "descr") {
      check(peek() == '\'' || peek() == '"', path_, ": expected float32 ('<f4'), found a structured type");
      const std::string descr = string();
      check(descr == "<f4", path_, ": expected float32 ('<f4'), found '", descr, "'");
      has_descr_ = true;
    } else if (key == "fortran_order") {
      const bool fortran = !accept("False");
      if (fortran) expect("True");
      check(!fortran, path_,
            ": expected C order, found Fortran order. Hint: numpy.save(path, numpy.ascontiguousarray(a))");
      has_order_ = true;
    } else if (key == "shape") {
      read_shape();
      has_shape_ = true;
    } else {
      fail(path_, ": the header has an unknown entry '", key, "'");
    }
  }

  void read_shape() {
    shape_.clear();
    expect("(");
    while (!accept(")")) {
      shape_.push_back(number());
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
  std::vector<int64_t> shape_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

std::string read_bytes(std::FILE* file, size_t size, const std::string& path) {
  std::string bytes(size, '\0');
  check(std::fread(bytes.data(), 1, size, file) == size, path, ": the file ends inside its header");
  return bytes;
}

std::string read_header(std::FILE* file, const std::string& path) {
  const std::string start = read_bytes(file, kMagic.size() + 2, path);
  check(start.starts_with(kMagic), path, ": not a .npy file: it does not start with \\x93NUMPY");
  const int major = uint8_t(start[kMagic.size()]), minor = uint8_t(start[kMagic.size() + 1]);
  check(major >= 1 && major <= 3 && minor == 0, path, ": expected .npy version 1.0, 2.0 or 3.0, found ", major, ".",
        minor);
  uint32_t size = 0;
  const std::string length = read_bytes(file, major == 1 ? 2 : 4, path);
  std::memcpy(&size, length.data(), length.size());
  check(size <= kMaxHeader, path, ": the header claims ", size, " bytes, expected at most ", kMaxHeader);
  return read_bytes(file, size, path);
}

}  // namespace

NpyReader::NpyReader(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rb")) {
  check(file_ != nullptr, path_, ": cannot be opened: ", std::strerror(errno));
  check(std::filesystem::is_regular_file(path_), path_, ": expected a regular file");
  shape_ = HeaderParser(read_header(file_.get(), path_), path_).shape();
  size_ = elements(shape_);
  check(size_ >= 0, path_, ": the shape ", python_tuple(shape_), " is too large");
  const uint64_t expected = uint64_t(std::ftell(file_.get())) + uint64_t(size_) * sizeof(float);
  const uint64_t found = std::filesystem::file_size(path_);
  check(found == expected, path_, ": expected ", expected, " bytes for the shape ", python_tuple(shape_), ", found ",
        found);
}

void NpyReader::read(std::span<float> values) {
  check(int64_t(values.size()) <= size_ - done_, path_, ": ", size_ - done_, " of ", size_, " values are left, ",
        values.size(), " were asked for");
  if (values.empty()) return;  // fread may not be given the null pointer of an empty span, nor may fwrite
  const size_t read = std::fread(values.data(), sizeof(float), values.size(), file_.get());
  check(read == values.size(), path_, ": cannot be read at value ", done_ + int64_t(read), ": ",
        std::ferror(file_.get()) ? std::strerror(errno) : "the file was truncated");
  done_ += int64_t(read);
}

NpyArray read_npy(const std::string& path) {
  NpyReader reader(path);
  NpyArray array{reader.shape(), std::vector<float>(size_t(reader.size()))};
  reader.read(array.values);
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
