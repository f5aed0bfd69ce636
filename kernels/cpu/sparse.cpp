// The CPU's operations on compressed tables.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/vectors.h"
#include "kernels/parallel.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

constexpr int64_t kBagsPerPiece = 256;
constexpr int64_t kRowsPerPiece = 128;
constexpr int64_t kPrefetchRows = 8;  // ahead of the row being decoded

void prefetch(const TableView& table, int64_t row) {
  if (uint64_t(row) >= uint64_t(table.rows)) return;
  const std::byte* record = table.slot(row);
  for (size_t byte = 0; byte < table.record_bytes; byte += 64) __builtin_prefetch(record + byte);
}

// Overflow pool -------------------------------------------------------------------------------------------------------

uint32_t take_entry(const OverflowView& pool) {
  OverflowView::Counters& c = *pool.counters;
  const int64_t ticket = std::atomic_ref(c.taken).fetch_add(1, std::memory_order_relaxed);
  if (ticket < c.free) return pool.free_list[c.free - 1 - ticket];
  const int64_t entry = c.fresh + ticket - c.free;
  check(entry < pool.capacity, "overflow pool: all ", pool.capacity, " entries are in use");
  return uint32_t(entry);
}

void return_entry(const OverflowView& pool, uint32_t entry) {
  pool.returned_list[std::atomic_ref(pool.counters->returned).fetch_add(1, std::memory_order_relaxed)] = entry;
}

/// Ends an operation: what it took is in use, what it gave back is free.
void settle(const OverflowView& pool) {
  OverflowView::Counters& c = *pool.counters;
  const int64_t reused = std::min(c.taken, c.free);
  c.free -= reused;
  c.fresh += c.taken - reused;
  std::copy_n(pool.returned_list, c.returned, pool.free_list + c.free);
  c.free += c.returned;
  c.taken = c.returned = 0;
}

template <class Codec>
void load_row(const Codec& codec, const StoreView& store, const TableView& table, int64_t row, float* values) {
  const std::byte* slot = table.slot(row);
  if (codec.is_overflow(slot, store.dim)) {
    std::copy_n(store.overflow.rows + int64_t(codec.overflow_index(slot)) * store.dim, store.dim, values);
  } else {
    codec.decode(Solo{}, slot, store.dim, values);
  }
}

template <class Codec>
void store_row(const Codec& codec, const StoreView& store, const TableView& table, int64_t row, const float* values) {
  std::byte* slot = table.slot(row);
  const bool had_entry = codec.is_overflow(slot, store.dim);
  const uint32_t old_entry = had_entry ? codec.overflow_index(slot) : 0;
  if (codec.encode(Solo{}, values, store.dim, slot)) {
    if (had_entry) return_entry(store.overflow, old_entry);
    return;
  }
  const uint32_t entry = had_entry ? old_entry : take_entry(store.overflow);
  std::copy_n(values, store.dim, store.overflow.rows + int64_t(entry) * store.dim);
  codec.write_overflow(Solo{}, entry, store.dim, slot);
}

// Bags ----------------------------------------------------------------------------------------------------------------

int64_t bag_start(const Bags& bags, int64_t bag) {
  return bags.offsets ? bags.offsets[bag] : bag;
}

int64_t bag_of(const Bags& bags, int64_t position) {
  if (!bags.offsets) return position;
  const int64_t* end = bags.offsets + bags.tables * bags.batch + 1;
  return std::upper_bound(bags.offsets, end, position) - bags.offsets - 1;
}

template <class T>
T* vector_of(const Bags& bags, BagVectors vectors, int64_t dim, int64_t bag) {
  return static_cast<T*>(vectors.data) + bag % bags.batch * vectors.sample_stride + bag / bags.batch * dim;
}

int64_t checked_id(const Bags& bags, const TableView& table, int64_t table_index, int64_t position) {
  const int64_t id = bags.ids[position];
  if (uint64_t(id) < uint64_t(table.rows)) return id;
  fail("table ", table_index, ": id ", id, " of sample ", bag_of(bags, position) % bags.batch,
       " of the batch, expected 0 .. ", table.rows - 1);
}

