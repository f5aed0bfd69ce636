#include "dlrm/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "data/files.h"
#include "data/npy.h"
#include "kernels/parallel.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr int64_t kPieceBytes = 32 << 20;

fs::path table_file(const fs::path& directory, size_t table) {
  return directory / "tables" / text(table, ".bin");
}
fs::path array_file(const fs::path& directory, const std::string& name) {
  return directory / "dense" / (name + ".npy");
}

/// "top_0_weight_exp_avg"
std::string state_name(const Parameter& parameter, const Model& model, int64_t state) {
  return parameter.name + "_" + element_state_names(model.config().dense_optimizer.kind)[size_t(state)];
}

int64_t piece_rows(size_t row_bytes) {
  return std::max<int64_t>(1, kPieceBytes / int64_t(row_bytes));
}

struct Sections {
  size_t slots, state, overflow, end;  // offsets

  Sections(const Checkpoint::Table& table, int64_t rows, int64_t dim) : slots(0) {
    state = size_t(rows) * table.slot_bytes;
    overflow = state + size_t(rows * table.state_floats) * sizeof(float);
    end = overflow + size_t(table.overflow_rows) * (sizeof(int64_t) + size_t(dim) * sizeof(float));
  }
};

// Manifest ------------------------------------------------------------------------------------------------------------

json optimizer_json(const OptimizerRule& rule) {
  json j = {{"name", optimizer_name(rule.kind)}, {"eps", rule.eps}};
  if (rule.kind == OptimizerKind::adam) j.update({{"beta1", rule.beta1}, {"beta2", rule.beta2}});
  return j;
}

OptimizerRule optimizer_of(const json& j) {
  OptimizerRule rule{optimizer_by_name(j.at("name").get<std::string>()), j.at("eps")};
  if (rule.kind == OptimizerKind::adam) {
    rule.beta1 = j.at("beta1");
    rule.beta2 = j.at("beta2");
  }
  return rule;
}

/// All numbers but those of optimizers are whole. Throws Error naming the key of another.
void check_numbers(const json& j, const std::string& key) {
  const bool may_be_any = key == "eps" || key == "beta1" || key == "beta2";
  check(!j.is_number_float() || may_be_any, key, ": expected a whole number, found ", j.dump());
  for (const auto& [name, value] : j.items())
    if (j.is_structured()) check_numbers(value, j.is_object() ? name : key);
}

json manifest_json(const Checkpoint& c) {
  json j = {{"format", "dlrm checkpoint"}, {"version", kVersion}, {"step", c.step}, {"seed", c.seed}};
  j["numerical_transform"] = c.numerical_transform;
  j["model"] = {{"numerical", c.model.numerical},
                {"dim", c.model.dim},
                {"bottom", c.model.bottom},
                {"top", c.model.top},
                {"dense_optimizer", optimizer_json(c.model.dense_optimizer)},
                {"table_optimizer", optimizer_json(c.model.table_optimizer)}};
  j["arrays"] = json::array();
  for (const Checkpoint::Array& array : c.arrays)
    j["arrays"].push_back({{"name", array.name}, {"crc32", array.checksum}});
  j["tables"] = json::array();
  for (size_t t = 0; t < c.tables.size(); ++t) {
    const Checkpoint::Table& table = c.tables[t];
    j["tables"].push_back({{"name", c.model.tables[t].name},
                           {"rows", c.model.tables[t].rows},
                           {"dtype", dtype_name(c.model.table_dtype)},
                           {"codec", codec_name(c.model.tables[t].codec)},
                           {"slot_bytes", table.slot_bytes},
                           {"state_floats", table.state_floats},
                           {"overflow_rows", table.overflow_rows},
                           {"slots_crc32", table.slots_checksum},
                           {"state_crc32", table.state_checksum},
                           {"overflow_crc32", table.overflow_checksum}});
    if (!table.masks.empty()) j["tables"].back()["masks"] = table.masks;
  }
  j["config"] = c.config;
  return j;
}

