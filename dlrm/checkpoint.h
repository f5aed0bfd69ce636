// Our own checkpoints: a directory that exists whole or not at all.
//
//   manifest.json           what the model is, what each file holds, sizes and checksums; itself checked
//   dense/NAME.npy          MLP arrays, weights [out, in], NAME as in Model::parameters(); NAME_STATE.npy for each
//                         state of the optimizer: sum; exp_avg, exp_avg_sq
//   tables/INDEX.bin        one table, three sections, little-endian:
//                             slots     rows * slot_bytes, as the codec documents; pool indices zero
//                             state     rows * state_floats floats of optimizer state
//                             overflow  per row that did not fit its slot, ascending: int64 row, float[dim] values
//
// Nothing in the files depends on history: equal values give equal bytes; but for ibp, whose masks were learnt from the
// values that a table had when it was filled.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/model.h"

namespace dlrm {

struct Checkpoint {
  std::filesystem::path path;
  int64_t step = 0;  // steps trained
  uint64_t seed = 0;
  ModelConfig model;                // without max_batch and max_ids
  std::string numerical_transform;  // of the data it was trained on
  std::string config;               // the run's effective config, YAML

  struct Table {
    size_t slot_bytes = 0;
    int64_t state_floats = 0, overflow_rows = 0;
    uint32_t slots_checksum = 0, state_checksum = 0, overflow_checksum = 0;
    std::vector<uint32_t> masks;  // of ibp

    size_t stored_bytes(int64_t rows, int64_t dim) const;  // slots and used overflow entries
  };
  std::vector<Table> tables;

  struct Array {
    std::string name;  // of the file, without .npy
    uint32_t checksum = 0;
  };
  std::vector<Array> arrays;
};

/// Writes `model` as DIRECTORY/step_N and returns that path. Written under a temporary name, flushed, renamed; on an
/// error the temporary is removed and earlier checkpoints stay as they are.
std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const Checkpoint& about, Model& model,
                                      Queue& queue);

/// Removes what interrupted writes left behind, and all but the newest `keep` checkpoints.
void clean_checkpoints(const std::filesystem::path& directory, int64_t keep);

/// The checkpoint at `path`: a checkpoint, or a run's directory, whose newest checkpoint is meant. Reads and checks the
/// manifest. Throws Error where there is none.
Checkpoint open_checkpoint(const std::filesystem::path& path);
/// The newest checkpoint in a run's directory; empty without one.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run);

/// Decodes a table piece by piece, in order; checks every byte, the last after the last piece.   rows [count, dim]
/// state [count, state_floats]
using RowsVisitor = std::function<void(int64_t first, int64_t count, const float* rows, const float* state)>;
void visit_rows(const Checkpoint& checkpoint, size_t table, const RowsVisitor& visit);
/// Rows spread evenly over a table, `most` or all.   [count, dim]
std::vector<float> sample_rows(const Checkpoint& checkpoint, size_t table, int64_t most);

/// An array of the MLPs, [out, in] or [out].
std::vector<float> read_array(const Checkpoint& checkpoint, const std::string& name);

/// Fills a model of the same shape, whatever its codecs; checks every byte. `with_state`: optimizer state too, which
/// needs the same optimizers; otherwise it is cleared.
void load_checkpoint(const Checkpoint& checkpoint, Model& model, Queue& queue, bool with_state);

}  // namespace dlrm