/// load_row() for a lookup.   values [dim], written in fp32 on the way unless out is fp32 itself
template <class Codec, class T>
void look_up_row(const Codec& codec, const StoreView& store, const TableView& table, int64_t row, Rounding rounding,
                 float* values, T* out) {
  float* to = values;
  if constexpr (std::is_same_v<T, float>) to = out;
  load_row(codec, store, table, row, to);
  if (rounding == Rounding::truncate) std::transform(to, to + store.dim, to, truncated);
  if constexpr (!std::is_same_v<T, float>) std::transform(to, to + store.dim, out, rounded<T>);
}

template <class Codec, class T>
void lookup_table(const Codec& codec, const StoreView& store, const Bags& bags, int64_t table_index, int64_t begin,
                  int64_t end, BagVectors out, Rounding rounding) {
  const TableView& table = store.tables[size_t(table_index)];
  const int64_t first_bag = table_index * bags.batch, last_position = bag_start(bags, first_bag + end);
  std::vector<float> row(size_t(store.dim)), sum(size_t(store.dim));
  for (int64_t bag = first_bag + begin; bag < first_bag + end; ++bag) {
    T* to = vector_of<T>(bags, out, store.dim, bag);
    if (!bags.offsets) {
      if (bag + kPrefetchRows < last_position) prefetch(table, bags.ids[bag + kPrefetchRows]);
      look_up_row(codec, store, table, checked_id(bags, table, table_index, bag), rounding, row.data(), to);
      continue;
    }
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t position = bags.offsets[bag]; position < bags.offsets[bag + 1]; ++position) {
      if (position + kPrefetchRows < last_position) prefetch(table, bags.ids[position + kPrefetchRows]);
      const int64_t id = checked_id(bags, table, table_index, position);
      look_up_row(codec, store, table, id, rounding, nullptr, row.data());
      for (size_t i = 0; i < row.size(); ++i) sum[i] += row[i];
    }
    std::transform(sum.begin(), sum.end(), to, rounded<T>);
  }
}

// Unique --------------------------------------------------------------------------------------------------------------

struct Occurrence {
  int64_t row;
  int64_t position;
};

/// Stable least-significant-digit radix sort by row. The result is in `from`.
void sort_by_row(Occurrence*& from, Occurrence*& to, int64_t count, int64_t rows) {
  constexpr int kDigitBits = 11;
  const int bits = std::bit_width(uint64_t(rows - 1));
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    int64_t starts[(1 << kDigitBits) + 1] = {};
    const auto digit = [&](int64_t i) { return from[i].row >> shift & ((1 << kDigitBits) - 1); };
    for (int64_t i = 0; i < count; ++i) ++starts[digit(i) + 1];
    for (int d = 0; d < 1 << kDigitBits; ++d) starts[d + 1] += starts[d];
    for (int64_t i = 0; i < count; ++i) to[starts[digit(i)]++] = from[i];
    std::swap(from, to);
  }
}

// Update --------------------------------------------------------------------------------------------------------------

/// Some consecutive occurrences of one row.
struct Piece {
  int64_t begin, end;
};

struct UpdateScratch {
  int32_t* first_piece;  // [nnz] per distinct row that has more than one
  Piece* pieces;
  float* sums;  // [pieces, dim]

  static int64_t most_pieces(int64_t nnz) { return 2 * (nnz / kGradientPiece) + 1; }
  static size_t bytes(int64_t nnz, int64_t dim) {
    return size_t((nnz + 3) / 4 * 16) + size_t(most_pieces(nnz)) * (sizeof(Piece) + size_t(dim) * sizeof(float));
  }
  UpdateScratch(std::byte* scratch, int64_t nnz)
      : first_piece(reinterpret_cast<int32_t*>(scratch)),
        pieces(reinterpret_cast<Piece*>(scratch + (nnz + 3) / 4 * 16)),
        sums(reinterpret_cast<float*>(pieces + most_pieces(nnz))) {}
};

