// AVX-512 without VNNI.
//
// vpmaddubsw, which multiplies bytes, adds two products in 16 bits, which overflow, and there is no instruction that changes
// signs as in avx2.h. So bytes are widened, and vpmaddwd multiplies pairs of 16 bits and adds them in 32. Weights are kept as
// bytes, in groups of four inputs: those at even places are multiplied first, and then the others. A group of levels is stored in
// that order.

#pragma once

#include "avx512_vectors.h"

namespace {

using Level = int16_t;
constexpr int kGroup = 4, kShift = 0, kMaxInt8Rows = kMaxTileRows, kInt8Tiles = 1, kInt8Cost = 2;
constexpr bool kHasOffsets = false;
inline int32_t offset_of(const Level*, int) { return 0; }
constexpr int kVectorBytes = kVecLanes * kGroup;  // of the weights of one group

inline IntVec even_bytes(IntVec v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); }
inline IntVec odd_bytes(IntVec v) { return _mm512_srai_epi16(v, 8); }
inline void add_word_products(IntVec& sums, IntVec weights, IntVec levels) {
  IntVec products;  // with intrinsics GCC 12 keeps more of them than there are registers
  asm("vpmaddwd %2,%3,%1\n\tvpaddd %1,%0,%0" : "+v"(sums), "=&v"(products) : "v"(weights), "v"(levels));
}

// Rounds 16 numbers. What is no number becomes -128, as with VNNI.
inline void store_levels(Level* levels, const Vec (&v)[kParts]) {
  constexpr auto kEvenFirst = (_MM_PERM_ENUM)0xd8;
  __m512i rounded = _mm512_max_epi32(_mm512_cvtps_epi32(v[0]), _mm512_set1_epi32(-128));
  _mm256_storeu_si256((__m256i*)levels, _mm512_cvtepi32_epi16(_mm512_shuffle_epi32(rounded, kEvenFirst)));
}

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

#include "widened_pairs.h"
