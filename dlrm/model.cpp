#include "dlrm/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/parallel.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

constexpr int64_t kAlignFloats = 64;  // of each array in the flat buffers
// Row lengths are multiples of this, as in NVIDIA's models: tensor cores read 16 bytes at a time. The padding of inputs
// and weights is zero, and its gradients are.
constexpr int64_t kPadding = 8;
constexpr int64_t kSamplesPerPiece = 4096;  // copied by one thread

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
  check(config.dense_optimizer.kind == OptimizerKind::sgd || config.dense_optimizer.eps > 0,
        "train.optimizer.eps: expected a number above 0 for ", optimizer_name(config.dense_optimizer.kind));
  if (config.max_ids == 0) config.max_ids = config.max_batch * int64_t(config.tables.size());
  return config;
}

size_t bytes(int64_t floats) {
  return size_t(floats) * sizeof(float);
}

/// With the zeros between the rows.
Matrix padded(Matrix m) {
  m.cols = m.stride;
  return m;
}

}  // namespace

Model::Model(Device& device, ModelConfig config)
    : device_(device),
      config_(checked(std::move(config))),
      store_(device, {config_.tables, config_.dim, config_.table_optimizer, config_.max_ids, config_.table_dtype}),
      input_queue_(device.make_queue()) {
  check(device.supports(config_.precision), "model.precision: ", device.name(),
        " does not compute in it, expected fp32 or bf16");
  vectors_ = 1 + store_.tables();
  bottom_ = make_layers("bottom", config_.numerical, config_.bottom);
  top_ = make_layers("top", config_.dim + vectors_ * (vectors_ - 1) / 2, config_.top);
  weights_ = Buffer(device, bytes(flat_floats_));
  gradients_ = Buffer(device, bytes(flat_floats_));
  states_ = Buffer(device, bytes(states() * flat_floats_));
  if (dtype() == DType::bf16) rounded_weights_ = Buffer(device, size_t(flat_floats_) * sizeof(Bf16));

  const int64_t batch = config_.max_batch;
  const auto activations = [&](int64_t cols) { return Buffer(device, size_t(batch * cols) * size_of(dtype())); };
  rows_ = activations(store_.tables() * config_.dim);
  row_gradients_ = activations(store_.tables() * config_.dim);
  interactions_ = activations(top_in_padded());
  interaction_gradients_ = activations(top_in_padded());
  loss_ = Buffer(device, sizeof(float));

  size_t used = 0;
  const auto place = [&](size_t bytes) { return std::exchange(used, used + (bytes + 255) / 256 * 256); };
  layout_.state = place(sizeof(StepState));
  layout_.numerical = place(size_t(batch * numerical_padded()) * size_of(dtype()));
  layout_.labels = place(bytes(batch));
  layout_.ids = place(size_t(config_.max_ids) * sizeof(int64_t));
  layout_.offsets = place(size_t(store_.tables() * batch + 1) * sizeof(int64_t));
  layout_.bytes = used;
  for (Input& input : inputs_) input = make_input();
}

Model::Input Model::make_input() {
  Input input;
  input.host = HostBuffer(device_, layout_.bytes);
  input.device = Buffer(device_, layout_.bytes);
  input.rows = std::make_unique<DistinctRows>(device_, std::max<int64_t>(config_.max_ids, 1));
  input.ready = device_.make_event();
  input.done = device_.make_event();
  input.loss = HostBuffer(device_, sizeof(float));
  return input;
}

