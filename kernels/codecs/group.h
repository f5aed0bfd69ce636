// A group of workers that encodes or decodes one row together: one CPU thread here, one warp on a GPU.
// Codecs are written once against this interface:
//   lane(), size()            which worker this is, of how many
//   max(v), sum(v), all(v)    over the group, known to every worker
//   exclusive_sum(v, total)   sum over the lanes before this one; total over all
//   set_bits(word, bits)      sets bits of a word in memory in which others may be setting theirs
//   sync()                    what the others wrote to memory is visible after it
#pragma once
#include <cstdint>

#include "kernels/portable.h"

namespace dlrm {

/// A group of one.
struct Solo {
  DLRM_HD int lane() const { return 0; }
  DLRM_HD static constexpr int size() { return 1; }
  DLRM_HD uint32_t max(uint32_t value) const { return value; }
  DLRM_HD int sum(int value) const { return value; }
  DLRM_HD bool all(bool value) const { return value; }
  DLRM_HD int exclusive_sum(int value, int& total) const {
    total = value;
    return 0;
  }
  DLRM_HD void set_bits(uint32_t* word, uint32_t bits) const { *word |= bits; }
  DLRM_HD void sync() const {}
};

}  // namespace dlrm
