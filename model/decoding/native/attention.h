// Attention of single positions. Keys that several queries attend to (those of a source) are kept in blocks of 16 positions
// with one input after the other, so that one instruction multiplies 16 positions. Keys of a row's own past are kept position
// by position.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "products.h"
#include "simd.h"

// Keys and values are kept as float by float32 models, and as float16 by int8 models: the error is far smaller than that of
// rounded weights, and they are read in half the time.
struct Half {
  uint16_t bits;
};
inline __m512 load16(const float* p) { return _mm512_loadu_ps(p); }
inline __m512 load16(const Half* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
inline void store16(float* p, __m512 x) { _mm512_storeu_ps(p, x); }
inline void store16(Half* p, __m512 x) {
  __m512 largest = _mm512_set1_ps(65504.f);  // of float16; the order of the operands below keeps NaN
  x = _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), largest), _mm512_min_ps(largest, x));
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

// Positions of one block.
constexpr int kBlockPositions = kLanes;
inline int blocks_of(int length) { return (length + kBlockPositions - 1) / kBlockPositions; }

// Replaces n scores, none above `maximum`, by exp(score - maximum), fills the last block up with 0, and returns the sum.
inline float exponentiate(float* scores, int n, float maximum) {
  __m512 sum = _mm512_setzero_ps(), maxima = _mm512_set1_ps(maximum);
  for (int p = 0; p < n; p += kBlockPositions) {
    __m512 e = exp512(_mm512_sub_ps(_mm512_load_ps(scores + p), maxima));
    e = _mm512_maskz_mov_ps(first_lanes(n - p), e);
    sum = _mm512_add_ps(sum, e);
    _mm512_store_ps(scores + p, e);
  }
  return _mm512_reduce_add_ps(sum);
}

// Weighted means of n values for R rows that attend to the same positions: out[row], one head of `width` numbers. sums: of
// each row's weights.
template <int R, typename Value>
inline void weighted_means(const float* const* weights, int n, int width, Value value, const float* sums,
                           float* const* out) {
  constexpr int kVectors = 4;  // taken together
  for (int i = 0; i < width; i += kVectors * kLanes) {
    int vectors = std::min(kVectors, (width - i) / kLanes);
    __m512 acc[R][kVectors];
    for (int r = 0; r < R; r++)
      for (int c = 0; c < kVectors; c++) acc[r][c] = _mm512_setzero_ps();
    if (vectors == kVectors) {
      for (int t = 0; t < n; t++) {
        auto v = value(t) + i;
        __m512 v0 = load16(v), v1 = load16(v + 16), v2 = load16(v + 32), v3 = load16(v + 48);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
          __m512 w = _mm512_set1_ps(weights[r][t]);
          acc[r][0] = _mm512_fmadd_ps(w, v0, acc[r][0]);
          acc[r][1] = _mm512_fmadd_ps(w, v1, acc[r][1]);
          acc[r][2] = _mm512_fmadd_ps(w, v2, acc[r][2]);
          acc[r][3] = _mm512_fmadd_ps(w, v3, acc[r][3]);
        }
      }
    } else {
      for (int t = 0; t < n; t++)
        for (int c = 0; c < vectors; c++) {
          __m512 v = load16(value(t) + i + c * kLanes);
          for (int r = 0; r < R; r++) acc[r][c] = _mm512_fmadd_ps(_mm512_set1_ps(weights[r][t]), v, acc[r][c]);
        }
    }
    for (int r = 0; r < R; r++) {
      __m512 inverse = _mm512_set1_ps(1.f / sums[r]);
      for (int c = 0; c < vectors; c++) _mm512_storeu_ps(out[r] + i + c * kLanes, _mm512_mul_ps(acc[r][c], inverse));
    }
  }
}

// Where the attention weights of each query are added, n numbers, multiplied by `factor`; no rows: nowhere.
struct WeightSums {
  float* const* rows = nullptr;
  float factor = 0;
  // Those of the queries from number `first` on.
  WeightSums from(int first) const { return {rows ? rows + first : nullptr, factor}; }
};

