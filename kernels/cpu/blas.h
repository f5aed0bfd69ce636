// What a program does about the BLAS before anything else.
#pragma once

namespace dlrm {

/// OpenBLAS chooses its kernels for the CPU when it is loaded, and takes a CPU newer than itself for one without AVX:
/// version 0.3.21 has a quarter of Emerald Rapids' speed. Where that happened, starts the program again with
/// OPENBLAS_CORETYPE set to what the CPU has. Call it first in main.
void use_fast_blas(char** argv);

}  // namespace dlrm
