// SIGINT and SIGTERM ask a run to stop after its step; a second one ends it at once.
#pragma once

namespace dlrm {

void install_stop_signals();
/// The signal that asked to stop, or 0.
int stop_signal();

}  // namespace dlrm
