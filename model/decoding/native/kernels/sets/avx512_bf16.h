// AVX-512 with VNNI and bfloat16: one instruction multiplies 16 pairs of inputs with 16 pairs of weights, and adds both products
// to a float32 number, the second one first. It rounds after each addition, and takes numbers that are not normal for 0.

#pragma once

#include "avx512_byte_products.h"

namespace {

using RoundedInput = uint16_t;
constexpr int kPairSteps = 1, kMaxPairRows = kMaxTileRows;

inline void store_rounded(RoundedInput* to, const Vec (&v)[kParts]) {
  __m512i upper = _mm512_srli_epi32(_mm512_castps_si512(v[0]), 16);
  _mm256_storeu_si256((__m256i*)to, _mm512_cvtepi32_epi16(upper));
}
inline IntVec pair_weights(const Bfloat16Pair* w, int) { return _mm512_load_si512(w); }
inline IntVec pair_inputs(const RoundedInput* pair, int) { return broadcast_bytes(pair); }
// In assembler, as the products of avx512_vnni.h.
inline void add_pair(Vec& sums, IntVec weights, IntVec inputs) {
  asm("vdpbf16ps %1,%2,%0" : "+v"(sums) : "v"(weights), "v"(inputs));
}

}  // namespace
