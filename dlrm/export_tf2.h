// Writes a checkpoint in the flat .npy layout of NVIDIA's TensorFlow 2 DLRM of July 2022 (the NGC item 22.06_tf32):
//   bottom_mlp_layer_I_kernel_part0.npy   [in, out], in of the first layers padded with zero rows to a multiple of 8
//   bottom_mlp_layer_I_bias_part0.npy     [out]            (top_mlp_layer_I_... likewise)
//   feature_T_part0.npy                   [rows, dim], tables in natural order
#pragma once
#include <filesystem>

#include "dlrm/checkpoint.h"

namespace dlrm {

/// Makes `output`. Throws Error where it exists.
void export_tf2(const Checkpoint& checkpoint, const std::filesystem::path& output);

}  // namespace dlrm
