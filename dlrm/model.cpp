#include "dlrm/model.h"

#include <cmath>

#include "kernels/random.h"

namespace dlrm {
namespace {

constexpr int64_t kAlignFloats = 64;  // of each array in the flat buffers

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

ModelConfig checked(ModelConfig config) {
  check(config.numerical >= 1, "model: expected 1 numerical feature or more, found ", config.numerical);
  check(config.max_batch >= 1, "model: expected a batch of 1 or more, found ", config.max_batch);
  check(!config.bottom.empty() && config.bottom.back() == config.dim, "model.bottom: expected to end in model.dim (",
        config.dim, "), found ", config.bottom.empty() ? 0 : config.bottom.back());
  check(!config.top.empty() && config.top.back() == 1, "model.top: expected to end in 1, found ",
        config.top.empty() ? 0 : config.top.back());
  if (config.max_ids == 0) config.max_ids = config.max_batch * int64_t(config.tables.size());
  return config;
}

size_t bytes(int64_t floats) {
  return size_t(floats) * sizeof(float);
}

}  // namespace

Model::Model(Device& device, ModelConfig config)
    : device_(device),
      config_(checked(std::move(config))),
      store_(device, {config_.tables, config_.dim, config_.table_optimizer, config_.max_ids}) {
  check(device.supports(config_.precision), "model.precision: ", device.name(),
        " does not compute in it, expected fp32");
  vectors_ = 1 + store_.tables();
  top_in_ = config_.dim + vectors_ * (vectors_ - 1) / 2;
  top_in_padded_ = round_up(top_in_, 8);
  bottom_ = make_layers("bottom", config_.numerical, config_.bottom);
  top_ = make_layers("top", top_in_, config_.top);
  weights_ = Buffer(device, bytes(flat_floats_));
  gradients_ = Buffer(device, bytes(flat_floats_));
  if (has_sums()) sums_ = Buffer(device, bytes(flat_floats_));

  const int64_t batch = config_.max_batch;
  bottom_.back().outputs = Buffer();  // the last bottom layer writes into the vectors
  bottom_.back().output_gradients = Buffer();
  vectors_buffer_ = Buffer(device, bytes(batch * vectors_ * config_.dim));
  vector_gradients_ = Buffer(device, bytes(batch * vectors_ * config_.dim));
  interactions_ = Buffer(device, bytes(batch * top_in_padded_));
  interaction_gradients_ = Buffer(device, bytes(batch * top_in_padded_));
  numerical_ = Buffer(device, bytes(batch * config_.numerical));
  labels_ = Buffer(device, bytes(batch));
  ids_ = Buffer(device, size_t(config_.max_ids) * sizeof(int64_t));
  offsets_ = Buffer(device, size_t(store_.tables() * batch + 1) * sizeof(int64_t));
  loss_ = Buffer(device, sizeof(float));
  state_ = Buffer(device, sizeof(StepState));
}

std::vector<Model::Layer> Model::make_layers(const std::string& name, int64_t in, const std::vector<int64_t>& widths) {
  std::vector<Layer> layers;
  for (int64_t out : widths) {
    check(out >= 1, "model.", name, ": expected widths of 1 or more, found ", out);
    Layer layer{in, out};
    layer.stride = round_up(in, 8);
    layer.weight = flat_floats_;
    layer.bias = layer.weight + round_up(out * layer.stride, kAlignFloats);
    flat_floats_ = layer.bias + round_up(out, kAlignFloats);
    layer.outputs = Buffer(device_, bytes(config_.max_batch * out));
    layer.output_gradients = Buffer(device_, bytes(config_.max_batch * out));
    const std::string prefix = text(name, "_", layers.size(), "_");
    parameters_.push_back({prefix + "weight", out, in, false, layer.weight, layer.stride});
    parameters_.push_back({prefix + "bias", 1, out, true, layer.bias, out});
    layers.push_back(std::move(layer));
    in = out;
  }
  return layers;
}

void Model::initialize(Queue& queue, uint64_t seed) {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const Parameter& parameter = parameters_[p];
    const double deviation = parameter.is_bias ? std::sqrt(1.0 / double(parameter.cols))
                                               : std::sqrt(2.0 / double(parameter.rows + parameter.cols));
    std::vector<float> values(size_t(parameter.rows * parameter.cols));
    for (size_t i = 0; i < values.size(); ++i) {
      // Tables count up from 0 in the upper half of the second counter, MLP arrays down from the top.
      const Random4 random = philox(seed, i, ~uint64_t(p) << 32);
      values[i] = float(deviation * normal_double(random.word[0], random.word[1]));
    }
    write(queue, parameter, values);
  }
  if (has_sums()) device_.zero(queue, sums_.data(), sums_.bytes());
  store_.initialize(queue, seed);
}

