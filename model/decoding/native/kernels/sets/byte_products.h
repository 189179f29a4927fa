// int8 products for sets with an instruction that multiplies groups of four levels with four weights each, and adds them up in
// 32 bits: add_products(sums, weights, levels).

#pragma once

namespace {

constexpr int kGroup = 4, kMaxInt8Rows = kMaxTileRows;

// Sums of `NumRows` rows of levels times one tile of weights.
template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kTileVectors]) {
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) sums[r][c] = zero_ints();
  for (int i = 0; i < num_groups; i++, w += kTileVectors * kVecLanes * kGroup) {
    IntVec weights[kTileVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) weights[c] = load_weights(w + c * kVecLanes * kGroup);
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      IntVec levels = broadcast_bytes(x + (size_t)r * stride + i * kGroup);
#pragma GCC unroll 4
      for (int c = 0; c < kTileVectors; c++) add_products(sums[r][c], weights[c], levels);
    }
  }
}

}  // namespace
