// ZIP files as PyTorch and NumPy write them: members stored without compression, found by the central directory, with
// Zip64 records where they are large.
// Format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.
#pragma once
#include <string>
#include <vector>

#include "data/files.h"

namespace dlrm {

class ZipFile {
 public:
  struct Member {
    std::string name;
    uint64_t offset = 0, bytes = 0;  // of the data, in the file
    uint32_t checksum = 0;           // CRC-32
  };

  /// Whether a file begins like a ZIP file.
  static bool is_one(const InputFile& file);

  /// Throws Error where the directory is damaged, names bytes that the file does not have, or a member is compressed.
  explicit ZipFile(const InputFile& file);

  const std::vector<Member>& members() const { return members_; }
  /// Null without one.
  const Member* find(const std::string& name) const;
  /// The one member whose name is `name` or ends in "/" and it. Throws Error where there is none, or several.
  const Member& only(const std::string& name) const;

 private:
  std::string path_;
  std::vector<Member> members_;
};

}  // namespace dlrm