/// Sizes on which memory accesses depend.
void check_table(const TableConfig& about, const Checkpoint::Table& table, DType dtype, int64_t dim) {
  const auto between = [&](const char* what, int64_t found, int64_t least, int64_t most) {
    check(found >= least && found <= most, "table ", about.name, ": ", what, " ", found, ", expected ", least, " .. ",
          most);
  };
  const bool fitted = about.codec == CodecId::ibp;
  const int64_t usual = int64_t(slot_bytes(about.codec, dtype, dim)), columns = IbpCodec::columns(dtype, dim);
  const int64_t header = int64_t(IbpCodec::header_bytes(columns));
  between("rows", about.rows, 1, kMostRows);
  between("slot_bytes", int64_t(table.slot_bytes), fitted ? header : usual, usual);
  check(table.slot_bytes % 4 == 0 || !fitted, "table ", about.name, ": slot_bytes ", table.slot_bytes,
        ", expected a multiple of 4");
  between("state_floats", table.state_floats, 0, 4 * dim);
  between("overflow_rows", table.overflow_rows, 0, about.rows);
  between("masks", int64_t(table.masks.size()), fitted ? 2 * columns : 0, fitted ? 2 * columns : 0);
}

Checkpoint checkpoint_of(const json& j) {
  check(j.at("format") == "dlrm checkpoint", "format: expected 'dlrm checkpoint', found ", j.at("format"));
  check(j.at("version") == kVersion, "version: expected ", kVersion, ", found ", j.at("version"),
        ". Hint: a newer dlrm wrote it");
  check_numbers(j, "manifest");
  Checkpoint c;
  c.step = j.at("step");
  c.seed = j.at("seed");
  c.numerical_transform = j.at("numerical_transform");
  c.config = j.at("config");
  const json& model = j.at("model");
  c.model.numerical = model.at("numerical");
  c.model.dim = model.at("dim");
  check(c.model.dim >= 1 && c.model.dim <= kMostDim, "dim: expected 1 .. ", kMostDim, ", found ", c.model.dim);
  c.model.bottom = model.at("bottom").get<std::vector<int64_t>>();
  c.model.top = model.at("top").get<std::vector<int64_t>>();
  c.model.dense_optimizer = optimizer_of(model.at("dense_optimizer"));
  c.model.table_optimizer = optimizer_of(model.at("table_optimizer"));
  for (const json& a : j.at("arrays")) c.arrays.push_back({a.at("name"), a.at("crc32")});
  for (const json& t : j.at("tables")) {
    const DType dtype = dtype_by_name(t.at("dtype").get<std::string>());
    if (c.tables.empty()) c.model.table_dtype = dtype;
    check(dtype == c.model.table_dtype, "dtype: found tables of fp32 and of bf16, expected one of them");
    c.model.tables.push_back({t.at("name"), t.at("rows"), codec_by_name(t.at("codec").get<std::string>())});
    c.tables.push_back({t.at("slot_bytes"), t.at("state_floats"), t.at("overflow_rows"), t.at("slots_crc32"),
                        t.at("state_crc32"), t.at("overflow_crc32")});
    if (c.model.tables.back().codec == CodecId::ibp) c.tables.back().masks = t.at("masks").get<std::vector<uint32_t>>();
    check_table(c.model.tables.back(), c.tables.back(), dtype, c.model.dim);
  }
  return c;
}

/// The JSON, then its own checksum as the last key.
std::string sealed(json j) {
  j["crc32"] = checksum_of(j.dump()).value();
  return j.dump(2) + "\n";
}

json unsealed(const fs::path& path) {
  const std::string found = read_text(path);
  json j;
  try {
    j = json::parse(found);
    json body = j;
    body.erase("crc32");
    check(sealed(body) == found, path.string(), ": its checksum does not match: it was changed or damaged");
    return body;
  } catch (const json::exception& error) {
    fail(path.string(), ": not a manifest: ", error.what());
  }
}

// Writing -------------------------------------------------------------------------------------------------------------

