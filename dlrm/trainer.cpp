#include "dlrm/trainer.h"

#include <cmath>
#include <iostream>

#include "data/files.h"
#include "data/read_ahead.h"
#include "dlrm/about.h"
#include "dlrm/checkpoint.h"
#include "dlrm/progress.h"
#include "dlrm/schedule.h"
#include "dlrm/signals.h"
#include "kernels/parallel.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

OptimizerRule rule_of(const OptimizerConfig& config) {
  return {optimizer_by_name(config.name), float(config.eps)};
}

class Trainer {
 public:
  explicit Trainer(const Config& config)
      : config_(config),
        threads_(int(config.train.threads)),
        output_(config.train.output),
        data_(Dataset::open(config.data.path)),
        device_(make_device(config.train.device)),
        queue_(device_->make_queue()),
        model_(*device_, model_config(config, data_)),
        steps_(total_steps(config, data_.train())) {}

  TrainResult run() {
    start();
    Progress progress(output_ / "metrics.jsonl", first_step_, steps_, config_.train.log_every);
    progress.note(headline());
    ReadAhead batches(data_.train(), config_.data.batch, first_step_, steps_);
    int64_t step = first_step_;
    bool reached = false;
    while (!reached && stop_signal() == 0) {
      const Batch* batch = batches.next();
      if (!batch) break;
      const StepState state = step_state(config_, step);
      result_.last_loss = model_.train_step(*queue_, *batch, state);
      check_finite(step);
      ++step;
      progress.step(step, batch->size, result_.last_loss, learning_rate_factor(config_.train.schedule, step - 1));
      progress.pause([&] {
        if (due(step, config_.train.evaluate_every)) reached = evaluate_now(step, progress);
        if (due(step, config_.train.checkpoint_every)) save(step);
      });
    }
    result_.signal = step < steps_ && !reached ? stop_signal() : 0;
    result_.steps = step;
    save(step);
    if (result_.signal == 0 && evaluated_step_ != step) evaluate_now(step, progress);
    if (result_.signal != 0) result_.evaluation.reset();
    result_.samples = progress.samples();
    result_.samples_per_second = progress.samples_per_second();
    return result_;
  }

 private:
  bool due(int64_t step, int64_t every) const { return every > 0 && step % every == 0 && step < steps_; }

  /// Initial weights, or those of a checkpoint, and the run's directory.
  void start() {
    check(!config_.train.output.empty(), "train.output: expected a directory for the run");
    const fs::path newest = newest_checkpoint(output_);
    check(config_.train.resume || newest.empty(), output_.string(), ": holds a run already (", newest.string(),
          "). Hint: train.resume=true continues it; otherwise choose another train.output");
    fs::create_directories(output_ / "checkpoints");
    clean_checkpoints(output_ / "checkpoints", config_.train.keep_checkpoints);
    if (!newest.empty()) {
      const Checkpoint checkpoint = open_checkpoint(newest);
      check(checkpoint.seed == uint64_t(config_.train.seed), newest.string(),
            ": was trained with train.seed=", checkpoint.seed, ", this run has ", config_.train.seed);
      load_checkpoint(checkpoint, model_, *queue_, true);
      first_step_ = checkpoint.step;
      saved_ = newest;
    } else {
      model_.initialize(*queue_, config_.train.seed);
      if (!config_.train.init_from.empty())
        load_checkpoint(open_checkpoint(config_.train.init_from), model_, *queue_, false);
    }
    write_text(output_ / "config.yaml", to_yaml(config_));
    write_text(output_ / "environment.json", about_this_run(device_->name()));
  }

  std::string headline() const {
    const ModelConfig& model = model_.config();
    int64_t rows = 0;
    for (const TableConfig& table : model.tables) rows += table.rows;
    return text("training steps ", first_step_, " to ", steps_, " of ", config_.data.batch, " samples on ",
                device_->name(), ", ", thread_count(), " threads; ", model.tables.size(), " tables, ", rows,
                " rows, dim ", model.dim, ", codec ", config_.embedding.codec, "; run in ", output_.string());
  }

  void check_finite(int64_t step) const {
    if (std::isfinite(result_.last_loss)) return;
    fail("step ", step, ": the loss is ", result_.last_loss,
         ". Last whole checkpoint: ", saved_.empty() ? "none" : saved_.string(),
         ". Hint: a lower learning rate or a longer warm-up");
  }

  /// True when the target is reached.
  bool evaluate_now(int64_t step, Progress& progress) {
    result_.evaluation = evaluate(model_, *queue_, data_.test(), config_.data.batch);
    evaluated_step_ = step;
    progress.evaluation(step, result_.evaluation->metrics, result_.evaluation->seconds);
    const double target = config_.train.target_auc;
    return target > 0 && result_.evaluation->metrics.auc.value_or(0) >= target;
  }

  void save(int64_t step) {
    if (saved_ != output_ / "checkpoints" / text("step_", step)) {
      Checkpoint about;
      about.step = step;
      about.seed = config_.train.seed;
      about.numerical_transform = data_.numerical_transform();
      about.config = to_yaml(config_);
      saved_ = save_checkpoint(output_ / "checkpoints", about, model_, *queue_);
      clean_checkpoints(output_ / "checkpoints", config_.train.keep_checkpoints);
    }
    result_.checkpoint = saved_;
  }

  const Config& config_;
  ThreadLimit threads_;
  fs::path output_;
  Dataset data_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
  Model model_;
  int64_t steps_, first_step_ = 0, evaluated_step_ = -1;
  fs::path saved_;  // the newest checkpoint
  TrainResult result_;
};

}  // namespace

ModelConfig model_config(const Config& config, const Dataset& data) {
  check(config.model.precision != "bf16", "model.precision: bf16 is not built yet, expected fp32 or, on a GPU, tf32");
  ModelConfig model;
  model.numerical = data.numerical_features();
  for (const auto& table : data.tables())
    model.tables.push_back({table.name, table.cardinality, codec_by_name(config.embedding.codec)});
  model.dim = config.model.dim;
  model.bottom = config.model.bottom;
  model.top = config.model.top;
  model.dense_optimizer = rule_of(config.train.optimizer);
  model.table_optimizer = rule_of(config.embedding.optimizer);
  model.precision = config.model.precision == "tf32" ? Precision::tf32 : Precision::fp32;
  model.max_batch = config.data.batch;
  return model;
}

int64_t total_steps(const Config& config, const Split& split) {
  const int64_t per_epoch = (split.samples() + config.data.batch - 1) / config.data.batch;
  return config.train.steps > 0 ? config.train.steps : config.train.epochs * per_epoch;
}

StepState step_state(const Config& config, int64_t step) {
  const float factor = learning_rate_factor(config.train.schedule, step);
  return {step, float(config.train.optimizer.lr) * factor, float(config.embedding.optimizer.lr) * factor};
}

TrainResult train(const Config& config) {
  return Trainer(config).run();
}

}  // namespace dlrm
