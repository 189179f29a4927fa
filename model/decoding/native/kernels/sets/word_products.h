// int8 products for x86 processors without VNNI. The instruction that multiplies bytes (vpmaddubsw) adds two products in 16
// bits, which overflow; so bytes are widened, and vpmaddwd multiplies pairs of 16 bits and adds them in 32. Weights are kept as
// bytes, in groups of four inputs: those at even places are multiplied first, and then the others. A group of levels is stored
// in that order.

#pragma once

namespace {

using Level = int16_t;
constexpr int kGroup = 4, kShift = 0;

template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kTileVectors]) {
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) sums[r][c] = zero_ints();
  for (int i = 0; i < num_groups; i++, w += kTileVectors * kVecLanes * kGroup) {
    const Level* group = x + i * kGroup;
    IntVec weights[kTileVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) weights[c] = even_bytes(load_weights(w + c * kVecLanes * kGroup));
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      IntVec pair = broadcast_bytes(group + (size_t)r * stride);
#pragma GCC unroll 4
      for (int c = 0; c < kTileVectors; c++) sums[r][c] = add_word_products(sums[r][c], weights[c], pair);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) weights[c] = odd_bytes(load_weights(w + c * kVecLanes * kGroup));
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      IntVec pair = broadcast_bytes(group + (size_t)r * stride + kGroup / 2);
#pragma GCC unroll 4
      for (int c = 0; c < kTileVectors; c++) sums[r][c] = add_word_products(sums[r][c], weights[c], pair);
    }
  }
}

}  // namespace
