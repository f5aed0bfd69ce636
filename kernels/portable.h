// Lets one piece of code compile for the CPU and, by nvcc, for the GPU. One of the two headers that know __CUDACC__.
#pragma once

#ifdef __CUDACC__
#define DLRM_HD __host__ __device__ inline
#else
#define DLRM_HD inline
#endif
