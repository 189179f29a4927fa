// Vectors of 512 bits, for the sets with AVX-512.

#pragma once

#include <cstring>

#include "../../kernels.h"
#include "intrinsics.h"

namespace {

using Vec = __m512;
using IntVec = __m512i;
typedef uint32_t Words __attribute__((vector_size(sizeof(Vec))));  // the bits of a vector of numbers
constexpr int kVecLanes = 16, kParts = 1;

// 6 rows of 4 vectors are 24 accumulators, and the processor has 32 registers.
constexpr int kTileVectors = 4, kMaxTileRows = 6, kQueriesAtOnce = 4;

inline __mmask16 first_lanes(int n) { return n >= kVecLanes ? 0xffff : n <= 0 ? 0 : (1 << n) - 1; }

inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline Vec load(const Half* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
inline void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline Vec broadcast(float x) { return _mm512_set1_ps(x); }
inline Vec fmadd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec fnmadd(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
inline Vec accumulate(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec maximum(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec minimum(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Vec nearest(Vec v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec times_power_of_two(Vec v, Vec r) { return _mm512_scalef_ps(v, r); }
inline Vec choose_first(int n, Vec v, Vec other) { return _mm512_mask_mov_ps(other, first_lanes(n), v); }
inline Vec larger_magnitude(Vec a, Vec b) {
  return _mm512_castsi512_ps(
      _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(a)), _mm512_castps_si512(_mm512_abs_ps(b))));
}
inline void store(Half* p, Vec v) {
  Vec largest = _mm512_set1_ps(65504.f);  // of float16; the order of the operands below keeps NaN
  v = maximum(_mm512_sub_ps(_mm512_setzero_ps(), largest), minimum(largest, v));
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

inline float largest(Vec v) { return _mm512_reduce_max_ps(v); }
inline float sum(Vec v) {
  __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// The sum of each of 16 vectors, in their order. A tree of shuffles takes a third of the work of 16 separate sums.
inline void sum_each(const Vec (*vectors)[kParts], Vec (&sums)[kParts]) {
  constexpr int kEven = 0x88, kOdd = 0xdd;  // which 128-bit quarters a shuffle takes
  const Vec* v = vectors[0];
  Vec a[8], b[4], c[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++)
    a[i] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    __m512d x = _mm512_castps_pd(a[2 * i]), y = _mm512_castps_pd(a[2 * i + 1]);
    b[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)
    c[i] = _mm512_add_ps(_mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], kEven),
                         _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], kOdd));
  sums[0] = _mm512_add_ps(_mm512_shuffle_f32x4(c[0], c[1], kEven), _mm512_shuffle_f32x4(c[0], c[1], kOdd));
}

inline uint32_t greater(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline uint32_t not_less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
inline void keep_greater(Vec v, int32_t start, Vec& top, IntVec& starts) {
  __mmask16 m = _mm512_cmp_ps_mask(v, top, _CMP_GT_OQ);
  top = _mm512_mask_mov_ps(top, m, v);
  starts = _mm512_mask_mov_epi32(starts, m, _mm512_set1_epi32(start));
}

inline IntVec load_ints(const int32_t* p) { return _mm512_loadu_si512(p); }
inline void store_ints(int32_t* p, IntVec v) { _mm512_storeu_si512(p, v); }
inline IntVec zero_ints() { return _mm512_setzero_si512(); }
inline IntVec add(IntVec a, IntVec b) { return _mm512_add_epi32(a, b); }
inline IntVec subtract(IntVec a, IntVec b) { return _mm512_sub_epi32(a, b); }
inline Vec to_floats(IntVec v) { return _mm512_cvtepi32_ps(v); }
// 16 numbers of four bytes that lie behind each other at p, in every lane.
inline IntVec broadcast_bytes(const void* p) {
  int32_t bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
  return _mm512_set1_epi32(bytes);
}
inline IntVec load_weights(const int8_t* p) { return _mm512_load_si512(p); }

// Transposes a matrix of 16 x 16 numbers of four bytes.
inline void transpose(uint32_t (&words)[kLanes][kLanes]) {
  constexpr int kEven = 0x88, kOdd = 0xdd;  // which 128-bit quarters a shuffle takes
  __m512i r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = _mm512_load_si512(words[i]);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], kEven);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], kOdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], kEven);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], kOdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    _mm512_store_si512(words[i], _mm512_shuffle_i32x4(t[i], t[i + 8], kEven));
    _mm512_store_si512(words[i + 8], _mm512_shuffle_i32x4(t[i], t[i + 8], kOdd));
  }
}

}  // namespace