Checkpoint::Table write_table(const fs::path& path, Model& model, Queue& queue, int64_t t) {
  EmbeddingStore& store = model.store();
  const int64_t rows = store.config().tables[size_t(t)].rows, dim = store.config().dim;
  Checkpoint::Table table;
  table.slot_bytes = store.slot_bytes(t);
  table.state_floats = store.state_floats();
  table.masks = store.codec(t).masks;
  const Sections at(table, rows, dim);
  Checksum slots, state, overflow;
  OutputFile file(path);
  size_t overflow_end = at.overflow;
  const size_t state_bytes = size_t(table.state_floats) * sizeof(float), row_bytes = size_t(dim) * sizeof(float);
  const int64_t piece = piece_rows(table.slot_bytes + state_bytes);
  for (int64_t first = 0; first < rows; first += piece) {
    const EncodedRows encoded = store.read_encoded(queue, t, first, std::min(piece, rows - first));
    file.write(at.slots + size_t(first) * table.slot_bytes, encoded.slots.data(), encoded.slots.size());
    slots.add(encoded.slots.data(), encoded.slots.size());
    file.write(at.state + size_t(first) * state_bytes, encoded.state.data(), encoded.state.size() * sizeof(float));
    state.add(encoded.state.data(), encoded.state.size() * sizeof(float));
    std::vector<std::byte> rows_out(encoded.overflow.size() * (sizeof(int64_t) + row_bytes));
    for (size_t i = 0; i < encoded.overflow.size(); ++i) {
      std::byte* entry = &rows_out[i * (sizeof(int64_t) + row_bytes)];
      std::memcpy(entry, &encoded.overflow[i], sizeof(int64_t));
      std::memcpy(entry + sizeof(int64_t), &encoded.overflow_rows[i * size_t(dim)], row_bytes);
    }
    file.write(overflow_end, rows_out.data(), rows_out.size());
    overflow.add(rows_out.data(), rows_out.size());
    overflow_end += rows_out.size();
    table.overflow_rows += int64_t(encoded.overflow.size());
  }
  file.finish();
  table.slots_checksum = slots.value();
  table.state_checksum = state.value();
  table.overflow_checksum = overflow.value();
  return table;
}

void write_array(const fs::path& directory, const std::string& name, const Parameter& parameter,
                 const std::vector<float>& values, Checkpoint& checkpoint) {
  const fs::path path = array_file(directory, name);
  std::vector<int64_t> shape = {parameter.rows, parameter.cols};
  if (parameter.is_bias) shape.erase(shape.begin());
  write_npy(path, values, shape);
  sync_path(path);
  checkpoint.arrays.push_back({name, checksum_of(read_text(path)).value()});
}

void write_files(const fs::path& directory, Checkpoint checkpoint, Model& model, Queue& queue) {
  fs::create_directories(directory / "dense");
  fs::create_directories(directory / "tables");
  checkpoint.model = model.config();
  for (const Parameter& parameter : model.parameters()) {
    write_array(directory, parameter.name, parameter, model.read(queue, parameter), checkpoint);
    for (int64_t state = 0; state < model.states(); ++state)
      write_array(directory, state_name(parameter, model, state), parameter, model.read(queue, parameter, state),
                  checkpoint);
  }
  for (int64_t t = 0; t < model.store().tables(); ++t) {
    checkpoint.model.tables[size_t(t)].codec = model.store().codec(t).codec;
    checkpoint.tables.push_back(write_table(table_file(directory, size_t(t)), model, queue, t));
  }
  write_text(directory / "manifest.json", sealed(manifest_json(checkpoint)));
  for (const fs::path& part : {directory / "dense", directory / "tables", directory}) sync_path(part);
}

/// step_N: N; anything else: nothing.
std::optional<int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename();
  if (!name.starts_with("step_") || name.size() == 5 || name.find_first_not_of("0123456789", 5) != name.npos) return {};
  return std::atoll(name.c_str() + 5);
}

/// Ascending by step.
std::vector<std::pair<int64_t, fs::path>> checkpoints_in(const fs::path& directory) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(directory, absent))
    if (const auto step = step_of(entry.path())) found.emplace_back(*step, entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

constexpr const char* kTemporary = ".partial_";

// Reading -------------------------------------------------------------------------------------------------------------

void check_sum(const fs::path& path, const char* section, uint32_t expected, uint32_t found) {
  check(expected == found, path.string(), ": ", section, ": checksum ", found, ", expected ", expected,
        ": the file is damaged");
}

struct OverflowRows {
  std::vector<int64_t> rows;
  std::vector<float> values;
};

OverflowRows read_overflow(const InputFile& file, const Checkpoint::Table& table, const Sections& at, int64_t dim) {
  std::vector<std::byte> bytes(at.end - at.overflow);
  file.read(at.overflow, bytes.data(), bytes.size());
  Checksum sum;
  sum.add(bytes.data(), bytes.size());
  check_sum(file.path(), "overflow rows", table.overflow_checksum, sum.value());
  OverflowRows result{std::vector<int64_t>(size_t(table.overflow_rows)),
                      std::vector<float>(size_t(table.overflow_rows * dim))};
  const size_t row_bytes = size_t(dim) * sizeof(float);
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const std::byte* entry = &bytes[i * (sizeof(int64_t) + row_bytes)];
    std::memcpy(&result.rows[i], entry, sizeof(int64_t));
    std::memcpy(&result.values[i * size_t(dim)], entry + sizeof(int64_t), row_bytes);
  }
  return result;
}

