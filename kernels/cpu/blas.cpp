#include "kernels/cpu/blas.h"

#include <cblas.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace dlrm {

void use_fast_blas(char** argv) {
#ifdef __x86_64__
  const std::string_view core = openblas_get_corename();
  if (core != "Prescott" && core != "Generic") return;  // what it falls back to
  if (!__builtin_cpu_supports("avx2")) return;
  const char* better =
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? "SkylakeX" : "Haswell";
  if (std::getenv("OPENBLAS_CORETYPE") || setenv("OPENBLAS_CORETYPE", better, 0) != 0) return;  // done, or asked for
  execv("/proc/self/exe", argv);  // comes back only where it fails; then it is slow
#else
  (void)argv;
#endif
}

}  // namespace dlrm
