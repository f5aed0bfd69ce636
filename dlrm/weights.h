// Weights of a trained DLRM in one normal form, whichever program saved them:
//   MLP weights [out, in] without padding, tables in the order of the data set's features, and the interaction in
//   natural order (see model.h): where a program fed the tables to it in another order, the columns of the first top
//   layer are permuted here.
// Which layout a directory or file has is seen from what is in it.
#pragma once
#include <functional>
#include <memory>

#include "dlrm/checkpoint.h"

namespace dlrm {

/// What a layout may leave open; see Weights::notes for what was assumed.
struct WeightsOptions {
  /// Numerical features, where a layout only knows their number rounded up; 0: 13 where it knows 16, else all.
  int64_t numerical = 0;
  /// "natural", "cardinality" (descending), or the features' numbers in the order in which their vectors enter the
  /// interaction: "0,5,3,...". Empty: as the layout says.
  std::string interaction_order;
};

struct Weights {
  std::filesystem::path path;
  std::string layout;               // for people
  std::vector<std::string> notes;   // what was assumed, for people
  ModelConfig model;                // shapes: numerical, tables, dim, bottom, top, table_dtype
  std::string numerical_transform;  // empty: not known

  std::shared_ptr<const Checkpoint> own;  // where the layout is this program's

  // Of other layouts:
  /// An array of the MLPs, named as in Model::parameters().
  std::function<std::vector<float>(const std::string& name)> array;
  /// Rows [first, first + count) of a table, [count, dim]. Several threads may read at once.
  std::function<void(size_t table, int64_t first, int64_t count, float* rows)> rows;
};

/// Throws Error naming the file where something is damaged, missing or of another shape than the rest; or, naming the
/// directory, where it holds no layout that is known.
Weights open_weights(const std::filesystem::path& path, const WeightsOptions& options = {});

/// Rows spread evenly over a table, `most` or all.   [count, dim]
std::vector<float> sample_rows(const Weights& weights, size_t table, int64_t most);

/// Fills a model of the same shape, whatever its codecs and its optimizers, whose state is cleared. `progress` is told
/// the bytes of rows that are done, now and then.
void load_weights(const Weights& weights, Model& model, Queue& queue,
                  const std::function<void(size_t done, size_t all)>& progress = {});

}  // namespace dlrm