/// A table's file, its size and overflow rows checked.
struct TableFile {
  int64_t dim;
  CodecFit codec;
  Sections at;
  InputFile file;
  OverflowRows overflow;

  TableFile(const Checkpoint& checkpoint, size_t t)
      : dim(checkpoint.model.dim),
        codec{checkpoint.model.tables[t].codec, checkpoint.tables[t].slot_bytes, checkpoint.tables[t].masks,
              checkpoint.model.table_dtype},
        at(checkpoint.tables[t], checkpoint.model.tables[t].rows, dim),
        file(table_file(checkpoint.path, t)) {
    check(file.bytes() == at.end, file.path().string(), ": ", file.bytes(), " bytes, expected ", at.end);
    overflow = read_overflow(file, checkpoint.tables[t], at, dim);
  }

  void decode(const std::byte* slot, int64_t row, float* values) const {
    const float* overflow_row = nullptr;
    if (is_overflow_slot(codec, slot, dim)) {
      const auto entry = std::lower_bound(overflow.rows.begin(), overflow.rows.end(), row);
      check(entry != overflow.rows.end() && *entry == row, file.path().string(), ": row ", row,
            " is not among the overflow rows");
      overflow_row = &overflow.values[size_t((entry - overflow.rows.begin()) * dim)];
    }
    decode_slot(codec, slot, dim, overflow_row, values);
  }
};

void check_same_shape(const Checkpoint& checkpoint, const ModelConfig& model) {
  const std::string where = checkpoint.path.string();
  const auto same = [&](const char* what, int64_t found, int64_t expected) {
    check(found == expected, where, ": ", what, ": found ", found, ", expected ", expected);
  };
  same("numerical features", checkpoint.model.numerical, model.numerical);
  same("model.dim", checkpoint.model.dim, model.dim);
  check(checkpoint.model.bottom == model.bottom, where, ": model.bottom differs from this run's");
  check(checkpoint.model.top == model.top, where, ": model.top differs from this run's");
  same("tables", int64_t(checkpoint.model.tables.size()), int64_t(model.tables.size()));
  for (size_t t = 0; t < model.tables.size(); ++t)
    same(("rows of table " + model.tables[t].name).c_str(), checkpoint.model.tables[t].rows, model.tables[t].rows);
}

void check_same_optimizer(const Checkpoint& checkpoint, const char* what, OptimizerRule found, OptimizerRule expected) {
  check(found.kind == expected.kind, checkpoint.path.string(), ": ", what, ": found the state of ",
        optimizer_name(found.kind), ", expected ", optimizer_name(expected.kind),
        ". Hint: train.init_from takes the weights alone");
}

}  // namespace

size_t Checkpoint::Table::stored_bytes(int64_t rows, int64_t dim) const {
  return size_t(rows) * slot_bytes + size_t(overflow_rows * dim) * sizeof(float);
}

fs::path save_checkpoint(const fs::path& directory, const Checkpoint& about, Model& model, Queue& queue) {
  const fs::path path = directory / text("step_", about.step), temporary = directory / text(kTemporary, getpid());
  try {
    check(!fs::exists(path), path.string(), ": exists already");
    fs::remove_all(temporary);
    write_files(temporary, about, model, queue);
    fs::rename(temporary, path);
    sync_path(directory);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    fail("checkpoint of step ", about.step, ": ", error.what());
  }
  return path;
}

void clean_checkpoints(const fs::path& directory, int64_t keep) {
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(directory, absent))
    if (entry.path().filename().string().starts_with(kTemporary)) fs::remove_all(entry.path());
  const auto found = checkpoints_in(directory);
  for (size_t i = 0; i + size_t(keep) < found.size(); ++i) {
    const fs::path doomed = directory / text(kTemporary, found[i].first);  // never half a step_N
    fs::rename(found[i].second, doomed);
    fs::remove_all(doomed);
  }
}

fs::path newest_checkpoint(const fs::path& run) {
  const auto found = checkpoints_in(run / "checkpoints");
  return found.empty() ? fs::path() : found.back().second;
}

Checkpoint open_checkpoint(const fs::path& path) {
  fs::path at = path;
  if (!fs::exists(at / "manifest.json")) at = newest_checkpoint(path);
  check(!at.empty(), path.string(),
        ": holds no checkpoint, expected manifest.json or checkpoints/step_N/manifest.json");
  const fs::path manifest = at / "manifest.json";
  const json j = unsealed(manifest);
  try {
    Checkpoint checkpoint = checkpoint_of(j);
    checkpoint.path = at;
    return checkpoint;
  } catch (const std::exception& error) {
    fail(manifest.string(), ": ", error.what());
  }
}

