#include "embedding/store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace dlrm {
namespace {

constexpr int64_t kPieceBytes = 16 << 20;

void check_room(Device& device, const StoreConfig& config, const std::vector<size_t>& bytes) {
  const auto saturating_sum = [](size_t a, size_t b) { return b > SIZE_MAX - a ? SIZE_MAX : a + b; };
  const size_t needed = std::accumulate(bytes.begin(), bytes.end(), size_t(0), saturating_sum);
  const size_t available = device.available_bytes();
  if (needed <= available) return;
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  std::string largest;
  for (size_t i = 0; i < std::min<size_t>(3, order.size()); ++i) {
    const TableConfig& table = config.tables[order[i]];
    largest += text(i ? ", " : "", table.name, " (", table.rows, " rows, ", codec_name(table.codec), ", ",
                    bytes[order[i]], " bytes)");
  }
  fail("the embedding tables need ", needed, " bytes on ", device.name(), ", available are ", available,
       ". The largest: ", largest);
}

}  // namespace

DistinctRows::DistinctRows(Device& device, int64_t max_ids)
    : rows_(device, size_t(max_ids) * sizeof(int64_t)),
      starts_(device, size_t(max_ids + 1) * sizeof(int64_t)),
      positions_(device, size_t(max_ids) * sizeof(int32_t)),
      inverse_(device, size_t(max_ids) * sizeof(int32_t)),
      count_(device, sizeof(int64_t)),
      scratch_(device, device.unique_scratch_bytes(max_ids)),
      view_{rows_.as<int64_t>(), starts_.as<int64_t>(), positions_.as<int32_t>(), inverse_.as<int32_t>(),
            count_.as<int64_t>()} {}

EmbeddingStore::EmbeddingStore(Device& device, StoreConfig config) : device_(device), config_(std::move(config)) {
  check(config_.dim >= 1 && config_.dim <= kMostDim, "embedding dim: expected 1 .. ", kMostDim, ", found ",
        config_.dim);
  const int64_t dim = config_.dim;
  std::vector<size_t> bytes;
  int64_t rows = 0;
  for (const TableConfig& table : config_.tables) {
    check(table.rows >= 1 && table.rows <= kMostRows, "table ", table.name, ": expected 1 .. ", kMostRows,
          " rows, found ", table.rows);
    TableView view{rows, table.rows};
    view.codec = table.codec;
    view.dtype = config_.dtype;
    fits_.push_back(fit_codec(table.codec, config_.dtype, nullptr, 0, dim));
    view.slot_bytes = fits_.back().slot_bytes;
    view.record_bytes = view.slot_bytes + size_t(element_states(config_.optimizer.kind) * dim) * sizeof(float);
    bytes.push_back(size_t(table.rows) *
                    (view.record_bytes + size_t(row_states(config_.optimizer.kind)) * sizeof(float)));
    rows += table.rows;
    views_.push_back(view);
  }
  check_room(device, config_, bytes);
  for (TableView& view : views_) {
    view.records = records_.emplace_back(device, size_t(view.rows) * view.record_bytes).data();
    const size_t row_state_floats = size_t(view.rows * row_states(config_.optimizer.kind));
    view.row_state = row_states_.emplace_back(device, row_state_floats * sizeof(float)).as<float>();
    const size_t masks_bytes = fits_[masks_.size()].masks.size() * sizeof(uint32_t);
    view.masks = masks_.emplace_back(device, masks_bytes).as<uint32_t>();  // empty masks
  }
  views_on_device_ = Buffer(device, views_.size() * sizeof(TableView));
  send_views(*device.make_queue());

  const int64_t max_ids = std::max<int64_t>(config_.max_ids, 1);
  check(max_ids < INT32_MAX, "a batch of ", max_ids, " ids: expected fewer than 2^31");
  piece_rows_ = std::max<int64_t>(1, kPieceBytes / (dim * int64_t(sizeof(float))));
  staging_ = Buffer(device, size_t(piece_rows_ * dim) * sizeof(float));
  update_scratch_ = Buffer(device, device.update_scratch_bytes(max_ids, dim));

  const int64_t most_stored = std::max(max_ids, piece_rows_);
  most_overflow_rows_ = rows + (kLag + 1) * most_stored;
  const size_t entries = size_t(most_overflow_rows_);
  overflow_rows_ = device.reserve(entries * size_t(dim) * sizeof(float));
  overflow_free_ = device.reserve(entries * sizeof(uint32_t));
  overflow_counters_ = Buffer(device, sizeof(OverflowView::Counters));
  overflow_returned_ = Buffer(device, size_t(most_stored) * sizeof(uint32_t));
  overflow_.counters = overflow_counters_.as<OverflowView::Counters>();
  overflow_.rows = reinterpret_cast<float*>(overflow_rows_->data());
  overflow_.free_list = reinterpret_cast<uint32_t*>(overflow_free_->data());
  overflow_.returned_list = overflow_returned_.as<uint32_t>();
  for (Snapshot& snapshot : snapshots_) {
    snapshot.counters = HostBuffer(device, sizeof(OverflowView::Counters));
    snapshot.arrived = device.make_event();
  }
}

