// NEON with dot product (ARMv8.2): one instruction multiplies 4 groups of four levels with four weights each, and adds them up
// in 32 bits.

#pragma once

#include "neon_vectors.h"

namespace {

constexpr int kGroup = 4;

// The four levels at p, in the first lane of 32 bits.
inline int8x8_t load_group(const Level* p) {
  float bits;  // a floating-point register is a vector's first lane
  std::memcpy(&bits, p, sizeof(bits));
  return vreinterpret_s8_f32(float32x2_t{bits, 0.f});
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
      for (int c = 0; c < kTileVectors; c++) sums[r][c] = vdotq_lane_s32(sums[r][c], weights[c], levels, 0);
    }
  }
}

}  // namespace
