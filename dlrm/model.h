// The DLRM of Naumov et al. (arXiv 1906.00091) on one device, in the variant of NVIDIA's examples:
//   b = bottom(x)                    every layer with ReLU, the last one dim wide
//   v = [b, e_0 .. e_T-1]            e_t: the summed rows that table t's bag names
//   logit = top([b, z, padding])     z: strict lower triangle, row-major, of all dot products of v's vectors
// trained with binary cross-entropy, mean over the global batch.
#pragma once
#include <string>
#include <vector>

#include "data/batch.h"
#include "embedding/store.h"

namespace dlrm {

struct ModelConfig {
  int64_t numerical = 0;  // features
  std::vector<TableConfig> tables;
  int64_t dim = 0;
  std::vector<int64_t> bottom, top;  // layer widths; bottom ends in dim, top in 1
  OptimizerRule dense_optimizer, table_optimizer;
  DType table_dtype = DType::fp32;  // of rows
  Precision precision = Precision::fp32;
  Rounding lookup_rounding = Rounding::nearest;
  int64_t max_batch = 0;  // samples
  int64_t max_ids = 0;    // of one batch, over all tables; 0: one per table and sample
};

/// One array of the MLPs.
struct Parameter {
  std::string name;  // "bottom_0_weight", "top_2_bias"
  int64_t rows = 0;  // weight [out, in]: out; bias [out]: 1
  int64_t cols = 0;
  bool is_bias = false;
  int64_t offset = 0, stride = 0;  // in the flat buffers, in floats
};

class Model {
 public:
  /// Throws Error where the widths do not fit each other or the memory does not suffice.
  Model(Device& device, ModelConfig config);

  const ModelConfig& config() const { return config_; }
  EmbeddingStore& store() { return store_; }
  /// Initial values, a function of the seed alone: weights N(0, sqrt(2 / (in + out))), biases N(0, sqrt(1 / out)),
  /// tables as EmbeddingStore::initialize.
  void initialize(Queue& queue, uint64_t seed);

  // Training. A step is submitted and runs while the host makes ready the next; its batch is copied and its ids sorted
  // while the step before computes. kInFlight steps may be submitted and not collected.
  static constexpr int64_t kInFlight = 2;
  void submit(Queue& queue, const Batch& batch, const StepState& state);
  int64_t in_flight() const { return submitted_ - collected_; }
  /// Waits for the oldest submitted step and returns its loss. Throws Error where it failed.
  float collect(Queue& queue);
  /// Both, for one step.
  float train_step(Queue& queue, const Batch& batch, const StepState& state);
  /// The rows that the last submitted step touches, ascending, and their values now, in host memory.
  struct TouchedRows {
    std::vector<std::pair<int64_t, int64_t>> rows;  // (table, row)
    std::vector<float> values;                      // [rows.size(), dim]
  };
  TouchedRows touched_rows(Queue& queue);

  /// logits [batch.size], host memory.
  void predict(Queue& queue, const Batch& batch, float* logits);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// States that the optimizer of the MLPs keeps for each element, see element_state_names().
  int64_t states() const { return element_states(config_.dense_optimizer.kind); }
  // Host memory, [rows, cols] without padding. state: the optimizer's state of that number instead of the values.
  std::vector<float> read(Queue& queue, const Parameter& parameter, int64_t state = kValues);
  void write(Queue& queue, const Parameter& parameter, const std::vector<float>& values, int64_t state = kValues);
  static constexpr int64_t kValues = -1;

 private:
  struct Layer {
    int64_t in = 0, out = 0;           // in: with padding
    int64_t weight = 0, bias = 0;      // in the flat buffers
    Buffer outputs, output_gradients;  // [max_batch, out]
  };
  /// A batch on its way through the device.
  struct Input {
    HostBuffer host;
    Buffer device;                       // the same layout
    std::unique_ptr<DistinctRows> rows;  // found by the input queue
    std::unique_ptr<Event> ready;        // the batch is on the device
    std::unique_ptr<Event> done;         // the step no longer needs it
    Bags bags;
    HostBuffer loss;
    std::unique_ptr<Recording> recording;  // of a step
  };
  /// Offsets in an Input, in bytes.
  struct InputLayout {
    size_t state, numerical, labels, ids, offsets, bytes;
  };

  std::vector<Layer> make_layers(const std::string& name, int64_t in, const std::vector<int64_t>& widths);
  Input make_input();
  /// Copies a batch to the device on the input queue, which `queue` then waits for.
  Input& stage(Queue& queue, const Batch& batch, const StepState* state);
  /// Where an array's values, or its optimizer's states, are.
  float* place_of(const Parameter& parameter, int64_t state) const;
  Linear linear(const Layer& layer) const;
  Linear gradients(const Layer& layer) const;
  void queue_step(Queue& queue, const Input& input);
  Interaction look_up_for_training(Queue& queue, const Input& input);
  void forward(Queue& queue, const Input& input, const Interaction& vectors);
  void backward(Queue& queue, const Input& input, const Interaction& vectors);
  int64_t numerical_padded() const { return bottom_.front().in; }
  int64_t top_in_padded() const { return top_.front().in; }
  Matrix numerical(const Input& input) const;
  Matrix output(const Layer& layer, bool gradient) const;
  Matrix matrix(const Buffer& buffer, int64_t cols, int64_t stride) const;
  Interaction pooled() const;
  BagVectors bag_vectors(const Buffer& buffer) const;
  DType dtype() const { return activation_dtype(config_.precision); }

  Device& device_;
  ModelConfig config_;
  EmbeddingStore store_;
  std::unique_ptr<Queue> input_queue_;
  InputLayout layout_;
  Input inputs_[kInFlight];
  int64_t staged_ = 0, submitted_ = 0, collected_ = 0;
  int64_t vectors_ = 0;      // 1 + tables
  int64_t flat_floats_ = 0;  // of all MLP arrays
  std::vector<Parameter> parameters_;
  std::vector<Layer> bottom_, top_;
  Buffer weights_, gradients_;                   // [flat_floats]
  Buffer states_;                                // [states, flat_floats]
  Buffer rounded_weights_;                       // [flat_floats] in bf16, where that is what products read
  Buffer rows_;                                  // [max_batch * tables, dim] looked up: per bag or distinct ones
  Buffer row_gradients_;                         // the same shape, per bag
  Buffer interactions_, interaction_gradients_;  // [max_batch, top_in_padded]
  Buffer loss_;
  int64_t batch_ = 0;  // samples of the step being queued
};

}  // namespace dlrm