float Model::train_step(Queue& queue, const Batch& batch, const StepState& state) {
  load(queue, batch);
  step(queue, state);
  float loss = 0;
  device_.copy(queue, &loss, loss_.data(), sizeof loss);
  queue.synchronize();
  return loss;
}

void Model::step(Queue& queue, const StepState& state) {
  device_.copy(queue, state_.data(), &state, sizeof state);
  forward(queue);
  const Matrix logits = top_output(top_.size() - 1, false), dlogits = top_output(top_.size() - 1, true);
  device_.bce_with_logits(queue, logits.data, labels_.as<float>(), batch_, batch_, dlogits.data, loss_.as<float>());
  backward(queue);
  store_.update(queue, bags_, bag_vectors(vector_gradients_), state_.as<StepState>());
  device_.dense_update(queue, weights_.as<float>(), gradients_.as<float>(), sums_.as<float>(), flat_floats_,
                       config_.dense_optimizer, state_.as<StepState>());
}

void Model::predict(Queue& queue, const Batch& batch, float* logits) {
  load(queue, batch);
  forward(queue);
  device_.copy(queue, logits, top_.back().outputs.data(), bytes(batch_));
  queue.synchronize();
}

void Model::load(Queue& queue, const Batch& batch) {
  check(batch.size <= config_.max_batch && int64_t(batch.ids.size()) <= config_.max_ids, "model: a batch of ",
        batch.size, " samples and ", batch.ids.size(), " ids, expected at most ", config_.max_batch, " and ",
        config_.max_ids);
  const size_t bags = size_t(batch.size * store_.tables());
  check(batch.offsets.empty() ? batch.ids.size() == bags : batch.offsets.size() == bags + 1, "model: a batch of ",
        batch.size, " samples with ", batch.ids.size(), " ids and ", batch.offsets.size(), " offsets");
  batch_ = batch.size;
  device_.copy(queue, numerical_.data(), batch.numerical.data(), bytes(batch_ * config_.numerical));
  device_.copy(queue, labels_.data(), batch.labels.data(), bytes(batch_));
  device_.copy(queue, ids_.data(), batch.ids.data(), batch.ids.size() * sizeof(int64_t));
  device_.copy(queue, offsets_.data(), batch.offsets.data(), batch.offsets.size() * sizeof(int64_t));
  bags_ = {ids_.as<int64_t>(), batch.offsets.empty() ? nullptr : offsets_.as<int64_t>(), store_.tables(), batch_,
           int64_t(batch.ids.size())};
}

void Model::forward(Queue& queue) {
  store_.lookup(queue, bags_, bag_vectors(vectors_buffer_));
  Matrix x = numerical();
  for (size_t i = 0; i < bottom_.size(); ++i) {
    device_.linear(queue, x, linear(bottom_[i], weights_), true, bottom_output(i, false), config_.precision);
    x = bottom_output(i, false);
  }
  device_.interact(queue, vectors(vectors_buffer_), vectors_, interactions(interactions_, top_in_padded_));
  x = interactions(interactions_, top_in_);
  for (size_t i = 0; i < top_.size(); ++i) {
    device_.linear(queue, x, linear(top_[i], weights_), i + 1 < top_.size(), top_output(i, false), config_.precision);
    x = top_output(i, false);
  }
}

