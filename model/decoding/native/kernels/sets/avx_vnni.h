// AVX2 with AVX-VNNI: one instruction multiplies 8 groups of four unsigned levels with four signed weights.

#pragma once

#include "avx2_vectors.h"

namespace {

using Level = uint8_t;
constexpr int kShift = 128;  // makes levels unsigned

// Rounds 16 numbers. Flipping the highest bit of a signed byte adds 128.
inline void store_levels(Level* levels, const Vec (&v)[kParts]) {
  __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
  words = _mm256_permute4x64_epi64(words, 0xd8);  // packing works within each half
  __m128i rounded = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128((__m128i*)levels, _mm_xor_si128(rounded, _mm_set1_epi8((char)kShift)));
}

inline void add_products(IntVec& sums, IntVec weights, IntVec levels) {
  asm("%{vex%} vpdpbusd %1,%2,%0" : "+x"(sums) : "x"(weights), "x"(levels));
}

}  // namespace

#include "byte_products.h"
