// One target for libFuzzer (https://llvm.org/docs/LibFuzzer.html), named by DLRM_FUZZ_TARGET. See scripts/fuzz.
#include <cstdlib>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const dlrm::FuzzTarget& target : dlrm::kFuzzTargets)
    if (target.name == DLRM_FUZZ_TARGET) return dlrm::run_target(target, {data, size}), 0;
  std::abort();
}
