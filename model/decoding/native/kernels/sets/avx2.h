// AVX2 with FMA, without VNNI.
//
// vpmaddubsw multiplies unsigned with signed bytes and adds pairs of products in 16 bits. A pair of full bytes overflows, so
// levels are kept as magnitudes and signs, and weights get the levels' signs: a pair is at most 2 * 127 * 128, which fits.
// A weight is not negated but complemented, which takes any of the processor's ports: ~w = -w - 1. What that lacks is
// the sum of the magnitudes of a row's negative levels, whatever the weights are: its offset.

#pragma once

#include "avx2_vectors.h"

namespace {

// A group of four levels is four magnitudes, then four bytes with all bits set for negative ones.
using Level = uint16_t;
constexpr int kGroup = 4, kShift = 0;
// 12 accumulators, magnitudes, signs, products and ones are 16 registers; weights come from the cache.
constexpr int kMaxInt8Rows = 3, kInt8Tiles = 2, kInt8Cost = 4;

// Rounds 16 numbers. What is no number becomes -128: the sums of such rows mean nothing, and what they are multiplied with is
// no number either.
inline void store_levels(Level* levels, const Vec (&v)[kParts]) {
  __m128i bytes = rounded_bytes(v), magnitudes = _mm_abs_epi8(bytes);
  __m128i negative = _mm_cmpgt_epi8(_mm_setzero_si128(), bytes);
  _mm_storeu_si128((__m128i*)levels, _mm_unpacklo_epi32(magnitudes, negative));
  _mm_storeu_si128((__m128i*)(levels + 2 * kGroup), _mm_unpackhi_epi32(magnitudes, negative));
}

// The sums of the magnitudes of negative levels in each of four groups.
inline __m256i negatives(const Level* levels) {
  const __m256i groups = _mm256_loadu_si256((const __m256i*)levels);
  return _mm256_sad_epu8(_mm256_and_si256(groups, _mm256_srli_epi64(groups, 32)), _mm256_setzero_si256());
}
// The same of a row; n is a multiple of kGroup.
inline int32_t offset_of(const Level* levels, int n) {
  __m256i sums = _mm256_setzero_si256();
  for (; n >= kLanes; n -= kLanes, levels += kLanes) sums = _mm256_add_epi64(sums, negatives(levels));
  if (n > 0) {
    Level rest[kLanes] = {};
    std::memcpy(rest, levels, n * sizeof(Level));
    sums = _mm256_add_epi64(sums, negatives(rest));
  }
  int64_t parts[4];
  _mm256_storeu_si256((__m256i*)parts, sums);
  return (int32_t)(parts[0] + parts[1] + parts[2] + parts[3]);
}
constexpr bool kHasOffsets = true;

template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kInt8Tiles * kTileVectors]) {
  constexpr int kTileBytes = kTileVectors * kVecLanes * kGroup;  // of one group
  static_assert(kTileVectors == 2 && kInt8Tiles == 2);
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++) sums[r][0] = sums[r][1] = sums[r][2] = sums[r][3] = zero_ints();
  const IntVec ones = _mm256_set1_epi16(1);
  const int8_t* second = w + (size_t)num_groups * kTileBytes;
  for (int i = 0; i < num_groups; i++, x += kGroup, w += kTileBytes, second += kTileBytes) {
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      const char* group = (const char*)(x + (size_t)r * stride);
      IntVec magnitudes, signs, products;
      // With intrinsics GCC 12 keeps more of the products than there are registers.
#define VERSO_ADD(weights, sum)                                                                     \
  "vpxor " weights ",%[signs],%[products]\n\tvpmaddubsw %[products],%[magnitudes],%[products]\n\t"  \
  "vpmaddwd %[ones],%[products],%[products]\n\tvpaddd %[products],%[" sum "],%[" sum "]\n\t"
      asm("vpbroadcastd 4(%[group]),%[signs]\n\tvpbroadcastd (%[group]),%[magnitudes]\n\t"
          VERSO_ADD("(%[w])", "a") VERSO_ADD("32(%[w])", "b") VERSO_ADD("(%[second])", "c") VERSO_ADD("32(%[second])", "d")
          : [a] "+x"(sums[r][0]), [b] "+x"(sums[r][1]), [c] "+x"(sums[r][2]), [d] "+x"(sums[r][3]),
            [magnitudes] "=&x"(magnitudes), [signs] "=&x"(signs), [products] "=&x"(products)
          : [group] "r"(group), [w] "r"(w), [second] "r"(second), [ones] "x"(ones), "m"(*(const char(*)[8])group),
            "m"(*(const char(*)[kTileBytes])w), "m"(*(const char(*)[kTileBytes])second));
#undef VERSO_ADD
    }
  }
}

}  // namespace

#include "widened_pairs.h"
