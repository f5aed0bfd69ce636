#include "dlrm/trainer.h"

#include <cmath>
#include <deque>
#include <iostream>

#include "data/files.h"
#include "data/read_ahead.h"
#include "dlrm/about.h"
#include "dlrm/checkpoint.h"
#include "dlrm/progress.h"
#include "dlrm/schedule.h"
#include "dlrm/signals.h"
#include "dlrm/weights.h"
#include "kernels/parallel.h"
#include "kernels/random.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

OptimizerRule rule_of(const OptimizerConfig& config) {
  return {optimizer_by_name(config.name), float(config.eps), float(config.beta1), float(config.beta2)};
}

/// codec "auto": chosen by what a table holds.
TableConfig table_config(const std::string& name, int64_t rows, const std::string& codec) {
  if (codec == "auto") return {name, rows, CodecId::pfor, true};
  return {name, rows, codec_by_name(codec)};
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
    int64_t submitted = first_step_;
    collected_ = first_step_;
    bool reached = false;
    while (!reached && stop_signal() == 0) {
      const Batch* batch = batches.next();
      if (!batch) break;
      model_.submit(*queue_, *batch, step_state(config_, submitted++));
      samples_in_flight_.push_back(batch->size);
      const bool evaluation_due = due(submitted, config_.train.evaluate_every),
                 checkpoint_due = due(submitted, config_.train.checkpoint_every);
      const bool pause = evaluation_due || checkpoint_due;
      collect_steps(progress, pause ? 0 : Model::kInFlight - 1);
      if (!pause) continue;
      progress.pause([&] {
        if (evaluation_due) reached = evaluate_now(submitted, progress);
        if (checkpoint_due) save(submitted);
      });
    }
    collect_steps(progress, 0);
    result_.signal = submitted < steps_ && !reached ? stop_signal() : 0;
    result_.steps = submitted;
    save(submitted);
    if (result_.signal == 0 && evaluated_step_ != submitted) evaluate_now(submitted, progress);
    if (result_.signal != 0) result_.evaluation.reset();
    result_.samples = progress.samples();
    result_.samples_per_second = progress.samples_per_second();
    return result_;
  }

 private:
  bool due(int64_t step, int64_t every) const { return every > 0 && step % every == 0 && step < steps_; }

  /// Waits until no more than `most` steps are in flight.
  void collect_steps(Progress& progress, int64_t most) {
    while (model_.in_flight() > most) {
      result_.last_loss = model_.collect(*queue_);
      check_finite(collected_);
      const double factor = learning_rate_factor(config_.train.schedule, collected_);
      progress.step(++collected_, samples_in_flight_.front(), result_.last_loss, factor);
      samples_in_flight_.pop_front();
    }
  }

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
      if (!config_.train.init_from.empty()) {
        const Weights weights = open_weights(config_.train.init_from, {model_.config().numerical});
        if (!weights.own) std::cout << weights.path.string() << ": " << weights.layout << std::endl;
        load_weights(weights, model_, *queue_);
      }
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
                " rows of ", config_.embedding.dtype, ", dim ", model.dim, ", codec ", config_.embedding.codec,
                "; run in ", output_.string());
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
  int64_t steps_, first_step_ = 0, collected_ = 0, evaluated_step_ = -1;
  std::deque<int64_t> samples_in_flight_;  // of each step
  fs::path saved_;                         // the newest checkpoint
  TrainResult result_;
};

}  // namespace

ModelConfig model_config(const Config& config, const Dataset& data) {
  ModelConfig model;
  model.numerical = data.numerical_features();
  for (const auto& table : data.tables())
    model.tables.push_back(table_config(table.name, table.cardinality, config.embedding.codec));
  model.dim = config.model.dim;
  model.bottom = config.model.bottom;
  model.top = config.model.top;
  model.dense_optimizer = rule_of(config.train.optimizer);
  model.table_optimizer = rule_of(config.embedding.optimizer);
  model.table_dtype = dtype_by_name(config.embedding.dtype);
  model.precision = precision_by_name(config.model.precision);
  check(config.embedding.lookup_rounding == "nearest" || model.precision == Precision::bf16,
        "embedding.lookup_rounding: truncate is for model.precision bf16, found ", config.model.precision);
  model.lookup_rounding = config.embedding.lookup_rounding == "truncate" ? Rounding::truncate : Rounding::nearest;
  model.max_batch = config.data.batch;
  return model;
}

int64_t total_steps(const Config& config, const Split& split) {
  const int64_t per_epoch = (split.samples() + config.data.batch - 1) / config.data.batch;
  return config.train.steps > 0 ? config.train.steps : config.train.epochs * per_epoch;
}

StepState step_state(const Config& config, int64_t step) {
  const float factor = learning_rate_factor(config.train.schedule, step);
  return {step,
          float(config.train.optimizer.lr) * factor,
          float(config.embedding.optimizer.lr) * factor,
          adam_correction(rule_of(config.train.optimizer), step),
          adam_correction(rule_of(config.embedding.optimizer), step),
          rounding_key(config.train.seed, step)};
}

TrainResult train(const Config& config) {
  return Trainer(config).run();
}

}  // namespace dlrm