void Model::backward(Queue& queue) {
  for (size_t i = top_.size(); i-- > 0;) {
    const Matrix x = i > 0 ? top_output(i - 1, false) : interactions(interactions_, top_in_);
    const Matrix dx = i > 0 ? top_output(i - 1, true) : interactions(interaction_gradients_, top_in_);
    device_.linear_backward(queue, x, linear(top_[i], weights_), i + 1 < top_.size(), top_output(i, false),
                            top_output(i, true), linear(top_[i], gradients_), dx, config_.precision);
  }
  device_.interact_backward(queue, vectors(vectors_buffer_), vectors_,
                            interactions(interaction_gradients_, top_in_padded_), vectors(vector_gradients_));
  for (size_t i = bottom_.size(); i-- > 0;) {
    const Matrix x = i > 0 ? bottom_output(i - 1, false) : numerical();
    device_.linear_backward(queue, x, linear(bottom_[i], weights_), true, bottom_output(i, false),
                            bottom_output(i, true), linear(bottom_[i], gradients_),
                            i > 0 ? bottom_output(i - 1, true) : Matrix{}, config_.precision);
  }
}

Linear Model::linear(const Layer& layer, const Buffer& flat) const {
  float* base = flat.as<float>();
  return {{base + layer.weight, layer.out, layer.in, layer.stride}, base + layer.bias};
}

Matrix Model::bottom_output(size_t layer, bool gradient) const {
  if (layer + 1 == bottom_.size()) {
    Matrix m = vectors(gradient ? vector_gradients_ : vectors_buffer_);
    m.cols = config_.dim;
    return m;
  }
  const Layer& l = bottom_[layer];
  return {(gradient ? l.output_gradients : l.outputs).as<float>(), batch_, l.out, l.out};
}

Matrix Model::top_output(size_t layer, bool gradient) const {
  const Layer& l = top_[layer];
  return {(gradient ? l.output_gradients : l.outputs).as<float>(), batch_, l.out, l.out};
}

Matrix Model::vectors(const Buffer& buffer) const {
  const int64_t width = vectors_ * config_.dim;
  return {buffer.as<float>(), batch_, width, width};
}

Matrix Model::interactions(const Buffer& buffer, int64_t cols) const {
  return {buffer.as<float>(), batch_, cols, top_in_padded_};
}

BagVectors Model::bag_vectors(const Buffer& buffer) const {
  return {buffer.as<float>() + config_.dim, vectors_ * config_.dim};
}

std::vector<float> Model::read(Queue& queue, const Parameter& parameter, bool sums) {
  const float* from = (sums ? sums_ : weights_).as<float>() + parameter.offset;
  std::vector<float> values(size_t(parameter.rows * parameter.cols));
  for (int64_t r = 0; r < parameter.rows; ++r)
    device_.copy(queue, &values[size_t(r * parameter.cols)], from + r * parameter.stride, bytes(parameter.cols));
  queue.synchronize();
  return values;
}

void Model::write(Queue& queue, const Parameter& parameter, const std::vector<float>& values, bool sums) {
  check(int64_t(values.size()) == parameter.rows * parameter.cols, parameter.name, ": ", values.size(),
        " values, expected ", parameter.rows, " x ", parameter.cols);
  float* to = (sums ? sums_ : weights_).as<float>() + parameter.offset;
  for (int64_t r = 0; r < parameter.rows; ++r)
    device_.copy(queue, to + r * parameter.stride, &values[size_t(r * parameter.cols)], bytes(parameter.cols));
  queue.synchronize();
}

}  // namespace dlrm