/// to = the sum of `count` vectors that follow each other, one after the other.
void sum_vectors(const float* from, int64_t count, int64_t dim, float* to) {
  std::copy_n(from, dim, to);
  for (int64_t i = 1; i < count; ++i)
    for (int64_t j = 0; j < dim; ++j) to[j] += from[i * dim + j];
}

/// The sum of the pieces of a row, `count` vectors: in pieces again where there are many.   scratch [dim]
void sum_pieces(const float* from, int64_t count, int64_t dim, float* scratch, float* to) {
  if (count <= kGradientPiece) return sum_vectors(from, count, dim, to);
  for (int64_t i = 0; i < count; i += kGradientPiece) {
    sum_vectors(from + i * dim, std::min(kGradientPiece, count - i), dim, i == 0 ? to : scratch);
    for (int64_t j = 0; i > 0 && j < dim; ++j) to[j] += scratch[j];
  }
}

template <class T>
void sum_gradients(const Bags& bags, const UniqueRows& unique, BagVectors gradients, int64_t dim, Piece piece,
                   float* sum) {
  std::fill_n(sum, dim, 0.0f);
  for (int64_t i = piece.begin; i < piece.end; ++i) {
    const T* gradient = vector_of<T>(bags, gradients, dim, bag_of(bags, unique.positions[i]));
    for (int64_t j = 0; j < dim; ++j) sum[j] += to_float(gradient[j]);
  }
}

float mean_square(const float* gradient, int64_t dim) {
  constexpr int kLanes = 16;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] = std::fma(gradient[i + k], gradient[i + k], lanes[k]);
  for (int k = 0; i + k < dim; ++k) lanes[k] = std::fma(gradient[i + k], gradient[i + k], lanes[k]);
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum / float(dim);
}

void apply_rule(OptimizerRule rule, const StepState& state, const TableView& table, int64_t row, int64_t dim,
                const float* gradient, float* values) {
  float lr = state.table_lr;
  if (rule.kind == OptimizerKind::adam) {
    float *means = table.element_state(row), *squares = means + dim;
    for (int64_t i = 0; i < dim; ++i)
      values[i] = sparse_adam(values[i], gradient[i], lr, rule, state.table_adam, means[i], squares[i]);
    return;
  }
  if (rule.kind == OptimizerKind::adagrad) {
    float* sums = table.element_state(row);
    for (int64_t i = 0; i < dim; ++i) values[i] = adagrad(values[i], gradient[i], lr, rule.eps, sums[i]);
    return;
  }
  if (rule.kind == OptimizerKind::rowwise_adagrad)
    lr = rowwise_adagrad_lr(mean_square(gradient, dim), lr, rule.eps, table.row_state[row]);
  for (int64_t i = 0; i < dim; ++i) values[i] = sgd(values[i], gradient[i], lr);
}

int64_t table_of(const StoreView& store, int64_t global_row) {
  const auto after = std::upper_bound(store.tables.begin(), store.tables.end(), global_row,
                                      [](int64_t row, const TableView& table) { return row < table.first_row; });
  return after - store.tables.begin() - 1;
}

}  // namespace

size_t CpuDevice::unique_scratch_bytes(int64_t nnz) {
  return size_t(nnz) * 2 * sizeof(Occurrence);
}
size_t CpuDevice::update_scratch_bytes(int64_t nnz, int64_t dim) {
  return UpdateScratch::bytes(nnz, dim);
}

void CpuDevice::lookup(Queue&, const StoreView& store, const Bags& bags, BagVectors out, Rounding rounding) {
  const int64_t pieces = (bags.batch + kBagsPerPiece - 1) / kBagsPerPiece;
  parallel_for(bags.tables * pieces, 1, [&](int64_t piece, int64_t) {
    const int64_t table = piece / pieces, begin = piece % pieces * kBagsPerPiece;
    with_codec(store.tables[size_t(table)], [&]<class Codec>(Codec codec) {
      with_dtype(out.dtype, [&]<class T>(T) {
        lookup_table<Codec, T>(codec, store, bags, table, begin, std::min(begin + kBagsPerPiece, bags.batch), out,
                               rounding);
      });
    });
  });
}

