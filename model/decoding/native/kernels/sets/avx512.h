// AVX-512 without VNNI.

#pragma once

#include "avx512_vectors.h"

namespace {

inline IntVec even_bytes(IntVec v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); }
inline IntVec odd_bytes(IntVec v) { return _mm512_srai_epi16(v, 8); }
inline void add_word_products(IntVec& sums, IntVec weights, IntVec levels) {
  IntVec products;  // with intrinsics GCC 12 keeps more of them than there are registers
  asm("vpmaddwd %2,%3,%1\n\tvpaddd %1,%0,%0" : "+v"(sums), "=&v"(products) : "v"(weights), "v"(levels));
}

// Rounds 16 numbers. What is no number becomes -128, as with VNNI.
inline void store_levels(int16_t* levels, const Vec (&v)[kParts]) {
  constexpr auto kEvenFirst = (_MM_PERM_ENUM)0xd8;
  __m512i rounded = _mm512_max_epi32(_mm512_cvtps_epi32(v[0]), _mm512_set1_epi32(-128));
  _mm256_storeu_si256((__m256i*)levels, _mm512_cvtepi32_epi16(_mm512_shuffle_epi32(rounded, kEvenFirst)));
}

}  // namespace

#include "word_products.h"
