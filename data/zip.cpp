#include "data/zip.h"

#include <algorithm>
#include <cstring>

#include "kernels/error.h"

// Little-endian. The end record is in the last 64 KiB or so of the file (a comment may follow it); before it, where
// numbers do not fit, a Zip64 locator and record.
namespace dlrm {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kLocator64 = 0x07064b50,
                   kEnd64 = 0x06064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kLocator64Bytes = 20, kEnd64Bytes = 56;
constexpr size_t kMostComment = 0xffff;
constexpr uint64_t kMostDirectory = uint64_t(1) << 30;

template <class T>
T number(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::string bytes_at(const InputFile& file, uint64_t offset, uint64_t bytes, const char* what) {
  check(offset <= file.bytes() && bytes <= file.bytes() - offset, file.path().string(), ": ", what, " at byte ", offset,
        " is past the end of the file, which has ", file.bytes(), " bytes");
  std::string result(bytes, '\0');
  file.read(offset, result.data(), result.size());
  return result;
}

struct Directory {
  uint64_t offset, bytes, members;
};

Directory find_directory(const InputFile& file) {
  const std::string path = file.path().string();
  const uint64_t tail_bytes = std::min<uint64_t>(file.bytes(), kEndBytes + kMostComment);
  const std::string tail = bytes_at(file, file.bytes() - tail_bytes, tail_bytes, "its end");
  for (size_t back = kEndBytes; back <= tail.size(); ++back) {
    const char* end = tail.data() + tail.size() - back;
    if (number<uint32_t>(end) != kEnd || number<uint16_t>(end + 20) != back - kEndBytes) continue;
    Directory found{number<uint32_t>(end + 16), number<uint32_t>(end + 12), number<uint16_t>(end + 10)};
    const uint64_t end_offset = file.bytes() - back;
    if (end_offset < kLocator64Bytes) return found;
    const std::string locator = bytes_at(file, end_offset - kLocator64Bytes, kLocator64Bytes, "the Zip64 locator");
    if (number<uint32_t>(locator.data()) != kLocator64) return found;
    const std::string end64 = bytes_at(file, number<uint64_t>(&locator[8]), kEnd64Bytes, "the Zip64 end record");
    check(number<uint32_t>(end64.data()) == kEnd64, path, ": the Zip64 end record is damaged");
    return {number<uint64_t>(&end64[48]), number<uint64_t>(&end64[40]), number<uint64_t>(&end64[32])};
  }
  fail(path, ": not a ZIP file, or cut short: it has no end record");
}

/// Replaces the numbers that say "see the Zip64 field", in its order.
void apply_zip64(const std::string& path, std::string_view extra, std::initializer_list<uint64_t*> numbers) {
  while (extra.size() >= 4) {
    const size_t bytes = number<uint16_t>(&extra[2]);
    check(bytes <= extra.size() - 4, path, ": the ZIP directory is damaged");
    if (number<uint16_t>(extra.data()) == 1) {
      std::string_view field = extra.substr(4, bytes);
      for (uint64_t* n : numbers) {
        if (*n != 0xffffffff) continue;
        check(field.size() >= 8, path, ": the ZIP directory is damaged");
        *n = number<uint64_t>(field.data());
        field.remove_prefix(8);
      }
      return;
    }
    extra.remove_prefix(4 + bytes);
  }
}

}  // namespace

bool ZipFile::is_one(const InputFile& file) {
  char start[4];
  if (file.bytes() < sizeof start) return false;
  file.read(0, start, sizeof start);
  return number<uint32_t>(start) == kLocal;
}

ZipFile::ZipFile(const InputFile& file) : path_(file.path().string()) {
  const Directory directory = find_directory(file);
  check(directory.bytes <= kMostDirectory, path_, ": its ZIP directory claims ", directory.bytes, " bytes");
  const std::string bytes = bytes_at(file, directory.offset, directory.bytes, "its ZIP directory");
  std::string_view rest = bytes;
  for (uint64_t i = 0; i < directory.members; ++i) {
    check(rest.size() >= kCentralBytes && number<uint32_t>(rest.data()) == kCentral, path_,
          ": its ZIP directory is damaged at member ", i, " of ", directory.members);
    const size_t name_bytes = number<uint16_t>(&rest[28]), extra_bytes = number<uint16_t>(&rest[30]),
                 comment_bytes = number<uint16_t>(&rest[32]);
    const int method = number<uint16_t>(&rest[10]);
    uint64_t compressed = number<uint32_t>(&rest[20]), local = number<uint32_t>(&rest[42]);
    Member member{"", 0, number<uint32_t>(&rest[24]), number<uint32_t>(&rest[16])};
    check(rest.size() - kCentralBytes >= name_bytes + extra_bytes + comment_bytes, path_,
          ": its ZIP directory is damaged at member ", i, " of ", directory.members);
    member.name = rest.substr(kCentralBytes, name_bytes);
    apply_zip64(path_, rest.substr(kCentralBytes + name_bytes, extra_bytes), {&member.bytes, &compressed, &local});
    rest.remove_prefix(kCentralBytes + name_bytes + extra_bytes + comment_bytes);
    check(method == 0 && compressed == member.bytes, path_, ": member ", member.name,
          " is compressed, expected it stored");
    const std::string header = bytes_at(file, local, kLocalBytes, "a ZIP member");
    check(number<uint32_t>(header.data()) == kLocal, path_, ": member ", member.name, ": its header is damaged");
    member.offset = local + kLocalBytes + number<uint16_t>(&header[26]) + number<uint16_t>(&header[28]);
    check(member.offset <= file.bytes() && member.bytes <= file.bytes() - member.offset, path_, ": member ",
          member.name, " ends past the end of the file");
    members_.push_back(std::move(member));
  }
}

const ZipFile::Member* ZipFile::find(const std::string& name) const {
  for (const Member& member : members_)
    if (member.name == name) return &member;
  return nullptr;
}

const ZipFile::Member& ZipFile::only(const std::string& name) const {
  const Member* found = nullptr;
  for (const Member& member : members_) {
    if (member.name != name && !member.name.ends_with("/" + name)) continue;
    check(found == nullptr, path_, ": has several members ", name);
    found = &member;
  }
  check(found != nullptr, path_, ": has no member ", name);
  return *found;
}

}  // namespace dlrm