void CpuDevice::unique(Queue&, const StoreView& store, const Bags& bags, UniqueRows out, std::byte* scratch) {
  std::vector<const Occurrence*> sorted(size_t(bags.tables));
  std::vector<int64_t> first_unique(size_t(bags.tables) + 1, 0);
  parallel_for(bags.tables, 1, [&](int64_t t, int64_t) {
    const int64_t begin = bag_start(bags, t * bags.batch), end = bag_start(bags, (t + 1) * bags.batch);
    const TableView& table = store.tables[size_t(t)];
    Occurrence* from = reinterpret_cast<Occurrence*>(scratch) + begin;
    Occurrence* to = from + bags.nnz;
    for (int64_t i = begin; i < end; ++i) from[i - begin] = {checked_id(bags, table, t, i), i};
    sort_by_row(from, to, end - begin, table.rows);
    sorted[size_t(t)] = from;
    for (int64_t i = 0; i < end - begin; ++i) first_unique[size_t(t) + 1] += i == 0 || from[i].row != from[i - 1].row;
  });
  for (size_t t = 0; t + 1 < first_unique.size(); ++t) first_unique[t + 1] += first_unique[t];
  parallel_for(bags.tables, 1, [&](int64_t t, int64_t) {
    const int64_t begin = bag_start(bags, t * bags.batch), end = bag_start(bags, (t + 1) * bags.batch);
    const Occurrence* from = sorted[size_t(t)];
    int64_t next = first_unique[size_t(t)];
    for (int64_t i = 0; i < end - begin; ++i) {
      out.positions[begin + i] = int32_t(from[i].position);
      if (i == 0 || from[i].row != from[i - 1].row) {
        out.rows[next] = store.tables[size_t(t)].first_row + from[i].row;
        out.starts[next] = begin + i;
        ++next;
      }
      out.inverse[from[i].position] = int32_t(next - 1);
    }
  });
  *out.count = first_unique.back();
  out.starts[*out.count] = bags.nnz;
}

void CpuDevice::lookup_unique(Queue&, const StoreView& store, int64_t, const UniqueRows& unique, Matrix out,
                              Rounding rounding) {
  parallel_for(*unique.count, kRowsPerPiece, [&](int64_t begin, int64_t end) {
    std::vector<float> values(size_t(store.dim));
    for (int64_t u = begin; u < end; ++u) {
      const TableView& table = store.tables[size_t(table_of(store, unique.rows[u]))];
      if (u + kPrefetchRows < end) prefetch(table, unique.rows[u + kPrefetchRows] - table.first_row);
      with_codec(table, [&](auto codec) {
        with_dtype(out.dtype, [&]<class T>(T) {
          look_up_row(codec, store, table, unique.rows[u] - table.first_row, rounding, values.data(), out.row<T>(u));
        });
      });
    }
  });
}