void visit_rows(const Checkpoint& checkpoint, size_t t, const RowsVisitor& visit) {
  const Checkpoint::Table& table = checkpoint.tables[t];
  const TableConfig& about = checkpoint.model.tables[t];
  const int64_t dim = checkpoint.model.dim;
  const TableFile opened(checkpoint, t);
  const InputFile& file = opened.file;
  const Sections& at = opened.at;

  Checksum slots_sum, state_sum;
  const int64_t piece = piece_rows(table.slot_bytes + size_t(dim + table.state_floats) * sizeof(float));
  for (int64_t first = 0; first < about.rows; first += piece) {
    const int64_t count = std::min(piece, about.rows - first);
    std::vector<std::byte> slots(size_t(count) * table.slot_bytes);
    file.read(at.slots + size_t(first) * table.slot_bytes, slots.data(), slots.size());
    slots_sum.add(slots.data(), slots.size());
    std::vector<float> rows(size_t(count * dim));
    parallel_for(count, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        opened.decode(&slots[size_t(i) * table.slot_bytes], first + i, &rows[size_t(i * dim)]);
    });
    std::vector<float> state(size_t(count * table.state_floats));
    file.read(at.state + size_t(first * table.state_floats) * sizeof(float), state.data(),
              state.size() * sizeof(float));
    state_sum.add(state.data(), state.size() * sizeof(float));
    visit(first, count, rows.data(), state.data());
  }
  check_sum(file.path(), "slots", table.slots_checksum, slots_sum.value());
  check_sum(file.path(), "optimizer state", table.state_checksum, state_sum.value());
}

std::vector<float> sample_rows(const Checkpoint& checkpoint, size_t t, int64_t most) {
  const int64_t rows = checkpoint.model.tables[t].rows, dim = checkpoint.model.dim, count = std::min(rows, most);
  const TableFile opened(checkpoint, t);
  std::vector<float> sample(size_t(count * dim));
  std::vector<std::byte> slot(opened.codec.slot_bytes);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i * rows / count;
    opened.file.read(opened.at.slots + size_t(row) * slot.size(), slot.data(), slot.size());
    opened.decode(slot.data(), row, &sample[size_t(i * dim)]);
  }
  return sample;
}

std::vector<float> read_array(const Checkpoint& checkpoint, const std::string& name) {
  const fs::path path = array_file(checkpoint.path, name);
  const auto listed = std::find_if(checkpoint.arrays.begin(), checkpoint.arrays.end(),
                                   [&](const Checkpoint::Array& array) { return array.name == name; });
  check(listed != checkpoint.arrays.end(), checkpoint.path.string(), ": has no array ", name);
  check_sum(path, "whole file", listed->checksum, checksum_of(read_text(path)).value());
  return read_npy(path).values;
}

void load_checkpoint(const Checkpoint& checkpoint, Model& model, Queue& queue, bool with_state) {
  check_same_shape(checkpoint, model.config());
  if (with_state) {
    check_same_optimizer(checkpoint, "train.optimizer", checkpoint.model.dense_optimizer,
                         model.config().dense_optimizer);
    check_same_optimizer(checkpoint, "embedding.optimizer", checkpoint.model.table_optimizer,
                         model.config().table_optimizer);
    check(checkpoint.model.table_dtype == model.config().table_dtype, checkpoint.path.string(),
          ": embedding.dtype: found rows of ", dtype_name(checkpoint.model.table_dtype), ", expected ",
          dtype_name(model.config().table_dtype),
          ". Hint: train.init_from takes the weights alone, rounded to nearest");
  }
  for (const Parameter& parameter : model.parameters()) {
    model.write(queue, parameter, read_array(checkpoint, parameter.name));
    for (int64_t state = 0; with_state && state < model.states(); ++state)
      model.write(queue, parameter, read_array(checkpoint, state_name(parameter, model, state)), state);
  }
  for (size_t t = 0; t < checkpoint.tables.size(); ++t) {
    if (model.store().wants_fit(int64_t(t))) {
      model.store().fit(queue, int64_t(t), sample_rows(checkpoint, t, EmbeddingStore::kSampleRows));
    }
    visit_rows(checkpoint, t, [&](int64_t first, int64_t count, const float* rows, const float* state) {
      model.store().write_rows(queue, int64_t(t), first, count, rows);
      if (with_state) model.store().write_state(queue, int64_t(t), first, count, state);
    });
  }
}

}  // namespace dlrm
