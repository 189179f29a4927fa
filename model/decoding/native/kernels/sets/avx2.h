// AVX2 with FMA, without VNNI.

#pragma once

#include "avx2_vectors.h"

namespace {

inline IntVec even_bytes(IntVec v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
inline IntVec odd_bytes(IntVec v) { return _mm256_srai_epi16(v, 8); }
inline void add_word_products(IntVec& sums, IntVec weights, IntVec levels) {
  IntVec products;  // with intrinsics GCC 12 keeps more of them than there are registers
  asm("vpmaddwd %2,%3,%1\n\tvpaddd %1,%0,%0" : "+x"(sums), "=&x"(products) : "x"(weights), "x"(levels));
}

// Rounds 16 numbers. What is no number becomes -128, as with VNNI.
inline void store_levels(int16_t* levels, const Vec (&v)[kParts]) {
  constexpr int kEvenFirst = 0xd8;
  __m256i least = _mm256_set1_epi32(-128), rounded[kParts];
  for (int p = 0; p < kParts; p++)
    rounded[p] = _mm256_shuffle_epi32(_mm256_max_epi32(_mm256_cvtps_epi32(v[p]), least), kEvenFirst);
  __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(rounded[0], rounded[1]), 0xd8);
  _mm256_storeu_si256((__m256i*)levels, words);
}

}  // namespace

#include "word_products.h"