void CpuDevice::update(Queue&, const StoreView& store, const Bags& bags, const UniqueRows& unique, BagVectors gradients,
                       OptimizerRule rule, const StepState* state, std::byte* scratch_bytes) {
  const UpdateScratch scratch(scratch_bytes, bags.nnz);
  const int64_t dim = store.dim;
  int64_t pieces = 0;
  for (int64_t u = 0; u < *unique.count; ++u) {
    if (unique.starts[u + 1] - unique.starts[u] <= kGradientPiece) continue;
    scratch.first_piece[u] = int32_t(pieces);
    for (int64_t i = unique.starts[u]; i < unique.starts[u + 1]; i += kGradientPiece)
      scratch.pieces[pieces++] = {i, std::min(i + kGradientPiece, unique.starts[u + 1])};
  }
  const auto sum = [&](Piece piece, float* to) {
    with_dtype(gradients.dtype, [&]<class T>(T) { sum_gradients<T>(bags, unique, gradients, dim, piece, to); });
  };
  parallel_for(pieces, 1, [&](int64_t p, int64_t) { sum(scratch.pieces[p], scratch.sums + p * dim); });

  parallel_for(*unique.count, kRowsPerPiece, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(dim)), gradient(static_cast<size_t>(dim));
    int64_t t = table_of(store, unique.rows[begin]);
    for (int64_t u = begin; u < end; ++u) {
      while (unique.rows[u] >= store.tables[size_t(t)].first_row + store.tables[size_t(t)].rows) ++t;
      const TableView& table = store.tables[size_t(t)];
      const int64_t row = unique.rows[u] - table.first_row;
      if (u + kPrefetchRows < end) prefetch(table, unique.rows[u + kPrefetchRows] - table.first_row);

      const Piece all{unique.starts[u], unique.starts[u + 1]};
      if (all.end - all.begin <= kGradientPiece) {
        sum(all, gradient.data());
      } else {
        sum_pieces(scratch.sums + scratch.first_piece[u] * dim, gradient_pieces(all.end - all.begin), dim,
                   values.data(), gradient.data());
      }
      with_codec(table, [&](auto codec) {
        load_row(codec, store, table, row, values.data());
        apply_rule(rule, *state, table, row, dim, gradient.data(), values.data());
        if (table.dtype == DType::bf16) round_row(state->rounding_key, t, row, dim, values.data());
        store_row(codec, store, table, row, values.data());
      });
    }
  });
  settle(store.overflow);
}

void CpuDevice::fill_uniform(Queue&, const StoreView& store, int64_t table_index, int64_t first, int64_t count,
                             float bound, uint64_t seed) {
  const TableView& table = store.tables[size_t(table_index)];
  parallel_for(count, kRowsPerPiece, [&](int64_t begin, int64_t end) {
    std::vector<float> values(size_t(store.dim + 3));
    for (int64_t row = first + begin; row < first + end; ++row) {
      for (int64_t i = 0; i < store.dim; i += 4) {
        const Random4 random = philox(seed, uint64_t(row), uint64_t(table_index) << 32 | uint64_t(i / 4));
        for (int64_t k = 0; k < 4; ++k) values[size_t(i + k)] = (2 * uniform_float(random.word[k]) - 1) * bound;
      }
      if (table.dtype == DType::bf16) std::transform(values.begin(), values.end(), values.begin(), nearest_bf16);
      with_codec(table, [&](auto codec) { store_row(codec, store, table, row, values.data()); });
      std::memset(table.slot(row) + table.slot_bytes, 0, table.record_bytes - table.slot_bytes);
      if (table.row_state) table.row_state[row] = 0;
    }
  });
  settle(store.overflow);
}

void CpuDevice::encode_rows(Queue&, const StoreView& store, int64_t table_index, int64_t first, int64_t count,
                            const float* rows) {
  const TableView& table = store.tables[size_t(table_index)];
  with_codec(table, [&](auto codec) {
    parallel_for(count, kRowsPerPiece, [&](int64_t begin, int64_t end) {
      std::vector<float> nearest(size_t(store.dim));
      for (int64_t i = begin; i < end; ++i) {
        const float* row = rows + i * store.dim;
        if (table.dtype == DType::bf16) {
          std::transform(row, row + store.dim, nearest.begin(), nearest_bf16);
          row = nearest.data();
        }
        store_row(codec, store, table, first + i, row);
      }
    });
  });
  settle(store.overflow);
}

void CpuDevice::decode_rows(Queue&, const StoreView& store, int64_t table_index, int64_t first, int64_t count,
                            float* rows) {
  const TableView& table = store.tables[size_t(table_index)];
  with_codec(table, [&](auto codec) {
    parallel_for(count, kRowsPerPiece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) load_row(codec, store, table, first + i, rows + i * store.dim);
    });
  });
}

}  // namespace dlrm
