// AVX2 with AVX-VNNI: one instruction multiplies 8 groups of four unsigned levels with four signed weights.

#pragma once

#include "avx2_vectors.h"

namespace {

using Level = uint8_t;
constexpr int kShift = 128;  // makes levels unsigned
constexpr bool kHasOffsets = false;
inline int32_t offset_of(const Level*, int) { return 0; }

// Rounds 16 numbers. Flipping the highest bit of a signed byte adds 128.
inline void store_levels(Level* levels, const Vec (&v)[kParts]) {
  _mm_storeu_si128((__m128i*)levels, _mm_xor_si128(rounded_bytes(v), _mm_set1_epi8((char)kShift)));
}

// AVX-VNNI is the instruction in the encoding VEX. A test assembles the other one, to run these kernels on processors that have
// AVX-512 VNNI only (tests/native/replay.py).
#if defined(VERSO_EVEX)
#define VERSO_ENCODING "%{evex%}"
#else
#define VERSO_ENCODING "%{vex%}"
#endif

inline void add_products(IntVec& sums, IntVec weights, IntVec levels) {
  asm(VERSO_ENCODING " vpdpbusd %1,%2,%0" : "+x"(sums) : "x"(weights), "x"(levels));
}

}  // namespace

#include "byte_products.h"
#include "widened_pairs.h"
