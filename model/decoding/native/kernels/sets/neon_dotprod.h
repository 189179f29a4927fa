// NEON with dot product (ARMv8.2): one instruction multiplies 4 groups of four levels with four weights each, and adds them up
// in 32 bits.

#pragma once

#include "neon_vectors.h"

namespace {

constexpr int kGroup = 4;

// The four levels at p, in the first lane of 32 bits.
inline int8x8_t load_group(const Level* p) {
  uint32_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return vcreate_s8(bits);
}

// Adds 4 groups of weights, each times the first group of levels. In assembler, because compilers do not agree on the flag
// that the intrinsic needs: without a flag this file is compiled by all of them.
inline void add_dot_products(int32x4_t& sums, int8x16_t weights, int8x8_t levels) {
  asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sums) : "w"(weights), "w"(levels));
}

// Sums of `NumRows` rows of levels times one tile of weights.
template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kTileVectors]) {
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) sums[r][c] = zero_ints();
  for (int i = 0; i < num_groups; i++, x += kGroup, w += kTileVectors * kVecLanes * kGroup) {
    int8x16_t weights[kTileVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) weights[c] = vld1q_s8(w + c * kVecLanes * kGroup);
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      int8x8_t levels = load_group(x + (size_t)r * stride);
#pragma GCC unroll 4
      for (int c = 0; c < kTileVectors; c++) add_dot_products(sums[r][c], weights[c], levels);
    }
  }
}

}  // namespace
