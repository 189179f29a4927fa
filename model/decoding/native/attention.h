// Attention of single positions. Keys that several positions look at (a source's) are kept in blocks of 16 positions,
// input by input, so that one instruction multiplies 16 of them; those of a row's own past stand position by position.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "products.h"

// How keys and values are kept: float for models in float32; for those in int8 two bytes are exact enough by far, and are
// read in half the time.
struct Half {
  uint16_t bits;
};
inline __m512 load16(const float* p) { return _mm512_loadu_ps(p); }
inline __m512 load16(const Half* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
inline void store16(float* p, __m512 x) { _mm512_storeu_ps(p, x); }
inline void store16(Half* p, __m512 x) {
  __m512 most = _mm512_set1_ps(65504.f);  // in this order NaN stays
  x = _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), most), _mm512_min_ps(most, x));
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

constexpr int kBlock = 16;
inline int blocks_of(int length) { return (length + kBlock - 1) / kBlock; }

// exp of `n` scores, none above `most`, in place; what stands behind them up to a whole block becomes 0. Gives their sum.
inline float exponentiate(float* scores, int n, float most) {
  __m512 sum = _mm512_setzero_ps(), vm = _mm512_set1_ps(most);
  for (int p = 0; p < n; p += kBlock) {
    __mmask16 m = n - p >= kBlock ? 0xffff : (1 << (n - p)) - 1;
    __m512 e = _mm512_maskz_mov_ps(m, exp512(_mm512_sub_ps(_mm512_load_ps(scores + p), vm)));
    sum = _mm512_add_ps(sum, e);
    _mm512_store_ps(scores + p, e);
  }
  return _mm512_reduce_add_ps(sum);
}

// out[row] = the values' mean by weight, one head of `width` numbers, for R rows that look at the same values.
template <int R, typename Value>
inline void mix(const float* const* weights, int n, int width, Value value, const float* sums, float* const* out) {
  for (int i = 0; i < width; i += 64) {
    int vectors = std::min(4, (width - i) / 16);
    __m512 acc[R][4];
    for (int r = 0; r < R; r++)
      for (int c = 0; c < 4; c++) acc[r][c] = _mm512_setzero_ps();
    if (vectors == 4) {
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
          __m512 v = load16(value(t) + i + c * 16);
          for (int r = 0; r < R; r++) acc[r][c] = _mm512_fmadd_ps(_mm512_set1_ps(weights[r][t]), v, acc[r][c]);
        }
    }
    for (int r = 0; r < R; r++) {
      __m512 inverse = _mm512_set1_ps(1.f / sums[r]);
      for (int c = 0; c < vectors; c++) _mm512_storeu_ps(out[r] + i + c * 16, _mm512_mul_ps(acc[r][c], inverse));
    }
  }
}

// One head of R queries that look at the same n positions. keys(b) is block b, [width][16]; value(t) the numbers of
// position t. `scratch` has room for R * n rounded up to blocks.
template <int R, typename Keys, typename Value>
inline void attend_together(const float* const* queries, int n, int width, Keys keys, Value value, float* const* out,
                            float* scratch) {
  int stride = blocks_of(n) * kBlock;
  __m512 scale = _mm512_set1_ps(1.f / std::sqrt((float)width));
  __m512 most[R];
  for (int r = 0; r < R; r++) most[r] = _mm512_set1_ps(-INFINITY);
  for (int b = 0; b * kBlock < n; b++) {
    auto k = keys(b);
    __m512 acc[R][4];  // four sums for each, lest every addition wait for the one before
    for (int r = 0; r < R; r++)
      for (int c = 0; c < 4; c++) acc[r][c] = _mm512_setzero_ps();
    for (int i = 0; i < width; i += 4, k += 64) {
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
    int left = n - b * kBlock;
    __mmask16 m = left >= kBlock ? 0xffff : (1 << left) - 1;
    for (int r = 0; r < R; r++) {
      __m512 s = _mm512_add_ps(_mm512_add_ps(acc[r][0], acc[r][1]), _mm512_add_ps(acc[r][2], acc[r][3]));
      s = _mm512_mul_ps(s, scale);
      most[r] = _mm512_mask_max_ps(most[r], m, most[r], s);
      _mm512_store_ps(scratch + r * stride + b * kBlock, s);
    }
  }
  const float* weights[R];
  float sums[R];
  for (int r = 0; r < R; r++) {
    weights[r] = scratch + r * stride;
    sums[r] = exponentiate(scratch + r * stride, n, _mm512_reduce_max_ps(most[r]));
  }
  mix<R>(weights, n, width, value, sums, out);
}

// The same for any number of rows.
template <typename Keys, typename Value>
inline void attend_together(int rows, const float* const* queries, int n, int width, Keys keys, Value value,
                            float* const* out, float* scratch) {
  for (int r = 0; r < rows;) {
    switch (std::min(4, rows - r)) {
      case 1: attend_together<1>(queries + r, n, width, keys, value, out + r, scratch); break;
      case 2: attend_together<2>(queries + r, n, width, keys, value, out + r, scratch); break;
      case 3: attend_together<3>(queries + r, n, width, keys, value, out + r, scratch); break;
      default: attend_together<4>(queries + r, n, width, keys, value, out + r, scratch);
    }
    r += std::min(4, rows - r);
  }
}

// The sums of 16 vectors, in their order: a tree of shuffles, a third of the work of 16 separate sums.
inline __m512 sums_of(const __m512* v) {
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
    c[i] = _mm512_add_ps(_mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0x88),
                         _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0xdd));
  return _mm512_add_ps(_mm512_shuffle_f32x4(c[0], c[1], 0x88), _mm512_shuffle_f32x4(c[0], c[1], 0xdd));
}

// One head of one query over its own n positions; key(t) and value(t) give the numbers of position t.
template <typename Key, typename Value>
inline void attend_alone(const float* query, int n, int width, Key key, Value value, float* out, float* scratch) {
  __m512 scale = _mm512_set1_ps(1.f / std::sqrt((float)width)), most = _mm512_set1_ps(-INFINITY);
  for (int p = 0; p < n; p += kBlock) {
    int left = std::min(kBlock, n - p);
    __m512 products[kBlock];
    for (int t = 0; t < left; t++) {
      auto k = key(p + t);
      __m512 s = _mm512_mul_ps(_mm512_loadu_ps(query), load16(k));
      for (int i = 16; i < width; i += 16) s = _mm512_fmadd_ps(_mm512_loadu_ps(query + i), load16(k + i), s);
      products[t] = s;
    }
    for (int t = left; t < kBlock; t++) products[t] = _mm512_setzero_ps();
    __m512 s = _mm512_mul_ps(sums_of(products), scale);
    __mmask16 m = left >= kBlock ? 0xffff : (1 << left) - 1;
    most = _mm512_mask_max_ps(most, m, most, s);
    _mm512_store_ps(scratch + p, s);
  }
  const float* weights[1] = {scratch};
  float sums[1] = {exponentiate(scratch, n, _mm512_reduce_max_ps(most))};
  float* outs[1] = {out};
  mix<1>(weights, n, width, value, sums, outs);
}
