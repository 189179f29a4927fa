// int8 products with AVX-512 VNNI: one instruction multiplies 16 groups of four unsigned levels with four signed weights.

#pragma once

#include "avx512_vectors.h"

namespace {

using Level = uint8_t;
constexpr int kShift = 128;  // makes levels unsigned
constexpr bool kHasOffsets = false;
inline int32_t offset_of(const Level*, int) { return 0; }

// Rounds 16 numbers. Flipping the highest bit of a signed byte adds 128.
inline void store_levels(Level* levels, const Vec (&v)[kParts]) {
  __m128i rounded = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v[0]));
  _mm_storeu_si128((__m128i*)levels, _mm_xor_si128(rounded, _mm_set1_epi8((char)kShift)));
}

inline void add_products(IntVec& sums, IntVec weights, IntVec levels) {
  // With the intrinsic GCC 12 keeps the accumulators in memory.
  asm("vpdpbusd %1,%2,%0" : "+v"(sums) : "v"(weights), "v"(levels));
}

}  // namespace

#include "byte_products.h"
