// The program as a user runs it: command lines, exit codes, signals, kill -9. DLRM_PROGRAM names the binary to test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/npy.h"
#include "dlrm/checkpoint.h"
#include "kernels/random.h"
#include "tests/criteo_rows.h"
#include "tests/run.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// The program, started; its output goes to a file.
class Program {
 public:
  Program(const TempDir& dir, const std::vector<std::string>& arguments, size_t file_size_limit = 0)
      : output_(dir / ("output_" + std::to_string(++count_))) {
    const char* set = std::getenv("DLRM_PROGRAM");
    std::vector<std::string> words = {set ? set : DLRM_PROGRAM_PATH};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    process_ = fork();
    if (process_ != 0) return;
    const int file = open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    if (file_size_limit > 0) {
      const rlimit limit{file_size_limit, file_size_limit};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Program() {
    if (running()) kill(SIGKILL), wait();
  }

  void kill(int signal) { ::kill(process_, signal); }
  bool running() {
    if (!ended_) ended_ = waitpid(process_, &status_, WNOHANG) == process_;
    return !ended_;
  }
  /// The exit code, or minus the signal that killed it.
  int wait() {
    if (!ended_) waitpid(process_, &status_, 0);
    ended_ = true;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }
  std::string output() const { return read_file(output_); }

 private:
  static inline int count_ = 0;
  std::string output_;
  pid_t process_;
  int status_ = 0;
  bool ended_ = false;
};

struct Result {
  int code;
  std::string output;
};

Result run(const TempDir& dir, const std::vector<std::string>& arguments) {
  Program program(dir, arguments);
  const int code = program.wait();
  return {code, program.output()};
}

#define EXPECT_FAILS(code_, result_, ...)                                                            \
  do {                                                                                               \
    const Result found_ = result_;                                                                   \
    EXPECT_EQ(found_.code, code_) << found_.output;                                                  \
    for (const std::string& part_ : std::vector<std::string>{__VA_ARGS__})                           \
      EXPECT_NE(found_.output.find(part_), std::string::npos) << part_ << " in:\n" << found_.output; \
  } while (false)

TEST(ProgramTest, EachCommandHasHelp) {
  const TempDir dir;
  for (const std::string command : {"generate", "preprocess", "train", "verify", "evaluate", "inspect", "export"}) {
    const Result help = run(dir, {command, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.output.find("dlrm " + command), std::string::npos) << help.output;
    EXPECT_NE(run(dir, {"--help"}).output.find(command), std::string::npos);
  }
  EXPECT_EQ(run(dir, {"--version"}).output.substr(0, 5), "dlrm ");
}

TEST(ProgramTest, WrongWordsNameTheNearestRightOne) {
  const TempDir dir;
  EXPECT_FAILS(2, run(dir, {"trian"}), "unknown command 'trian'", "Did you mean 'train'?");
  EXPECT_FAILS(2, run(dir, {"evaluate", "--chekpoint", "x"}), "Did you mean '--checkpoint'?");
  EXPECT_FAILS(2, run(dir, {"--versoin"}), "Did you mean '--version'?");
  EXPECT_FAILS(2, run(dir, {}), "dlrm --help");
  const std::string config = dir.file("bad.yaml", "model:\n  dimm: 4\n");
  EXPECT_FAILS(1, run(dir, {"train", config}), "bad.yaml:2: unknown key 'model.dimm'", "Did you mean 'model.dim'?");
  EXPECT_FAILS(1, run(dir, {"train", dir.file("good.yaml", ""), "--set", "train.step=5"}),
               "--set train.step=5: unknown key 'train.step'", "Did you mean 'train.steps'?");
}

TEST(ProgramTest, GenerateTrainVerifyEvaluateInspectExport) {
  const TempDir dir;
  const std::string data = dir / "data", out = dir / "run", yaml = DLRM_SOURCE_DIR "/configs/quickstart.yaml";
  ASSERT_EQ(run(dir, {"generate", "--output", data, "--rows", "20000"}).code, 0);
  const std::vector<std::string> sets = {"--set", "data.path=" + data, "train.output=" + out, "data.batch=256"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), sets.begin(), sets.end());
    return words;
  };
  const Result trained = run(dir, with({"train", yaml}));
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_NE(trained.output.find("18,000 samples"), std::string::npos) << trained.output;
  const Result verified = run(dir, with({"verify", yaml, "--steps", "20"}));
  EXPECT_EQ(verified.code, 0) << verified.output;
  EXPECT_NE(verified.output.find("identical bits: 20 losses"), std::string::npos) << verified.output;

  const std::string json = dir / "test.json", predictions = dir / "p.npy";
  ASSERT_EQ(
      run(dir, {"evaluate", "--checkpoint", out, "--data", data, "--json", json, "--predictions", predictions}).code,
      0);
  const nlohmann::json figures = nlohmann::json::parse(read_file(json));
  EXPECT_EQ(figures.at("samples"), 2000);
  EXPECT_GT(figures.at("auc").get<double>(), 0.6);
  EXPECT_GT(figures.at("log_loss").get<double>(), 0.1);
  EXPECT_EQ(read_npy(predictions).shape, std::vector<int64_t>{2000});
  EXPECT_FAILS(0, run(dir, {"inspect", "--checkpoint", out}), "cat_25.bin", "pfor", "1.143", "all", "exponent entropy",
               "ibp");
  EXPECT_FAILS(0, run(dir, {"export", "--checkpoint", out, "--format", "tf2", "--output", dir / "tf2"}),
               "wrote step 71");
  EXPECT_TRUE(fs::exists(dir / "tf2/feature_25_part0.npy"));
}

TEST(ProgramTest, AucIsNullWhereAClassIsAbsent) {
  const TempDir dir;
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += criteo_line("0", "a");
  ASSERT_EQ(run(dir, {"preprocess", "--output", dir / "data", dir.file("rows.tsv", rows)}).code, 0);
  const std::string config =
      dir.file("c.yaml", "data: {path: " + (dir / "data") + "}\ntrain: {output: " + (dir / "run") +
                             "}\nmodel: {dim: 8, bottom: [8], top: [1]}\n");
  ASSERT_EQ(run(dir, {"train", config}).code, 0);
  ASSERT_EQ(run(dir, {"evaluate", "--checkpoint", dir / "run", "--data", dir / "data", "--json", dir / "j"}).code, 0);
  EXPECT_TRUE(nlohmann::json::parse(read_file(dir / "j")).at("auc").is_null());
}

TEST(ProgramTest, RealRowsTrainAndEvaluate) {
  DLRM_SKIP_WITHOUT_SAMPLE();
  const TempDir dir;
  const std::string yaml = DLRM_SOURCE_DIR "/configs/quickstart.yaml";
  ASSERT_EQ(run(dir, {"preprocess", "--output", dir / "data", "--test-fraction", "0.2", criteo_sample()}).code, 0);
  const Result trained = run(
      dir, {"train", yaml, "--set", "data.path=" + (dir / "data"), "train.output=" + (dir / "run"), "data.batch=256"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  ASSERT_EQ(run(dir, {"evaluate", "--checkpoint", dir / "run", "--data", dir / "data", "--json", dir / "j"}).code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(dir / "j")).at("samples"), 2000);
}

TEST(ProgramTest, BadInputIsOneErrorAndExitCodeOne) {
  const TempDir dir;
  const auto preprocess = [&](const std::string& content) {
    return run(dir, {"preprocess", "--output", dir / "out", dir.file("rows", content)});
  };
  const std::string whole_gzip = gzip(criteo_line("0", "a"));
  EXPECT_FAILS(1, preprocess(criteo_line("0", "a", 38)), "dlrm: error: ", "rows: row 1 has 38 columns, expected 40");
  EXPECT_FAILS(1, preprocess(criteo_line("0", "zz")), "rows: row 1, column C1", "found 'zz'");
  EXPECT_FAILS(1, preprocess(criteo_line("2", "a")), "rows: row 1, column label: expected 0 or 1, found '2'");
  EXPECT_FAILS(1, preprocess(""), "rows: is empty");
  EXPECT_FAILS(1, preprocess(whole_gzip.substr(0, whole_gzip.size() - 3)), "rows: gzip data is cut short");
  EXPECT_FAILS(1, run(dir, {"evaluate", "--checkpoint", dir / "none", "--data", dir / "none"}),
               "none/feature_spec.yaml");
}

// Interrupted runs ----------------------------------------------------------------------------------------------------

/// A run of some hundred steps with a checkpoint every 20.
class InterruptedRunTest : public testing::Test {
 protected:
  InterruptedRunTest() {
    Config config = run_config(dir_, 8000, 50);
    config.train.checkpoint_every = 20;
    dir_.file("c.yaml", to_yaml(config));
  }

  std::vector<std::string> command(const std::string& output) const {
    return {"train", dir_ / "c.yaml", "--set", "train.output=" + (dir_ / output), "train.resume=true"};
  }

  /// Tables and MLPs of the newest checkpoint.
  std::string final_bytes(const std::string& output) const {
    const fs::path checkpoint = open_checkpoint(dir_ / output).path;
    std::string bytes = checkpoint.filename().string();
    for (const std::string part : {"dense", "tables"}) {
      std::vector<fs::path> files;
      for (const auto& entry : fs::directory_iterator(checkpoint / part)) files.push_back(entry.path());
      std::sort(files.begin(), files.end());
      for (const fs::path& file : files) bytes += read_file(file);
    }
    return bytes;
  }

  bool is_writing_a_checkpoint(const std::string& output) const {
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(dir_ / (output + "/checkpoints"), absent))
      if (entry.path().filename().string().starts_with(".partial_")) return true;
    return false;
  }

  TempDir dir_;
};

TEST_F(InterruptedRunTest, KilledTenTimesItEndsWithTheBitsOfAnUninterruptedRun) {
  ASSERT_EQ(run(dir_, command("whole")).code, 0);
  int killed = 0, killed_while_writing = 0;
  for (int trial = 0; trial < 10; ++trial) {
    Program program(dir_, command("killed"));
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(10 + philox(1, uint64_t(trial), 0).word[0] % 60);
    const bool in_a_checkpoint = trial % 2 == 1;
    while (program.running() &&
           (in_a_checkpoint ? !is_writing_a_checkpoint("killed") : std::chrono::steady_clock::now() < deadline))
      std::this_thread::sleep_for(100us);
    program.kill(SIGKILL);
    killed += program.wait() == -SIGKILL;
    killed_while_writing += is_writing_a_checkpoint("killed");
  }
  EXPECT_GE(killed, 8);
  EXPECT_GE(killed_while_writing, 2);
  ASSERT_EQ(run(dir_, command("killed")).code, 0);
  EXPECT_EQ(final_bytes("whole"), final_bytes("killed"));
}

TEST_F(InterruptedRunTest, SigtermWritesACheckpointThatResumes) {
  ASSERT_EQ(run(dir_, command("whole")).code, 0);
  Program program(dir_, command("stopped"));
  while (program.running() && !is_writing_a_checkpoint("stopped")) std::this_thread::sleep_for(100us);
  program.kill(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM) << program.output();
  EXPECT_NE(program.output().find("stopped by signal 15"), std::string::npos) << program.output();
  EXPECT_LT(open_checkpoint(dir_ / "stopped").step, 500);
  ASSERT_EQ(run(dir_, command("stopped")).code, 0);
  EXPECT_EQ(final_bytes("whole"), final_bytes("stopped"));
}

TEST_F(InterruptedRunTest, DiskFullDuringACheckpointLeavesEarlierOnesIntact) {
  std::vector<std::string> first = command("full");
  first.push_back("train.steps=30");
  ASSERT_EQ(run(dir_, first).code, 0);
  const std::string before = final_bytes("full");
  Program program(dir_, command("full"), 16384);  // a file size limit stands in for a full disk: the same failed write
  EXPECT_EQ(program.wait(), 1);
  EXPECT_NE(program.output().find("dlrm: error: checkpoint of step 40: "), std::string::npos) << program.output();
  EXPECT_NE(program.output().find("cannot write"), std::string::npos) << program.output();
  EXPECT_FALSE(is_writing_a_checkpoint("full"));
  EXPECT_EQ(final_bytes("full"), before);
  ASSERT_EQ(run(dir_, command("full")).code, 0);
}

}  // namespace
}  // namespace dlrm