void EmbeddingStore::send_views(Queue& queue) {
  device_.copy(queue, views_on_device_.data(), views_.data(), views_on_device_.bytes());
  queue.synchronize();
}

bool EmbeddingStore::wants_fit(int64_t table) const {
  return config_.tables[size_t(table)].codec == CodecId::ibp || config_.tables[size_t(table)].choose_codec;
}

void EmbeddingStore::fit(Queue& queue, int64_t table, std::vector<float> sample) {
  const size_t t = size_t(table);
  const int64_t count = int64_t(sample.size()) / config_.dim;
  if (config_.dtype == DType::bf16) std::transform(sample.begin(), sample.end(), sample.begin(), nearest_bf16);
  const TableConfig& config = config_.tables[t];
  queue.synchronize();
  fits_[t] = config.choose_codec ? choose_codec(config.trained, config_.dtype, sample.data(), count, config_.dim)
                                 : fit_codec(config.codec, config_.dtype, sample.data(), count, config_.dim);
  TableView& view = views_[t];
  view.codec = fits_[t].codec;
  view.record_bytes = view.record_bytes - view.slot_bytes + fits_[t].slot_bytes;
  view.slot_bytes = fits_[t].slot_bytes;
  records_[t] = Buffer();  // before there are new ones
  records_[t] = Buffer(device_, size_t(view.rows) * view.record_bytes);
  view.records = records_[t].data();
  masks_[t] = Buffer(device_, fits_[t].masks.size() * sizeof(uint32_t));
  device_.copy(queue, masks_[t].data(), fits_[t].masks.data(), masks_[t].bytes());
  view.masks = masks_[t].as<uint32_t>();
  send_views(queue);
}

int64_t EmbeddingStore::state_floats() const {
  const OptimizerKind kind = config_.optimizer.kind;
  return element_states(kind) * config_.dim + row_states(kind);
}

OverflowView::Counters EmbeddingStore::counters(Queue& queue) {
  OverflowView::Counters counters;
  device_.copy(queue, &counters, overflow_.counters, sizeof counters);
  queue.synchronize();
  return counters;
}

int64_t EmbeddingStore::overflow_rows(Queue& queue) {
  const OverflowView::Counters now = counters(queue);
  return now.fresh - now.free;
}

void EmbeddingStore::grow_overflow(int64_t rows) {
  const int64_t needed = known_fresh_ + (stored_ - known_stored_) + rows;
  stored_ += rows;
  if (needed <= overflow_.capacity) return;
  // An eighth more, so that it changes seldom: recorded steps depend on it.
  const int64_t capacity = std::max(needed, std::min(needed + needed / 8, most_overflow_rows_));
  check(needed < UINT32_MAX, "overflow pool: ", needed, " entries, expected fewer than 2^32");
  overflow_rows_->grow(size_t(capacity * config_.dim) * sizeof(float));
  overflow_free_->grow(size_t(capacity) * sizeof(uint32_t));
  overflow_.capacity = capacity;
}

void EmbeddingStore::reserve_overflow(Queue& queue, int64_t rows) {
  known_fresh_ = counters(queue).fresh;
  known_stored_ = stored_;
  grow_overflow(rows);
}

void EmbeddingStore::begin_update(const Bags& bags) {
  const Snapshot& snapshot = snapshots_[updates_ % kLag];
  snapshot.arrived->wait();
  if (snapshot.stored > known_stored_) {
    known_fresh_ = snapshot.counters.as<OverflowView::Counters>()->fresh;
    known_stored_ = snapshot.stored;
  }
  int64_t most = 0;
  for (const TableView& view : views_) most += std::min(view.rows, bags.offsets ? bags.nnz : bags.batch);
  grow_overflow(std::min(most, bags.nnz));
}

