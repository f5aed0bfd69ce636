#include "dlrm/signals.h"

#include <csignal>

namespace dlrm {
namespace {

volatile std::sig_atomic_t received = 0;

void note(int signal) {
  received = signal;
}

}  // namespace

void install_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int stop_signal() {
  return received;
}

}  // namespace dlrm
