// NEON with matrix multiplication (I8MM, ARMv8.6): one instruction multiplies eight levels of two rows with eight weights of two
// outputs each, and adds the four sums in 32 bits: twice the products of a dot product. A row without a second one is paired
// with itself.

#pragma once

#include "neon_vectors.h"

namespace {

constexpr int kGroup = 8, kMaxInt8Rows = kMaxTileRows, kInt8Tiles = 1, kInt8Cost = 1;

// Adds two rows of eight levels times two of eight weights. In assembler: see neon_dotprod.h.
inline void add_matrix_product(int32x4_t& sums, int8x16_t levels, int8x16_t weights) {
  asm(".arch armv8.2-a+i8mm\n\tsmmla %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(levels), "w"(weights));
}

// Sums of `NumRows` rows of levels times one tile of weights.
template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kTileVectors]) {
  constexpr int kRowPairs = (NumRows + 1) / 2, kOutputPairs = kTileVectors * kVecLanes / 2;
  // [rows 0 and 1][outputs 0 and 1]: row 0 with both outputs, then row 1 with both.
  int32x4_t pairs[kRowPairs][kOutputPairs];
#pragma GCC unroll 4
  for (int r = 0; r < kRowPairs; r++)
#pragma GCC unroll 8
    for (int c = 0; c < kOutputPairs; c++) pairs[r][c] = zero_ints();
  for (int i = 0; i < num_groups; i++, x += kGroup, w += kOutputPairs * 2 * kGroup) {
    int8x16_t levels[kRowPairs];
#pragma GCC unroll 4
    for (int r = 0; r < kRowPairs; r++) {
      const Level* row = x + (size_t)(2 * r) * stride;
      levels[r] = vcombine_s8(vld1_s8(row), vld1_s8(2 * r + 1 < NumRows ? row + stride : row));
    }
#pragma GCC unroll 8
    for (int c = 0; c < kOutputPairs; c++) {
      int8x16_t weights = vld1q_s8(w + c * 2 * kGroup);
#pragma GCC unroll 4
      for (int r = 0; r < kRowPairs; r++) add_matrix_product(pairs[r][c], levels[r], weights);
      asm("" : "+r"(w), "+w"(pairs[0][c]));  // else the compiler loads all weights first, and has no registers left
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) {
      int64x2_t left = vreinterpretq_s64_s32(pairs[r / 2][2 * c]), right = vreinterpretq_s64_s32(pairs[r / 2][2 * c + 1]);
      sums[r][c] = vreinterpretq_s32_s64(r % 2 ? vzip2q_s64(left, right) : vzip1q_s64(left, right));
    }
}

}  // namespace

#include "widened_pairs.h"