template <class Body>
void EmbeddingStore::in_pieces(int64_t first, int64_t count, Body body) {
  for (int64_t done = 0; done < count; done += piece_rows_) body(first + done, std::min(piece_rows_, count - done));
}

void EmbeddingStore::initialize(Queue& queue, uint64_t seed) {
  for (int64_t t = 0; t < tables(); ++t) {
    const int64_t rows = config_.tables[size_t(t)].rows, sampled = std::min(rows, kSampleRows);
    if (wants_fit(t)) {  // initial rows are all alike
      fill(queue, t, sampled, seed);
      std::vector<float> sample(size_t(sampled * config_.dim));
      read_rows(queue, t, 0, sampled, sample.data());
      fit(queue, t, std::move(sample));
    }
    fill(queue, t, rows, seed);
  }
}

void EmbeddingStore::fill(Queue& queue, int64_t table, int64_t rows, uint64_t seed) {
  const float bound = float(std::sqrt(1.0 / double(config_.tables[size_t(table)].rows)));
  in_pieces(0, rows, [&](int64_t first, int64_t count) {
    reserve_overflow(queue, count);
    device_.fill_uniform(queue, view(), table, first, count, bound, seed);
  });
}

void EmbeddingStore::check_bags(const Bags& bags) const {
  check(bags.tables == tables(), "a batch for ", bags.tables, " tables, expected ", tables());
  check(bags.offsets || bags.nnz == bags.tables * bags.batch, "a batch of one id per bag has ", bags.nnz,
        " ids, expected ", bags.tables, " tables * ", bags.batch, " samples");
}

const TableView& EmbeddingStore::table_with_rows(int64_t table, int64_t first, int64_t count) const {
  check(table >= 0 && table < tables(), "table ", table, ": expected 0 .. ", tables() - 1);
  const TableView& view = views_[size_t(table)];
  check(first >= 0 && count >= 0 && first <= view.rows - count, "table ", config_.tables[size_t(table)].name, ": ",
        count, " rows from row ", first, ", but it has ", view.rows);
  return view;
}

void EmbeddingStore::lookup(Queue& queue, const Bags& bags, BagVectors out, Rounding rounding) {
  check_bags(bags);
  device_.lookup(queue, view(), bags, out, rounding);
}

void EmbeddingStore::find_distinct(Queue& queue, const Bags& bags, const DistinctRows& distinct) {
  check_bags(bags);
  check(bags.nnz <= std::max<int64_t>(config_.max_ids, 1), "a batch of ", bags.nnz, " ids, expected at most ",
        config_.max_ids);
  device_.unique(queue, view(), bags, distinct.view(), distinct.scratch());
}

void EmbeddingStore::lookup(Queue& queue, const Bags& bags, const DistinctRows& distinct, Matrix out,
                            Rounding rounding) {
  device_.lookup_unique(queue, view(), bags.nnz, distinct.view(), out, rounding);
}

void EmbeddingStore::update(Queue& queue, const Bags& bags, const DistinctRows& distinct, BagVectors gradients,
                            const StepState* state) {
  begin_update(bags);
  queue_update(queue, bags, distinct, gradients, state);
  end_update(queue);
}

void EmbeddingStore::queue_update(Queue& queue, const Bags& bags, const DistinctRows& distinct, BagVectors gradients,
                                  const StepState* state) {
  device_.update(queue, view(), bags, distinct.view(), gradients, config_.optimizer, state, update_scratch_.data());
}

void EmbeddingStore::end_update(Queue& queue) {
  Snapshot& snapshot = snapshots_[updates_++ % kLag];
  snapshot.stored = stored_;
  device_.copy(queue, snapshot.counters.data(), overflow_.counters, sizeof(OverflowView::Counters));
  queue.record(*snapshot.arrived);
}

std::vector<std::pair<int64_t, int64_t>> EmbeddingStore::list(Queue& queue, const DistinctRows& distinct) {
  int64_t count = 0;
  device_.copy(queue, &count, distinct.view().count, sizeof count);
  queue.synchronize();
  std::vector<int64_t> rows(static_cast<size_t>(count));
  device_.copy(queue, rows.data(), distinct.view().rows, rows.size() * sizeof(int64_t));
  queue.synchronize();
  std::vector<std::pair<int64_t, int64_t>> result;
  size_t t = 0;
  for (int64_t row : rows) {
    while (row >= views_[t].first_row + views_[t].rows) ++t;
    result.emplace_back(int64_t(t), row - views_[t].first_row);
  }
  return result;
}

