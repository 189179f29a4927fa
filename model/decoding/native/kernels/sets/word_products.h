// int8 products for AVX-512 without VNNI. The instruction that multiplies bytes (vpmaddubsw) adds two products in 16 bits, which
// overflow, and there is none that changes signs as in avx2.h. So bytes are widened, and vpmaddwd multiplies pairs of 16 bits and
// adds them in 32. Weights are kept as bytes, in groups of four inputs: those at even places are multiplied first, and then the
// others. A group of levels is stored in that order.

#pragma once

namespace {

using Level = int16_t;
constexpr int kGroup = 4, kShift = 0, kMaxInt8Rows = kMaxTileRows;
constexpr int kVectorBytes = kVecLanes * kGroup;  // of the weights of one group

// Adds the products of each row's pair of levels with the weights of these.
template <int NumRows>
inline void add_pairs(const Level* pairs, int stride, const IntVec (&weights)[kTileVectors],
                      IntVec (&sums)[NumRows][kTileVectors]) {
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++) {
    IntVec pair = broadcast_bytes(pairs + (size_t)r * stride);
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) add_word_products(sums[r][c], weights[c], pair);
  }
}

template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kTileVectors]) {
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) sums[r][c] = zero_ints();
  for (int i = 0; i < num_groups; i++, x += kGroup, w += kTileVectors * kVectorBytes) {
    IntVec weights[kTileVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) weights[c] = even_bytes(load_weights(w + c * kVectorBytes));
    add_pairs<NumRows>(x, stride, weights, sums);
    // The compiler must not keep the bytes in registers, which are all taken: it is not to know that these are the same.
    const int8_t* again = w;
    asm("" : "+r"(again));
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) weights[c] = odd_bytes(load_weights(again + c * kVectorBytes));
    add_pairs<NumRows>(x + kGroup / 2, stride, weights, sums);
  }
}

}  // namespace
