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
  Precision precision = Precision::fp32;
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

  /// Copies a batch to the device, for step().
  void load(Queue& queue, const Batch& batch);
  /// One step of training on the loaded batch. Queued.
  void step(Queue& queue, const StepState& state);
  /// Both. Returns the loss when the step has run.
  float train_step(Queue& queue, const Batch& batch, const StepState& state);
  /// logits [batch.size], host memory.
  void predict(Queue& queue, const Batch& batch, float* logits);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool has_sums() const { return config_.dense_optimizer.kind == OptimizerKind::adagrad; }
  // Host memory, [rows, cols] without padding. `sums`: the optimizer's sums of squares instead of the values.
  std::vector<float> read(Queue& queue, const Parameter& parameter, bool sums = false);
  void write(Queue& queue, const Parameter& parameter, const std::vector<float>& values, bool sums = false);

 private:
  struct Layer {
    int64_t in = 0, out = 0;
    int64_t weight = 0, bias = 0, stride = 0;  // in the flat buffers
    Buffer outputs, output_gradients;          // [max_batch, out]; none for the last bottom layer
  };

  std::vector<Layer> make_layers(const std::string& name, int64_t in, const std::vector<int64_t>& widths);
  Linear linear(const Layer& layer, const Buffer& flat) const;
  void forward(Queue& queue);
  void backward(Queue& queue);
  Matrix bottom_output(size_t layer, bool gradient) const;
  Matrix top_output(size_t layer, bool gradient) const;
  Matrix numerical() const { return {numerical_.as<float>(), batch_, config_.numerical, config_.numerical}; }
  Matrix vectors(const Buffer& buffer) const;
  Matrix interactions(const Buffer& buffer, int64_t cols) const;
  BagVectors bag_vectors(const Buffer& buffer) const;

  Device& device_;
  ModelConfig config_;
  EmbeddingStore store_;
  int64_t vectors_ = 0;        // 1 + tables
  int64_t top_in_ = 0;         // dim + pairs
  int64_t top_in_padded_ = 0;  // to a multiple of 8, as NVIDIA's models; the padding is fed zeros
  int64_t flat_floats_ = 0;    // of all MLP arrays
  std::vector<Parameter> parameters_;
  std::vector<Layer> bottom_, top_;
  Buffer weights_, gradients_, sums_;            // [flat_floats]
  Buffer vectors_buffer_, vector_gradients_;     // [max_batch, vectors * dim]
  Buffer interactions_, interaction_gradients_;  // [max_batch, top_in_padded]
  Buffer numerical_, labels_, ids_, offsets_;    // the batch in device memory
  Buffer loss_, state_;
  int64_t batch_ = 0;  // samples of the batch in device memory
  Bags bags_;
};

}  // namespace dlrm
