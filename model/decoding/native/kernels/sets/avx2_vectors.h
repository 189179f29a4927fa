// Vectors of 256 bits, for the sets with AVX2. These processors also have FMA and conversions of float16.

#pragma once

#include <cstring>

#include "../../kernels.h"
#include "intrinsics.h"

namespace {

using Vec = __m256;
using IntVec = __m256i;
typedef uint32_t Words __attribute__((vector_size(sizeof(Vec))));  // the bits of a vector of numbers
constexpr int kVecLanes = 8, kParts = 2;

// 6 rows of 2 vectors are 12 accumulators, and the processor has 16 registers.
constexpr int kTileVectors = 2, kMaxTileRows = 6, kQueriesAtOnce = 2;

// All bits set in the first n lanes; n may be beyond the bounds.
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline Vec load(const Half* p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
inline void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline Vec broadcast(float x) { return _mm256_set1_ps(x); }
inline Vec fmadd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec fnmadd(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
inline Vec accumulate(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec maximum(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec minimum(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec nearest(Vec v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// v times 2 to the power of r, a whole number for which the power is a normal float32.
inline Vec times_power_of_two(Vec v, Vec r) {
  constexpr int kBias = 127, kMantissaBits = 23;
  __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(r), _mm256_set1_epi32(kBias));
  return _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, kMantissaBits)));
}
inline Vec choose_first(int n, Vec v, Vec other) {
  return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(first_lanes(n)));
}
inline Vec larger_magnitude(Vec a, Vec b) {
  __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(a), magnitude),
                                              _mm256_and_si256(_mm256_castps_si256(b), magnitude)));
}
inline void store(Half* p, Vec v) {
  Vec largest = _mm256_set1_ps(65504.f);  // of float16; the order of the operands below keeps NaN
  v = maximum(_mm256_sub_ps(_mm256_setzero_ps(), largest), minimum(largest, v));
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

inline float sum(Vec v) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Vec v) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
// The sum of each of 16 vectors, in their order, by the same tree as with AVX-512: within quarters, then quarters in pairs.
inline void sum_each(const Vec (*v)[kParts], Vec (&sums)[kParts]) {
  constexpr int kLow = 0x20, kHigh = 0x31;  // which 128-bit halves a permutation takes
  for (int eight = 0; eight < 2; eight++, v += 8) {
    Vec pairs[kParts];
#pragma GCC unroll 2
    for (int p = 0; p < kParts; p++) {
      Vec quarters[2];
#pragma GCC unroll 2
      for (int q = 0; q < 2; q++) {
        Vec v0 = v[4 * q][p], v1 = v[4 * q + 1][p], v2 = v[4 * q + 2][p], v3 = v[4 * q + 3][p];
        __m256d x = _mm256_castps_pd(_mm256_add_ps(_mm256_unpacklo_ps(v0, v1), _mm256_unpackhi_ps(v0, v1)));
        __m256d y = _mm256_castps_pd(_mm256_add_ps(_mm256_unpacklo_ps(v2, v3), _mm256_unpackhi_ps(v2, v3)));
        quarters[q] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                                    _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
      }
      pairs[p] = _mm256_add_ps(_mm256_permute2f128_ps(quarters[0], quarters[1], kLow),
                               _mm256_permute2f128_ps(quarters[0], quarters[1], kHigh));
    }
    sums[eight] = _mm256_add_ps(pairs[0], pairs[1]);
  }
}

inline uint32_t greater(Vec a, Vec b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
inline uint32_t not_less(Vec a, Vec b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ)); }
inline void keep_greater(Vec v, int32_t start, Vec& top, IntVec& starts) {
  Vec m = _mm256_cmp_ps(v, top, _CMP_GT_OQ);
  top = _mm256_blendv_ps(top, v, m);
  starts = _mm256_blendv_epi8(starts, _mm256_set1_epi32(start), _mm256_castps_si256(m));
}

inline IntVec load_ints(const int32_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
inline void store_ints(int32_t* p, IntVec v) { _mm256_storeu_si256((__m256i*)p, v); }
inline IntVec zero_ints() { return _mm256_setzero_si256(); }
inline IntVec add(IntVec a, IntVec b) { return _mm256_add_epi32(a, b); }
inline IntVec subtract(IntVec a, IntVec b) { return _mm256_sub_epi32(a, b); }
inline Vec to_floats(IntVec v) { return _mm256_cvtepi32_ps(v); }
// 16 numbers rounded to signed bytes; what is no number becomes -128.
inline __m128i rounded_bytes(const Vec (&v)[kParts]) {
  constexpr int kInOrder = 0xd8;  // packing works within each half
  __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
  words = _mm256_permute4x64_epi64(words, kInOrder);
  return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
// The four bytes at p, in every lane.
inline IntVec broadcast_bytes(const void* p) {
  int32_t bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
  return _mm256_set1_epi32(bytes);
}
inline IntVec load_weights(const int8_t* p) { return _mm256_load_si256((const __m256i*)p); }

// Transposes a matrix of 16 x 16 numbers of four bytes, by its four quarters.
inline void transpose(uint32_t (&words)[kLanes][kLanes]) {
  constexpr int kLow = 0x20, kHigh = 0x31;
  uint32_t result[kLanes][kLanes];
  for (int top = 0; top < kLanes; top += 8)
    for (int left = 0; left < kLanes; left += 8) {
      __m256i r[8], t[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_si256((const __m256i*)(words[top + i] + left));
#pragma GCC unroll 4
      for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
      }
#pragma GCC unroll 2
      for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        _mm256_storeu_si256((__m256i*)(result[left + i] + top), _mm256_permute2x128_si256(r[i], r[i + 4], kLow));
        _mm256_storeu_si256((__m256i*)(result[left + i + 4] + top), _mm256_permute2x128_si256(r[i], r[i + 4], kHigh));
      }
    }
  std::memcpy(words, result, sizeof(result));
}

}  // namespace
