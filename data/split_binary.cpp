#include "data/split_binary.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include "data/criteo_tsv.h"
#include "data/half.h"
#include "kernels/error.h"
#include "kernels/parallel.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNumbersPerPiece = 16384;

/// Widens ids and checks them; the check costs one comparison an id, the search for the culprit only runs when there is
/// one.
template <class Id>
void widen(const std::byte* bytes, int64_t count, int64_t cardinality, int64_t first, const fs::path& path,
           int64_t* ids) {
  const Id* from = reinterpret_cast<const Id*>(bytes);
  bool bad = false;
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = from[i];
    bad |= uint64_t(ids[i]) >= uint64_t(cardinality);
  }
  if (!bad) return;
  int64_t i = 0;
  while (uint64_t(ids[i]) < uint64_t(cardinality)) ++i;
  fail(path.string(), ": sample ", first + i, ": id ", ids[i], ", expected 0 .. ", cardinality - 1);
}

template <class Id>
void narrow(const int64_t* ids, int64_t count, std::vector<std::byte>& bytes) {
  bytes.resize(size_t(count) * sizeof(Id));
  Id* to = reinterpret_cast<Id*>(bytes.data());
  for (int64_t i = 0; i < count; ++i) to[i] = Id(ids[i]);
}

}  // namespace

Split::Column Split::open(const fs::path& path, size_t bytes) const {
  Column column{std::make_unique<InputFile>(path), bytes, 0};
  const size_t expected = size_t(samples_) * bytes;
  check(column.file->bytes() == expected, path.string(), ": ", column.file->bytes(), " bytes, expected ", expected,
        " (", samples_, " samples of ", bytes, " bytes, as many as labels)");
  return column;
}

Split::Split(const fs::path& directory, const FeatureSpec& spec, const std::string& name) {
  const FeatureSpec::Files& files = spec.splits.at(name);
  samples_ = int64_t(InputFile(directory / files.label).bytes());
  numerical_features_ = int64_t(spec.numerical.size());
  label_ = open(directory / files.label, 1);
  numerical_ = open(directory / files.numerical, size_t(numerical_features_) * sizeof(uint16_t));
  for (size_t t = 0; t < spec.tables.size(); ++t) {
    tables_.push_back(open(directory / files.tables[t], id_bytes(spec.tables[t].dtype)));
    tables_.back().cardinality = spec.tables[t].cardinality;
  }
}

void Split::read(int64_t first, int64_t count, Batch& batch) const {
  check(first >= 0 && count >= 0 && first + count <= samples_, label_.file->path().string(), ": samples ", first,
        " to ", first + count, ", the split has ", samples_);
  batch.size = count;
  batch.first_sample = first;
  batch.labels.resize(size_t(count));
  batch.numerical.resize(size_t(count * numerical_features_));
  batch.ids.resize(size_t(count) * tables_.size());
  batch.offsets.clear();
  const auto load = [&](const Column& column) {
    std::vector<std::byte> bytes(size_t(count) * column.bytes);
    column.file->read(size_t(first) * column.bytes, bytes.data(), bytes.size());
    return bytes;
  };

  std::vector<std::byte> bytes = load(label_);
  for (int64_t i = 0; i < count; ++i) {
    const int label = int(bytes[size_t(i)]);
    check(label <= 1, label_.file->path().string(), ": sample ", first + i, ": label ", label, ", expected 0 or 1");
    batch.labels[size_t(i)] = float(label);
  }
  bytes = load(numerical_);
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(bytes.data());
  parallel_for(int64_t(batch.numerical.size()), kNumbersPerPiece, [&](int64_t begin, int64_t end) {
    bool finite = true;
    for (int64_t i = begin; i < end; ++i) {
      batch.numerical[size_t(i)] = half_to_float(halves[i]);
      finite &= (halves[i] & 0x7c00) != 0x7c00;
    }
    for (int64_t i = begin; !finite && i < end; ++i)
      check(std::isfinite(batch.numerical[size_t(i)]), numerical_.file->path().string(), ": sample ",
            first + i / numerical_features_, ", numerical feature ", i % numerical_features_, ": ",
            batch.numerical[size_t(i)], ", expected a finite number");
  });
  parallel_for(int64_t(tables_.size()), 1, [&](int64_t t, int64_t) {
    const Column& table = tables_[size_t(t)];
    const std::vector<std::byte> column = load(table);
    int64_t* ids = batch.ids.data() + t * count;
    const auto convert = table.bytes == 1 ? widen<int8_t> : table.bytes == 2 ? widen<int16_t> : widen<int32_t>;
    convert(column.data(), count, table.cardinality, first, table.file->path(), ids);
  });
}

