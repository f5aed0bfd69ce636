// Files of torch.save, zipped (PyTorch 1.6 and later) or not: a tree of containers, numbers and tensors. Reads the
// tensors' bytes in place, piece by piece; executes nothing (see pickle.h).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/pickle.h"

namespace dlrm {

/// A tensor of floating-point numbers in C order.
struct TorchTensor {
  enum class Type { fp16, bf16, fp32, fp64 };
  Type type = Type::fp32;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // in the file, of its first element
  int64_t size = 0;     // elements
};

class TorchFile {
 public:
  /// Throws Error naming the file where it is damaged or asks for a class or function that no checkpoint needs.
  explicit TorchFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const PickleValue& root() const { return pickle_->root(); }

  /// Whether a value is a tensor (or a parameter of a module).
  static bool is_tensor(const PickleValue& value);
  /// Throws Error, naming `what`, where the value is no tensor of floating-point numbers in C order.
  TorchTensor tensor(const PickleValue& value, const std::string& what) const;
  /// Elements [first, first + count), as fp32.
  void read(const TorchTensor& tensor, int64_t first, int64_t count, float* values) const;
  std::vector<float> read(const TorchTensor& tensor) const;

 private:
  struct Storage {
    uint64_t offset = 0, bytes = 0;
  };

  void open_zip();
  void open_legacy();

  InputFile file_;
  std::unique_ptr<Pickle> pickle_;
  std::map<std::string, Storage> storages_;  // by key
};

}  // namespace dlrm
