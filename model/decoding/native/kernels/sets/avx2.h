// AVX2 with FMA, without VNNI.
//
// vpmaddubsw multiplies unsigned with signed bytes and adds pairs of products in 16 bits. A pair of full bytes overflows, so
// it gets magnitudes of weights, and levels with the weights' signs: a pair is at most 2 * 128 * 127, which fits.

#pragma once

#include "avx2_vectors.h"

namespace {

using Level = int8_t;
constexpr int kGroup = 4, kShift = 0;
constexpr int kMaxInt8Rows = 5;  // 10 accumulators, weights and their magnitudes, levels and products: 16 registers

// Rounds 16 numbers. What is no number becomes -128, whose sign cannot be changed: the sums of such rows mean nothing, and
// what they are multiplied with is no number either.
inline void store_levels(Level* levels, const Vec (&v)[kParts]) {
  _mm_storeu_si128((__m128i*)levels, rounded_bytes(v));
}

template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kTileVectors]) {
  constexpr int kVectorBytes = kVecLanes * kGroup;
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) sums[r][c] = zero_ints();
  const IntVec ones = _mm256_set1_epi16(1);
  for (int i = 0; i < num_groups; i++, x += kGroup, w += kTileVectors * kVectorBytes) {
    IntVec weights[kTileVectors], magnitudes[kTileVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) {
      weights[c] = load_weights(w + c * kVectorBytes);
      magnitudes[c] = _mm256_abs_epi8(weights[c]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      IntVec levels = broadcast_bytes(x + (size_t)r * stride), products;
      // With intrinsics GCC 12 keeps more of the products than there are registers.
#pragma GCC unroll 4
      for (int c = 0; c < kTileVectors; c++)
        asm("vpsignb %2,%4,%1\n\tvpmaddubsw %1,%3,%1\n\tvpmaddwd %5,%1,%1\n\tvpaddd %1,%0,%0"
            : "+x"(sums[r][c]), "=&x"(products)
            : "x"(weights[c]), "x"(magnitudes[c]), "x"(levels), "xm"(ones));
    }
  }
}

}  // namespace

#include "widened_pairs.h"