void EmbeddingStore::read_rows(Queue& queue, int64_t table, int64_t first, int64_t count, float* rows) {
  table_with_rows(table, first, count);
  in_pieces(first, count, [&](int64_t begin, int64_t n) {
    device_.decode_rows(queue, view(), table, begin, n, staging_.as<float>());
    device_.copy(queue, rows + (begin - first) * config_.dim, staging_.data(), size_t(n * config_.dim) * sizeof(float));
    queue.synchronize();
  });
}

void EmbeddingStore::write_rows(Queue& queue, int64_t table, int64_t first, int64_t count, const float* rows) {
  table_with_rows(table, first, count);
  in_pieces(first, count, [&](int64_t begin, int64_t n) {
    reserve_overflow(queue, n);
    device_.copy(queue, staging_.data(), rows + (begin - first) * config_.dim, size_t(n * config_.dim) * sizeof(float));
    device_.encode_rows(queue, view(), table, begin, n, staging_.as<float>());
    queue.synchronize();
  });
}

void EmbeddingStore::write_state(Queue& queue, int64_t table, int64_t first, int64_t count, const float* state) {
  const TableView& view = table_with_rows(table, first, count);
  if (view.row_state) {
    device_.copy(queue, view.row_state + first, state, size_t(count) * sizeof(float));
  } else if (state_floats() > 0) {
    std::vector<std::byte> records(size_t(count) * view.record_bytes);
    device_.copy(queue, records.data(), view.slot(first), records.size());
    queue.synchronize();
    const size_t bytes = size_t(state_floats()) * sizeof(float);
    for (size_t i = 0; i < size_t(count); ++i)
      std::memcpy(&records[i * view.record_bytes + view.slot_bytes], state + i * size_t(state_floats()), bytes);
    device_.copy(queue, view.slot(first), records.data(), records.size());
  }
  queue.synchronize();
}

EncodedRows EmbeddingStore::read_encoded(Queue& queue, int64_t table, int64_t first, int64_t count) {
  const TableView& view = table_with_rows(table, first, count);
  const int64_t dim = config_.dim;
  std::vector<std::byte> records(size_t(count) * view.record_bytes);
  device_.copy(queue, records.data(), view.slot(first), records.size());
  EncodedRows result;
  result.state.resize(size_t(count * state_floats()));
  if (view.row_state) device_.copy(queue, result.state.data(), view.row_state + first, size_t(count) * sizeof(float));
  queue.synchronize();

  result.slots.resize(size_t(count) * view.slot_bytes);
  std::vector<int64_t> entries;
  for (size_t i = 0; i < size_t(count); ++i) {
    const std::byte* record = &records[i * view.record_bytes];
    std::byte* slot = &result.slots[i * view.slot_bytes];
    std::memcpy(slot, record, view.slot_bytes);
    if (element_states(config_.optimizer.kind) > 0)
      std::memcpy(&result.state[i * size_t(state_floats())], record + view.slot_bytes,
                  size_t(state_floats()) * sizeof(float));
    with_codec(view.codec, fits_[size_t(table)].params(), [&](auto codec) {
      if (!codec.is_overflow(slot, dim)) return;
      entries.push_back(codec.overflow_index(slot));
      codec.write_overflow(Solo{}, 0, dim, slot);
      result.overflow.push_back(first + int64_t(i));
    });
  }
  result.overflow_rows.resize(entries.size() * size_t(dim));
  for (size_t i = 0; i < entries.size(); ++i)
    device_.copy(queue, &result.overflow_rows[i * size_t(dim)], overflow_.rows + entries[i] * dim,
                 size_t(dim) * sizeof(float));
  queue.synchronize();
  return result;
}

void decode_slot(const CodecFit& fit, const std::byte* slot, int64_t dim, const float* overflow_row, float* row) {
  with_codec(fit.codec, fit.params(), [&](auto codec) {
    if (codec.is_overflow(slot, dim)) {
      std::copy_n(overflow_row, dim, row);
    } else {
      codec.decode(Solo{}, slot, dim, row);
    }
  });
}

bool is_overflow_slot(const CodecFit& fit, const std::byte* slot, int64_t dim) {
  return with_codec(fit.codec, fit.params(), [&](auto codec) { return codec.is_overflow(slot, dim); });
}

}  // namespace dlrm
