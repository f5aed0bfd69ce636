// The rows of all tables of one device with the same dim, encoded in fixed slots. A row that does not fit its slot
// lives in the overflow pool. Knows no ranks, no files and no YAML.
#pragma once
#include <string>
#include <vector>

#include "kernels/buffer.h"

namespace dlrm {

// Bounds that keep the bytes of one table far from 2^64.
inline constexpr int64_t kMostRows = int64_t(1) << 40;
inline constexpr int64_t kMostDim = int64_t(1) << 16;

struct TableConfig {
  std::string name;
  int64_t rows = 0;
  CodecId codec = CodecId::raw;
  bool choose_codec = false;  // when rows are known, see EmbeddingStore::fit
  bool trained = true;        // rows will change
};

struct StoreConfig {
  std::vector<TableConfig> tables;
  int64_t dim = 0;
  OptimizerRule optimizer;
  int64_t max_ids = 0;        // most ids that one batch holds, over all tables
  DType dtype = DType::fp32;  // of rows; optimizer state is fp32 always
};

/// Some rows of one table as they are stored, in host memory, with nothing in it that depends on how they got there.
struct EncodedRows {
  std::vector<std::byte> slots;      // [count, slot_bytes]; the pool index of an overflow slot is zero
  std::vector<int64_t> overflow;     // rows whose slots are overflow slots, ascending
  std::vector<float> overflow_rows;  // [overflow.size(), dim] their values
  std::vector<float> state;          // [count, state_floats]
};

/// The distinct rows of one batch, in device memory.
class DistinctRows {
 public:
  DistinctRows(Device& device, int64_t max_ids);
  const UniqueRows& view() const { return view_; }
  std::byte* scratch() const { return scratch_.data(); }

 private:
  Buffer rows_, starts_, positions_, inverse_, count_, scratch_;
  UniqueRows view_;
};

class EmbeddingStore {
 public:
  /// Memory for all rows. Throws Error naming needed and available bytes and the largest tables where they do not fit.
  EmbeddingStore(Device& device, StoreConfig config);

  const StoreConfig& config() const { return config_; }
  int64_t tables() const { return int64_t(config_.tables.size()); }
  size_t slot_bytes(int64_t table) const { return views_[size_t(table)].slot_bytes; }
  const CodecFit& codec(int64_t table) const { return fits_[size_t(table)]; }
  /// Floats of optimizer state of one row.
  int64_t state_floats() const;

  /// Whether the table's codec has something to learn from its rows.
  bool wants_fit(int64_t table) const;
  /// Learns the table's codec from a sample of the rows that it will hold; those it holds are lost.   sample [count *
  /// dim], host memory
  void fit(Queue& queue, int64_t table, std::vector<float> sample);
  static constexpr int64_t kSampleRows = 4096;  // are enough for it

  /// Every row of table t from U(-sqrt(1 / rows), sqrt(1 / rows)), a function of (seed, table, row, element). Fits.
  void initialize(Queue& queue, uint64_t seed);

  /// The sum of the rows that each bag names.   out: one vector per bag, overwritten, device memory.
  void lookup(Queue& queue, const Bags& bags, BagVectors out, Rounding rounding = Rounding::nearest);
  /// The batch's distinct rows, for the operations below.
  void find_distinct(Queue& queue, const Bags& bags, const DistinctRows& distinct);
  /// Decodes each of them once.   out [>= bags.nnz, dim], device memory: row i is the i-th distinct row
  void lookup(Queue& queue, const Bags& bags, const DistinctRows& distinct, Matrix out,
              Rounding rounding = Rounding::nearest);
  /// One optimizer step on them.   gradients: one vector per bag, device memory.
  void update(Queue& queue, const Bags& bags, const DistinctRows& distinct, BagVectors gradients,
              const StepState* state);
  // The parts of update(), of which the middle one only queues operations. They depend on the arguments and on
  // overflow_capacity().
  void begin_update(const Bags& bags);
  void queue_update(Queue& queue, const Bags& bags, const DistinctRows& distinct, BagVectors gradients,
                    const StepState* state);
  void end_update(Queue& queue);
  int64_t overflow_capacity() const { return overflow_.capacity; }

  /// The distinct rows in host memory, ascending, as (table, row). Waits for the queue.
  std::vector<std::pair<int64_t, int64_t>> list(Queue& queue, const DistinctRows& distinct);

  // Rows in host memory, `count` of them from row `first` of a table. These wait for the queue.
  void read_rows(Queue& queue, int64_t table, int64_t first, int64_t count, float* rows);
  /// Of bf16 tables rounded to nearest.
  void write_rows(Queue& queue, int64_t table, int64_t first, int64_t count, const float* rows);
  /// state [count, state_floats]
  void write_state(Queue& queue, int64_t table, int64_t first, int64_t count, const float* state);
  EncodedRows read_encoded(Queue& queue, int64_t table, int64_t first, int64_t count);

  /// Overflow pool entries in use.
  int64_t overflow_rows(Queue& queue);

 private:
  /// Makes room for an operation that stores `rows` rows. Waits for the queue.
  void reserve_overflow(Queue& queue, int64_t rows);
  void grow_overflow(int64_t rows);
  StoreView view() const { return {views_, views_on_device_.as<TableView>(), overflow_, config_.dim}; }
  OverflowView::Counters counters(Queue& queue);
  void send_views(Queue& queue);
  void fill(Queue& queue, int64_t table, int64_t rows, uint64_t seed);
  /// Throws Error where the bags are not of this store's tables.
  void check_bags(const Bags& bags) const;
  /// Throws Error where the table does not have these rows.
  const TableView& table_with_rows(int64_t table, int64_t first, int64_t count) const;
  /// Calls body(first, count) for pieces of whole rows that fit the staging buffer.
  template <class Body>
  void in_pieces(int64_t first, int64_t count, Body body);

  Device& device_;
  StoreConfig config_;
  std::vector<CodecFit> fits_;
  std::vector<Buffer> records_, row_states_, masks_;  // per table
  std::vector<TableView> views_;
  Buffer views_on_device_;
  std::unique_ptr<GrowableMemory> overflow_rows_, overflow_free_;
  Buffer overflow_counters_, overflow_returned_;
  OverflowView overflow_;
  int64_t most_overflow_rows_ = 0;  // that can ever be in use
  /// The counters as they were after some operation, and how many rows had been stored by then. Those of the last
  /// updates are read when they have arrived, `kLag` updates later.
  struct Snapshot {
    HostBuffer counters;
    std::unique_ptr<Event> arrived;
    int64_t stored = 0;
  };
  static constexpr int64_t kLag = 2;
  Snapshot snapshots_[kLag];
  int64_t updates_ = 0;
  int64_t stored_ = 0;        // rows stored by all operations so far, at most
  int64_t known_fresh_ = 0;   // entries ever used, when ...
  int64_t known_stored_ = 0;  // ... so many rows had been stored
  int64_t piece_rows_ = 0;    // rows stored by one operation of in_pieces
  Buffer staging_;            // [piece_rows, dim]
  Buffer update_scratch_;
};

/// Values of one encoded row.   overflow_row [dim]: its values if the slot is an overflow slot.   row [dim]
void decode_slot(const CodecFit& codec, const std::byte* slot, int64_t dim, const float* overflow_row, float* row);
bool is_overflow_slot(const CodecFit& codec, const std::byte* slot, int64_t dim);

}  // namespace dlrm