Dataset Dataset::open(const fs::path& directory) {
  check(!directory.empty(), "data.path: expected the directory of a data set");
  Dataset data;
  data.spec_ = read_feature_spec(directory);
  data.splits_.emplace_back(directory, data.spec_, "train");
  data.splits_.emplace_back(directory, data.spec_, "test");
  return data;
}

std::string Dataset::numerical_transform() const {
  const auto recorded = spec_.metadata.find("numerical_transform");
  return recorded == spec_.metadata.end() ? kNumericalTransform : recorded->second;
}

const Split& Dataset::split(const std::string& name) const {
  check(name == "train" || name == "test", "split '", name, "': expected train or test");
  return name == "train" ? train() : test();
}

SplitBinaryWriter::SplitBinaryWriter(const fs::path& directory, FeatureSpec spec)
    : directory_(directory), spec_(std::move(spec)) {
  check(!fs::exists(directory_ / kFeatureSpecName), directory_.string(), ": holds a data set already");
  spec_.metadata["numerical_transform"] = kNumericalTransform;
  train_ = create(spec_.splits.at("train"));
  test_ = create(spec_.splits.at("test"));
}

SplitBinaryWriter::Files SplitBinaryWriter::create(const FeatureSpec::Files& names) const {
  const auto make = [&](const std::string& name) {
    const fs::path path = directory_ / name;
    fs::create_directories(path.parent_path());
    Column column{path.string(), std::ofstream(path, std::ios::binary | std::ios::trunc)};
    check(bool(column.file), column.path, ": cannot be written: ", std::strerror(errno));
    return column;
  };
  Files files{make(names.label), make(names.numerical), {}};
  for (const std::string& name : names.tables) files.tables.push_back(make(name));
  return files;
}

void SplitBinaryWriter::append(const std::string& split, const Batch& batch) {
  Files& files = split == "train" ? train_ : test_;
  const auto write = [](Column& column, const void* data, size_t bytes) {
    column.file.write(static_cast<const char*>(data), std::streamsize(bytes));
    check(bool(column.file), column.path, ": cannot be written: ", std::strerror(errno));
  };
  const std::vector<uint8_t> labels(batch.labels.begin(), batch.labels.end());
  write(files.label, labels.data(), labels.size());
  std::vector<uint16_t> halves(batch.numerical.size());
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = float_to_half(batch.numerical[i]);
  write(files.numerical, halves.data(), halves.size() * sizeof(uint16_t));
  std::vector<std::byte> bytes;
  for (size_t t = 0; t < spec_.tables.size(); ++t) {
    const size_t width = id_bytes(spec_.tables[t].dtype);
    const auto convert = width == 1 ? narrow<int8_t> : width == 2 ? narrow<int16_t> : narrow<int32_t>;
    convert(batch.ids.data() + int64_t(t) * batch.size, batch.size, bytes);
    write(files.tables[t], bytes.data(), bytes.size());
  }
}

void SplitBinaryWriter::finish() {
  for (Files* files : {&train_, &test_}) {
    std::vector<Column*> columns = {&files->label, &files->numerical};
    for (Column& table : files->tables) columns.push_back(&table);
    for (Column* column : columns) {
      column->file.close();
      check(bool(column->file), column->path, ": cannot be written: ", std::strerror(errno));
    }
  }
  write_feature_spec(directory_, spec_);
}

}  // namespace dlrm
