// int8 products for sets with an instruction that multiplies groups of four levels with four weights each, and adds them up in
// 32 bits: add_products(sums, weights, levels).

#pragma once

namespace {

constexpr int kGroup = 4, kMaxInt8Rows = kMaxTileRows, kInt8Tiles = 1, kInt8Cost = 1;

// Adds the products of one group of levels of each row with the group's weights.
template <int NumRows>
inline void add_group(const Level* x, int stride, const int8_t* w, IntVec (&sums)[NumRows][kTileVectors]) {
  IntVec weights[kTileVectors];
#pragma GCC unroll 4
  for (int c = 0; c < kTileVectors; c++) weights[c] = load_weights(w + c * kVecLanes * kGroup);
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++) {
    IntVec levels = broadcast_bytes(x + (size_t)r * stride);
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) add_products(sums[r][c], weights[c], levels);
  }
}

// Sums of `NumRows` rows of levels times one tile of weights. With few accumulators each would wait for its last addition, so
// groups take turns with several of them.
template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kTileVectors]) {
  constexpr int kEnough = 8, kUsed = NumRows * kTileVectors, kTurns = kUsed < kEnough ? kEnough / kUsed : 1;
  constexpr int kGroupBytes = kTileVectors * kVecLanes * kGroup;
  IntVec turns[kTurns][NumRows][kTileVectors];
#pragma GCC unroll 8
  for (int t = 0; t < kTurns; t++)
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
      for (int c = 0; c < kTileVectors; c++) turns[t][r][c] = zero_ints();
  int i = 0;
  for (; i + kTurns <= num_groups; i += kTurns)
#pragma GCC unroll 8
    for (int t = 0; t < kTurns; t++, x += kGroup, w += kGroupBytes) add_group<NumRows>(x, stride, w, turns[t]);
  for (; i < num_groups; i++, x += kGroup, w += kGroupBytes) add_group<NumRows>(x, stride, w, turns[0]);
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) {
      sums[r][c] = turns[0][r][c];
#pragma GCC unroll 8
      for (int t = 1; t < kTurns; t++) sums[r][c] = add(sums[r][c], turns[t][r][c]);
    }
}

}  // namespace