// One head of R queries that attend to the same n positions. keys(b): block b, [width][16]; value(t): the numbers of position
// t. `scratch` has room for R times n, rounded up to whole blocks.
template <int R, typename Keys, typename Value>
inline void attend_shared(const float* const* queries, int n, int width, Keys keys, Value value, float* const* out,
                          float* scratch, WeightSums added) {
  int stride = blocks_of(n) * kBlockPositions;
  __m512 scale = _mm512_set1_ps(1.f / std::sqrt((float)width));
  __m512 maxima[R];
  for (int r = 0; r < R; r++) maxima[r] = _mm512_set1_ps(-INFINITY);
  for (int b = 0; b * kBlockPositions < n; b++) {
    auto k = keys(b);
    __m512 acc[R][4];  // four sums for each score, so that additions do not wait for one another
    for (int r = 0; r < R; r++)
      for (int c = 0; c < 4; c++) acc[r][c] = _mm512_setzero_ps();
    for (int i = 0; i < width; i += 4, k += 4 * kBlockPositions) {
      __m512 k0 = load16(k), k1 = load16(k + 16), k2 = load16(k + 32), k3 = load16(k + 48);
#pragma GCC unroll 4
      for (int r = 0; r < R; r++) {
        const float* q = queries[r] + i;
        acc[r][0] = _mm512_fmadd_ps(_mm512_set1_ps(q[0]), k0, acc[r][0]);
        acc[r][1] = _mm512_fmadd_ps(_mm512_set1_ps(q[1]), k1, acc[r][1]);
        acc[r][2] = _mm512_fmadd_ps(_mm512_set1_ps(q[2]), k2, acc[r][2]);
        acc[r][3] = _mm512_fmadd_ps(_mm512_set1_ps(q[3]), k3, acc[r][3]);
      }
    }
    __mmask16 mask = first_lanes(n - b * kBlockPositions);
    for (int r = 0; r < R; r++) {
      __m512 s = _mm512_add_ps(_mm512_add_ps(acc[r][0], acc[r][1]), _mm512_add_ps(acc[r][2], acc[r][3]));
      s = _mm512_mul_ps(s, scale);
      maxima[r] = _mm512_mask_max_ps(maxima[r], mask, maxima[r], s);
      _mm512_store_ps(scratch + r * stride + b * kBlockPositions, s);
    }
  }
  const float* weights[R];
  float sums[R];
  for (int r = 0; r < R; r++) {
    weights[r] = scratch + r * stride;
    sums[r] = exponentiate(scratch + r * stride, n, _mm512_reduce_max_ps(maxima[r]));
    if (added.rows)
      for (int t = 0; t < n; t++) added.rows[r][t] += weights[r][t] * (added.factor / sums[r]);
  }
  weighted_means<R>(weights, n, width, value, sums, out);
}

// Queries that attend_shared() takes at a time.
constexpr int kQueriesAtOnce = 4;

// As above, for any number of queries.
template <typename Keys, typename Value>
inline void attend_shared(int num_queries, const float* const* queries, int n, int width, Keys keys, Value value,
                          float* const* out, float* scratch, WeightSums added = {}) {
  for (int r = 0; r < num_queries; r += kQueriesAtOnce) {
    WeightSums sums = added.from(r);
    switch (std::min(kQueriesAtOnce, num_queries - r)) {
      case 1: attend_shared<1>(queries + r, n, width, keys, value, out + r, scratch, sums); break;
      case 2: attend_shared<2>(queries + r, n, width, keys, value, out + r, scratch, sums); break;
      case 3: attend_shared<3>(queries + r, n, width, keys, value, out + r, scratch, sums); break;
      default: attend_shared<4>(queries + r, n, width, keys, value, out + r, scratch, sums);
    }
  }
}

// The sum of each of 16 vectors, in their order. A tree of shuffles takes a third of the work of 16 separate sums.
inline __m512 sums_of(const __m512* v) {
  constexpr int kEven = 0x88, kOdd = 0xdd;  // which 128-bit quarters a shuffle takes
  __m512 a[8], b[4], c[2];
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
  return _mm512_add_ps(_mm512_shuffle_f32x4(c[0], c[1], kEven), _mm512_shuffle_f32x4(c[0], c[1], kOdd));
}

// One head of one query that attends to its own n positions; key(t) and value(t): the numbers of position t. `scratch` has room
// for n, rounded up to whole blocks.
template <typename Key, typename Value>
inline void attend_own(const float* query, int n, int width, Key key, Value value, float* out, float* scratch) {
  __m512 scale = _mm512_set1_ps(1.f / std::sqrt((float)width)), maxima = _mm512_set1_ps(-INFINITY);
  for (int p = 0; p < n; p += kBlockPositions) {
    int num_positions = std::min(kBlockPositions, n - p);
    __m512 products[kBlockPositions];
    for (int t = 0; t < num_positions; t++) {
      auto k = key(p + t);
      __m512 s = _mm512_mul_ps(_mm512_loadu_ps(query), load16(k));
      for (int i = kLanes; i < width; i += kLanes) s = _mm512_fmadd_ps(_mm512_loadu_ps(query + i), load16(k + i), s);
      products[t] = s;
    }
    for (int t = num_positions; t < kBlockPositions; t++) products[t] = _mm512_setzero_ps();
    __m512 s = _mm512_mul_ps(sums_of(products), scale);
    maxima = _mm512_mask_max_ps(maxima, first_lanes(num_positions), maxima, s);
    _mm512_store_ps(scratch + p, s);
  }
  const float* weights[1] = {scratch};
  float sums[1] = {exponentiate(scratch, n, _mm512_reduce_max_ps(maxima))};
  float* outs[1] = {out};
  weighted_means<1>(weights, n, width, value, sums, outs);
}
