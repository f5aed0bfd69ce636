#include "data/torch_file.h"

#include <algorithm>
#include <cstring>

#include "data/half.h"
#include "data/zip.h"
#include "kernels/bf16.h"
#include "kernels/error.h"

// Zipped: ROOT/data.pkl, one pickle, and ROOT/data/KEY, the bytes of each storage. Not zipped: pickles of a magic
// number, the version 1001, facts about the machine, the object, and the list of the storages' keys; then for each key
// int64 elements and the bytes.
namespace dlrm {
namespace {

constexpr std::string_view kAllowed[] = {
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "torch FloatStorage",
    "torch HalfStorage",
    "torch BFloat16Storage",
    "torch DoubleStorage",
    "torch LongStorage",
    "torch IntStorage",
    "torch ShortStorage",
    "torch CharStorage",
    "torch ByteStorage",
    "torch BoolStorage",
    "torch Size",
    "collections OrderedDict",
    "numpy.core.multiarray scalar",
    "numpy._core.multiarray scalar",
    "numpy dtype",
    "_codecs encode",
};

struct StorageType {
  std::string_view global;
  size_t bytes;  // of an element
};
constexpr StorageType kStorageTypes[] = {
    {"torch FloatStorage", 4}, {"torch HalfStorage", 2}, {"torch BFloat16Storage", 2}, {"torch DoubleStorage", 8},
    {"torch LongStorage", 8},  {"torch IntStorage", 4},  {"torch ShortStorage", 2},    {"torch CharStorage", 1},
    {"torch ByteStorage", 1},  {"torch BoolStorage", 1},
};
size_t bytes_of(std::string_view storage_type) {
  for (const StorageType& type : kStorageTypes)
    if (type.global == storage_type) return type.bytes;
  return 0;
}

constexpr std::string_view kMagicPickle("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);

bool calls(const PickleValue& value, std::string_view global) {
  return value.kind == PickleValue::Kind::call && value.items[0]->is_global(global);
}

std::vector<int64_t> integers(const PickleValue& value) {
  std::vector<int64_t> numbers;
  if (value.kind != PickleValue::Kind::list) return numbers;
  for (const PickleValue* item : value.items)
    numbers.push_back(item->kind == PickleValue::Kind::integer ? item->integer : -1);
  return numbers;
}

}  // namespace

TorchFile::TorchFile(const std::filesystem::path& path) : file_(path) {
  if (ZipFile::is_one(file_)) {
    open_zip();
  } else {
    open_legacy();
  }
}

void TorchFile::open_zip() {
  const ZipFile zip(file_);
  const ZipFile::Member& pickle = zip.only("data.pkl");
  const std::string folder = pickle.name.substr(0, pickle.name.size() - std::string("data.pkl").size());
  if (const ZipFile::Member* order = zip.find(folder + "byteorder")) {
    std::string text(std::min<uint64_t>(order->bytes, 16), '\0');
    file_.read(order->offset, text.data(), text.size());
    check(text == "little", path().string(), ": numbers in byte order '", text, "', expected 'little'");
  }
  const std::string data = folder + "data/";
  for (const ZipFile::Member& member : zip.members())
    if (member.name.starts_with(data)) storages_[member.name.substr(data.size())] = {member.offset, member.bytes};
  pickle_ = std::make_unique<Pickle>(file_, pickle.offset, pickle.offset + pickle.bytes, kAllowed);
}

void TorchFile::open_legacy() {
  const std::string name = path().string();
  std::string start(std::min(file_.bytes(), kMagicPickle.size()), '\0');
  file_.read(0, start.data(), start.size());
  check(start == kMagicPickle, name, ": not a file of torch.save: neither a ZIP file nor one of PyTorch before 1.6");
  const Pickle version(file_, start.size(), file_.bytes(), {});
  check(version.root().integer == 1001, name, ": version ", version.root().integer, " of torch.save, expected 1001");
  const Pickle machine(file_, version.end(), file_.bytes(), {});
  const PickleValue* little = machine.root().find("little_endian");
  check(little && little->integer == 1, name, ": its numbers are not little-endian");
  pickle_ = std::make_unique<Pickle>(file_, machine.end(), file_.bytes(), kAllowed);
  const Pickle keys(file_, pickle_->end(), file_.bytes(), {});
  check(keys.root().kind == PickleValue::Kind::list, name, ": the list of its storages is damaged");

  // A storage's type, and so the bytes of its elements, is only in the ids that the object names it by.
  std::map<std::string, size_t> element_bytes;
  pickle_->for_each([&](const PickleValue& value) {
    if (value.kind != PickleValue::Kind::persistent || value.items[0]->items.size() < 3) return;
    const std::vector<const PickleValue*>& id = value.items[0]->items;
    element_bytes[id[2]->text] = bytes_of(id[1]->text);
  });
  uint64_t at = keys.end();
  for (const PickleValue* key : keys.root().items) {
    int64_t elements = 0;
    file_.read(at, &elements, sizeof elements);
    at += sizeof elements;
    const uint64_t each = element_bytes[key->text];
    check(elements >= 0 && each > 0 && uint64_t(elements) <= (file_.bytes() - at) / each, name, ": storage ", key->text,
          " of ", elements, " elements ends past the end of the file, or is of an unknown type");
    storages_[key->text] = {at, uint64_t(elements) * each};
    at += uint64_t(elements) * each;
  }
}

bool TorchFile::is_tensor(const PickleValue& value) {
  return calls(value, "torch._utils _rebuild_tensor_v2") || calls(value, "torch._utils _rebuild_parameter");
}

TorchTensor TorchFile::tensor(const PickleValue& value, const std::string& what) const {
  const auto bad = [&](const auto&... parts) { fail(path().string(), ": ", what, ": ", parts...); };
  if (!is_tensor(value)) bad("expected a tensor");
  const std::vector<const PickleValue*>& arguments = value.items[1]->items;
  if (calls(value, "torch._utils _rebuild_parameter")) {
    if (arguments.empty() || !calls(*arguments[0], "torch._utils _rebuild_tensor_v2"))
      bad("a parameter without a tensor");
    return tensor(*arguments[0], what);
  }
  if (arguments.size() < 4 || arguments[0]->kind != PickleValue::Kind::persistent) bad("the tensor is damaged");
  const std::vector<const PickleValue*>& id = arguments[0]->items[0]->items;
  if (id.size() < 5 || !id[0]->is_text("storage") || id[1]->kind != PickleValue::Kind::global)
    bad("its storage is damaged");

  TorchTensor result;
  const std::string type = id[1]->text;
  if (type == "torch FloatStorage") {
    result.type = TorchTensor::Type::fp32;
  } else if (type == "torch HalfStorage") {
    result.type = TorchTensor::Type::fp16;
  } else if (type == "torch BFloat16Storage") {
    result.type = TorchTensor::Type::bf16;
  } else if (type == "torch DoubleStorage") {
    result.type = TorchTensor::Type::fp64;
  } else {
    bad("a tensor of ", type.substr(type.find(' ') + 1), ", expected floating-point numbers");
  }
  result.shape = integers(*arguments[2]);
  const std::vector<int64_t> strides = integers(*arguments[3]);
  if (strides.size() != result.shape.size()) bad("its shape and its strides do not belong together");
  int64_t expected = 1;
  for (size_t i = result.shape.size(); i-- > 0;) {
    if (result.shape[i] < 0 || strides[i] < 0) bad("its shape is damaged");
    if (result.shape[i] > 1 && strides[i] != expected)
      bad("expected C order, found other strides. Hint: save tensor.contiguous()");
    if (__builtin_mul_overflow(expected, result.shape[i], &expected)) bad("its shape is damaged");
  }
  result.size = expected;
  const auto storage = storages_.find(id[2]->text);
  if (storage == storages_.end()) bad("its storage '", id[2]->text, "' is missing");
  const uint64_t each = bytes_of(type), elements = storage->second.bytes / each;
  const int64_t first = arguments[1]->kind == PickleValue::Kind::integer ? arguments[1]->integer : -1;
  if (first < 0 || uint64_t(first) > elements || uint64_t(result.size) > elements - uint64_t(first))
    bad("it has ", result.size, " elements from element ", first, " of a storage of ", elements);
  result.offset = storage->second.offset + uint64_t(first) * each;
  return result;
}

void TorchFile::read(const TorchTensor& tensor, int64_t first, int64_t count, float* values) const {
  check(first >= 0 && count >= 0 && first <= tensor.size - count, path().string(), ": elements ", first, " to ",
        first + count, " of ", tensor.size);
  const auto read_as = [&](auto number, auto convert) {
    std::vector<decltype(number)> raw(static_cast<size_t>(count));
    file_.read(tensor.offset + uint64_t(first) * sizeof number, raw.data(), raw.size() * sizeof number);
    std::transform(raw.begin(), raw.end(), values, convert);
  };
  switch (tensor.type) {
    case TorchTensor::Type::fp32:
      return file_.read(tensor.offset + uint64_t(first) * sizeof(float), values, size_t(count) * sizeof(float));
    case TorchTensor::Type::fp64:
      return read_as(double(), [](double value) { return float(value); });
    case TorchTensor::Type::bf16:
      return read_as(uint16_t(), [](uint16_t value) { return float_of(uint32_t(value) << 16); });
    case TorchTensor::Type::fp16:
      return read_as(uint16_t(), half_to_float);
  }
}

std::vector<float> TorchFile::read(const TorchTensor& tensor) const {
  std::vector<float> values(static_cast<size_t>(tensor.size));
  read(tensor, 0, tensor.size, values.data());
  return values;
}

}  // namespace dlrm
