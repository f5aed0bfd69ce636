// A directory that is gone when the test ends.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dlrm {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "dlrm_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  /// Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return *this / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace dlrm

/// The statement throws Error, and its message has all the given parts.
#define EXPECT_ERROR(statement, ...)                                                                \
  do {                                                                                              \
    std::string message_;                                                                           \
    try {                                                                                           \
      statement;                                                                                    \
      ADD_FAILURE() << #statement << " did not throw";                                              \
    } catch (const ::dlrm::Error& error_) {                                                         \
      message_ = error_.what();                                                                     \
      for (const std::string& part_ : std::vector<std::string>{__VA_ARGS__})                        \
        EXPECT_NE(message_.find(part_), std::string::npos) << "'" << part_ << "' in: " << message_; \
    }                                                                                               \
  } while (false)
