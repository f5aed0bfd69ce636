// What kernels see of memory that others own: plain pointers with shapes, copied freely.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/bf16.h"
#include "kernels/codecs/codecs.h"

namespace dlrm {

/// Row-major [rows, cols]; row r begins r * stride elements after data.
struct Matrix {
  void* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  DType dtype = DType::fp32;

  template <class T = float>
  DLRM_HD T* row(int64_t r) const {
    return static_cast<T*>(data) + r * stride;
  }
};

/// One fully connected layer, or its gradients. PyTorch's orientation: y = x weight^T + bias.
struct Linear {
  Matrix weight;         // [out, in]
  void* bias = nullptr;  // [out], of the weight's dtype
};

/// The vectors v_0 .. v_n-1 of each sample that interact. v_0 is a row of `first`. The others are consecutive in the
/// sample's row of `rest`; or, where there is an index, v_i is row index[(i - 1) * batch + sample] of `rest`.
struct Interaction {
  int64_t vectors = 0;  // with v_0
  Matrix first;         // [batch, dim]
  Matrix rest;          // [batch, (vectors - 1) * dim], or with an index [any, dim]
  const int32_t* index = nullptr;

  DLRM_HD int64_t batch() const { return first.rows; }
  DLRM_HD int64_t dim() const { return first.cols; }
  template <class T>
  DLRM_HD const T* vector(int64_t sample, int64_t i) const {
    if (i == 0) return first.row<T>(sample);
    return index ? rest.row<T>(index[(i - 1) * first.rows + sample]) : rest.row<T>(sample) + (i - 1) * first.cols;
  }
};

/// The ids of one batch, for all tables. Bag (t, b) belongs to table t and sample b.
struct Bags {
  const int64_t* ids = nullptr;  // [nnz] rows within their tables, table-major
  const int64_t* offsets =
      nullptr;  // [tables * batch + 1] where bag t * batch + b starts; null: every bag holds one id
  int64_t tables = 0, batch = 0, nnz = 0;
};

/// One dim-sized vector per bag: bag (t, b)'s begins b * sample_stride + t * dim elements after data.
struct BagVectors {
  void* data = nullptr;
  int64_t sample_stride = 0;
  DType dtype = DType::fp32;
};

/// How a lookup makes bf16 of a row. `truncate` takes the upper halves of the elements, so that nothing else of a slot
/// need be read (Kalamkar et al., SC'20, section III); the update always uses all bits.
enum class Rounding : int32_t { nearest, truncate };

/// One table. Row r is the record at records + r * record_bytes: its slot, then element-wise optimizer state.
struct TableView {
  int64_t first_row = 0;  // in the store's global row space
  int64_t rows = 0;
  std::byte* records = nullptr;
  size_t record_bytes = 0, slot_bytes = 0;
  CodecId codec = CodecId::raw;
  DType dtype = DType::fp32;        // of all tables of a store
  float* row_state = nullptr;       // [rows] of row-wise optimizers
  const uint32_t* masks = nullptr;  // of ibp

  DLRM_HD std::byte* slot(int64_t row) const { return records + size_t(row) * record_bytes; }
  DLRM_HD float* element_state(int64_t row) const { return reinterpret_cast<float*>(slot(row) + slot_bytes); }
};

/// Calls f with the table's codec.
template <class F>
decltype(auto) with_codec(const TableView& table, F&& f) {
  return with_codec(table.codec, {table.slot_bytes, table.masks, table.dtype}, std::forward<F>(f));
}

/// Rows that do not fit their slots, verbatim in fp32. Within one operation entries are taken by counting `taken` up:
/// the free list from its end first, then fresh ones. Entries given back wait in `returned` until the operation ends
/// (settle).
struct OverflowView {
  struct Counters {
    int64_t fresh;  // entries that were ever used
    int64_t free;   // of them, not in use now
    int64_t taken;
    int64_t returned;
  };
  Counters* counters = nullptr;
  float* rows = nullptr;              // [capacity, dim]
  uint32_t* free_list = nullptr;      // [capacity]
  uint32_t* returned_list = nullptr;  // [most rows that one operation stores]
  int64_t capacity = 0;
};

/// All tables of one device with the same dim.
struct StoreView {
  std::span<const TableView> tables;         // in host memory
  const TableView* device_tables = nullptr;  // the same in device memory
  OverflowView overflow;
  int64_t dim = 0;

  DType dtype() const { return tables.empty() ? DType::fp32 : tables.front().dtype; }
};

/// The distinct rows of a batch, ascending, and where each occurs. Capacity nnz (+ 1 for starts).
struct UniqueRows {
  int64_t* rows = nullptr;       // global rows
  int64_t* starts = nullptr;     // row i occurs at positions[starts[i] .. starts[i + 1])
  int32_t* positions = nullptr;  // indices into Bags::ids, ascending within a row
  int32_t* inverse = nullptr;    // [nnz] the i of the row at each position
  int64_t* count = nullptr;      // [1]
};

}  // namespace dlrm