std::vector<Model::Layer> Model::make_layers(const std::string& name, int64_t in, const std::vector<int64_t>& widths) {
  std::vector<Layer> layers;
  for (int64_t out : widths) {
    check(out >= 1, "model.", name, ": expected widths of 1 or more, found ", out);
    Layer layer{round_up(in, kPadding), out};
    layer.weight = flat_floats_;
    layer.bias = layer.weight + round_up(out * layer.in, kAlignFloats);
    flat_floats_ = layer.bias + round_up(out, kAlignFloats);
    layer.outputs = Buffer(device_, bytes(config_.max_batch * round_up(out, kPadding)));
    layer.output_gradients = Buffer(device_, layer.outputs.bytes());
    const std::string prefix = text(name, "_", layers.size(), "_");
    parameters_.push_back({prefix + "weight", out, in, false, layer.weight, layer.in});
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
  device_.zero(queue, states_.data(), states_.bytes());
  store_.initialize(queue, seed);
}

float Model::train_step(Queue& queue, const Batch& batch, const StepState& state) {
  submit(queue, batch, state);
  return collect(queue);
}

void Model::submit(Queue& queue, const Batch& batch, const StepState& state) {
  check(in_flight() < kInFlight, "model: ", in_flight(), " steps are in flight already");
  const Range range(queue, "step");
  Input& input = stage(queue, batch, &state);
  if (!input.recording) input.recording = queue.make_recording();
  store_.begin_update(input.bags);
  if (input.bags.offsets) {  // the number of ids differs from batch to batch
    queue_step(queue, input);
  } else {
    queue.run(*input.recording, {batch_, store_.overflow_capacity()}, [&] { queue_step(queue, input); });
  }
  store_.end_update(queue);
  queue.record(*input.done);
  ++submitted_;
}

void Model::queue_step(Queue& queue, const Input& input) {
  const Interaction vectors = look_up_for_training(queue, input);
  forward(queue, input, vectors);
  const auto* labels = reinterpret_cast<const float*>(input.device.data() + layout_.labels);
  const auto* state = reinterpret_cast<const StepState*>(input.device.data() + layout_.state);
  device_.bce_with_logits(queue, output(top_.back(), false).row(0), labels, batch_, batch_,
                          output(top_.back(), true).row(0), loss_.as<float>());
  device_.copy(queue, input.loss.data(), loss_.data(), sizeof(float));
  backward(queue, input, vectors);
  const Range range(queue, "update");
  store_.queue_update(queue, input.bags, *input.rows, bag_vectors(row_gradients_), state);
  device_.dense_update(queue, weights_.as<float>(), gradients_.as<float>(), states_.as<float>(), flat_floats_,
                       config_.dense_optimizer, state, rounded_weights_.as<Bf16>());
}

/// Where every bag holds one id, rows are decoded once each and found by index; a batch of Criteo names a sixth as many
/// rows as it has ids.
Interaction Model::look_up_for_training(Queue& queue, const Input& input) {
  const Range range(queue, "lookup");
  Interaction vectors = pooled();
  if (input.bags.offsets) {
    store_.lookup(queue, input.bags, bag_vectors(rows_), config_.lookup_rounding);
  } else {
    vectors.rest = {rows_.data(), batch_ * store_.tables(), config_.dim, config_.dim, dtype()};
    vectors.index = input.rows->view().inverse;
    store_.lookup(queue, input.bags, *input.rows, vectors.rest, config_.lookup_rounding);
  }
  return vectors;
}

float Model::collect(Queue& queue) {
  check(in_flight() > 0, "model: no step is in flight");
  Input& input = inputs_[(staged_ - in_flight()) % kInFlight];
  ++collected_;
  input.done->wait();
  input_queue_->check_faults();
  queue.check_faults();
  return *input.loss.as<float>();
}

Model::TouchedRows Model::touched_rows(Queue& queue) {
  const Input& input = inputs_[(staged_ - 1) % kInFlight];
  TouchedRows touched;
  touched.rows = store_.list(queue, *input.rows);
  touched.values.resize(touched.rows.size() * size_t(config_.dim));
  const Buffer values(device_, bytes(input.bags.nnz * config_.dim));
  store_.lookup(queue, input.bags, *input.rows, {values.data(), input.bags.nnz, config_.dim, config_.dim});
  device_.copy(queue, touched.values.data(), values.data(), touched.values.size() * sizeof(float));
  queue.synchronize();
  return touched;
}

void Model::predict(Queue& queue, const Batch& batch, float* logits) {
  check(in_flight() == 0, "model: ", in_flight(), " steps of training are in flight");
  Input& input = stage(queue, batch, nullptr);
  store_.lookup(queue, input.bags, bag_vectors(rows_), config_.lookup_rounding);
  forward(queue, input, pooled());
  device_.copy(queue, logits, top_.back().outputs.data(), bytes(batch_));
  queue.record(*input.done);
  queue.synchronize();
}

Model::Input& Model::stage(Queue& queue, const Batch& batch, const StepState* state) {
  const Range range(*input_queue_, "input");
  check(batch.size <= config_.max_batch && int64_t(batch.ids.size()) <= config_.max_ids, "model: a batch of ",
        batch.size, " samples and ", batch.ids.size(), " ids, expected at most ", config_.max_batch, " and ",
        config_.max_ids);
  const size_t bags = size_t(batch.size * store_.tables());
  check(batch.offsets.empty() ? batch.ids.size() == bags : batch.offsets.size() == bags + 1, "model: a batch of ",
        batch.size, " samples with ", batch.ids.size(), " ids and ", batch.offsets.size(), " offsets");
  Input& input = inputs_[staged_++ % kInFlight];
  input.ready->wait();  // the copy before from this host memory
  batch_ = batch.size;
  std::byte* const host = input.host.data();
  if (state) std::memcpy(host + layout_.state, state, sizeof *state);
  with_dtype(dtype(), [&]<class T>(T) {
    T* const numerical = reinterpret_cast<T*>(host + layout_.numerical);
    parallel_for(batch_, kSamplesPerPiece, [&](int64_t begin, int64_t end) {
      for (int64_t sample = begin; sample < end; ++sample) {
        const float* from = &batch.numerical[size_t(sample * config_.numerical)];
        T* const to = numerical + sample * numerical_padded();
        std::fill(std::transform(from, from + config_.numerical, to, rounded<T>), to + numerical_padded(), T{});
      }
    });
  });
  const auto place = [&](size_t offset, const auto& values) {
    parallel_for(int64_t(values.size()), kSamplesPerPiece, [&](int64_t begin, int64_t end) {
      const size_t size = sizeof values[0];
      std::memcpy(host + offset + size_t(begin) * size, &values[size_t(begin)], size_t(end - begin) * size);
    });
  };
  place(layout_.labels, batch.labels);
  place(layout_.ids, batch.ids);
  place(layout_.offsets, batch.offsets);

  input_queue_->wait(*input.done);
  const auto send = [&](size_t offset, size_t bytes) {
    device_.copy(*input_queue_, input.device.data() + offset, host + offset, bytes);
  };
  send(layout_.state, sizeof(StepState));
  send(layout_.numerical, size_t(batch_ * numerical_padded()) * size_of(dtype()));
  send(layout_.labels, bytes(batch_));
  send(layout_.ids, batch.ids.size() * sizeof(int64_t));
  send(layout_.offsets, batch.offsets.size() * sizeof(int64_t));
  const auto* ids = reinterpret_cast<const int64_t*>(input.device.data() + layout_.ids);
  const auto* offsets = reinterpret_cast<const int64_t*>(input.device.data() + layout_.offsets);
  input.bags = {ids, batch.offsets.empty() ? nullptr : offsets, store_.tables(), batch_, int64_t(batch.ids.size())};
  if (state) store_.find_distinct(*input_queue_, input.bags, *input.rows);
  input_queue_->record(*input.ready);
  queue.wait(*input.ready);
  return input;
}

void Model::forward(Queue& queue, const Input& input, const Interaction& vectors) {
  const Range range(queue, "forward");
  Matrix x = numerical(input);
  for (const Layer& layer : bottom_) {
    device_.linear(queue, x, linear(layer), true, output(layer, false), config_.precision);
    x = padded(output(layer, false));
  }
  x = matrix(interactions_, top_in_padded(), top_in_padded());
  device_.interact(queue, vectors, x, config_.precision);
  for (const Layer& layer : top_) {
    device_.linear(queue, x, linear(layer), &layer != &top_.back(), output(layer, false), config_.precision);
    x = padded(output(layer, false));
  }
}

void Model::backward(Queue& queue, const Input& input, const Interaction& vectors) {
  const Range range(queue, "backward");
  for (size_t i = top_.size(); i-- > 0;) {
    const Matrix x =
        i > 0 ? padded(output(top_[i - 1], false)) : matrix(interactions_, top_in_padded(), top_in_padded());
    const Matrix dx =
        i > 0 ? padded(output(top_[i - 1], true)) : matrix(interaction_gradients_, top_in_padded(), top_in_padded());
    device_.linear_backward(queue, x, linear(top_[i]), i + 1 < top_.size(), output(top_[i], false),
                            output(top_[i], true), gradients(top_[i]), dx, config_.precision);
  }
  const int64_t width = store_.tables() * config_.dim;
  device_.interact_backward(queue, vectors, matrix(interaction_gradients_, top_in_padded(), top_in_padded()),
                            output(bottom_.back(), true), matrix(row_gradients_, width, width), config_.precision);
  for (size_t i = bottom_.size(); i-- > 0;) {
    device_.linear_backward(queue, i > 0 ? padded(output(bottom_[i - 1], false)) : numerical(input), linear(bottom_[i]),
                            true, output(bottom_[i], false), output(bottom_[i], true), gradients(bottom_[i]),
                            i > 0 ? padded(output(bottom_[i - 1], true)) : Matrix{}, config_.precision);
  }
}

Linear Model::linear(const Layer& layer) const {
  const auto of = [&](auto* base) -> Linear {
    return {{base + layer.weight, layer.out, layer.in, layer.in, dtype()}, base + layer.bias};
  };
  return dtype() == DType::bf16 ? of(rounded_weights_.as<Bf16>()) : of(weights_.as<float>());
}

Linear Model::gradients(const Layer& layer) const {
  float* base = gradients_.as<float>();
  return {{base + layer.weight, layer.out, layer.in, layer.in}, base + layer.bias};
}

Matrix Model::numerical(const Input& input) const {
  return {input.device.data() + layout_.numerical, batch_, numerical_padded(), numerical_padded(), dtype()};
}

/// Logits are consecutive, and fp32.
Matrix Model::output(const Layer& layer, bool gradient) const {
  const Buffer& buffer = gradient ? layer.output_gradients : layer.outputs;
  if (&layer == &top_.back()) return {buffer.data(), batch_, 1, 1};
  return matrix(buffer, layer.out, round_up(layer.out, kPadding));
}

Matrix Model::matrix(const Buffer& buffer, int64_t cols, int64_t stride) const {
  return {buffer.data(), batch_, cols, stride, dtype()};
}

/// Each bag's vector at its place in its sample.
Interaction Model::pooled() const {
  const int64_t width = store_.tables() * config_.dim;
  return {vectors_, output(bottom_.back(), false), matrix(rows_, width, width)};
}

BagVectors Model::bag_vectors(const Buffer& buffer) const {
  return {buffer.data(), store_.tables() * config_.dim, dtype()};
}

float* Model::place_of(const Parameter& parameter, int64_t state) const {
  check(state >= kValues && state < states(), parameter.name, ": optimizer state ", state, ", it has ", states());
  float* base = state == kValues ? weights_.as<float>() : states_.as<float>() + state * flat_floats_;
  return base + parameter.offset;
}

std::vector<float> Model::read(Queue& queue, const Parameter& parameter, int64_t state) {
  const float* from = place_of(parameter, state);
  std::vector<float> values(size_t(parameter.rows * parameter.cols));
  for (int64_t r = 0; r < parameter.rows; ++r)
    device_.copy(queue, &values[size_t(r * parameter.cols)], from + r * parameter.stride, bytes(parameter.cols));
  queue.synchronize();
  return values;
}

void Model::write(Queue& queue, const Parameter& parameter, const std::vector<float>& values, int64_t state) {
  check(int64_t(values.size()) == parameter.rows * parameter.cols, parameter.name, ": ", values.size(),
        " values, expected ", parameter.rows, " x ", parameter.cols);
  float* to = place_of(parameter, state);
  for (int64_t r = 0; r < parameter.rows; ++r)
    device_.copy(queue, to + r * parameter.stride, &values[size_t(r * parameter.cols)], bytes(parameter.cols));
  std::vector<Bf16> rounded(values.size());
  if (rounded_weights_.data() && state == kValues) {
    std::transform(values.begin(), values.end(), rounded.begin(), to_bf16);
    Bf16* rounded_to = rounded_weights_.as<Bf16>() + parameter.offset;
    for (int64_t r = 0; r < parameter.rows; ++r)
      device_.copy(queue, rounded_to + r * parameter.stride, &rounded[size_t(r * parameter.cols)],
                   size_t(parameter.cols) * sizeof(Bf16));
  }
  queue.synchronize();
}

}  // namespace dlrm
