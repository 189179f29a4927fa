// Products with weight matrices, in int8 and float32, and what stands directly behind them.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "memory.h"
#include "team.h"

// 64 outputs of a product: packed weights, and what stands behind the sums.
struct Columns {
  const void* weights;
  const float *scale, *bias;
  const int32_t* comp;
};

// A product with a weight matrix of n outputs and k inputs, packed in blocks of 64 outputs (nb of them): for float32
// [block][input][64], for int8 [block][four inputs][64][4], which is what one VNNI instruction reads. Outputs beyond n in
// the last block come out as `beyond`.
struct Linear {
  int n = 0, k = 0, nb = 0, k4 = 0;
  bool q = false;
  Aligned<int8_t> w8;
  Aligned<float> w32, scale, bias;
  Aligned<int32_t> comp;
  Columns block(int b) const {
    if (q) return {w8.data() + (size_t)b * k4 * 256, scale.data() + b * 64, bias.data() + b * 64, comp.data() + b * 64};
    return {w32.data() + (size_t)b * k * 64, nullptr, bias.data() + b * 64, nullptr};
  }
  void shape(int n_, int k_, const float* b, float beyond) {
    n = n_;
    k = k_;
    nb = (n + 63) / 64;
    k4 = (k + 3) / 4;
    bias.resize(nb * 64);
    std::fill(bias.data(), bias.data() + nb * 64, beyond);
    std::fill(bias.data(), bias.data() + n, 0.f);
    if (b) std::memcpy(bias.data(), b, n * sizeof(float));
  }
  void pack(const float* w, const float* b, int n_, int k_, float beyond) {
    shape(n_, k_, b, beyond);
    w32.resize((size_t)nb * k * 64);
    std::memset(w32.data(), 0, (size_t)nb * k * 64 * sizeof(float));
    for (int j = 0; j < n; j++)
      for (int i = 0; i < k; i++) w32.data()[((size_t)(j / 64) * k + i) * 64 + j % 64] = w[(size_t)j * k + i];
  }
  void pack(const int8_t* w, const float* scales, const float* b, int n_, int k_, float beyond) {
    shape(n_, k_, b, beyond);
    q = true;
    scale.resize(nb * 64);
    comp.resize(nb * 64);
    std::memset(scale.data(), 0, nb * 64 * sizeof(float));
    std::memset(comp.data(), 0, nb * 64 * sizeof(int32_t));
    w8.resize((size_t)nb * k4 * 256);
    std::memset(w8.data(), 0, (size_t)nb * k4 * 256);
    for (int j = 0; j < n; j++) {
      int32_t sum = 0;
      for (int i = 0; i < k; i++) {
        int8_t v = w[(size_t)j * k + i];
        sum += v;
        w8.data()[(((size_t)(j / 64) * k4 + i / 4) * 64 + j % 64) * 4 + i % 4] = v;
      }
      scale.data()[j] = scales[j];
      comp.data()[j] = sum * 128;  // activations are shifted by 128, because VNNI takes one side unsigned
    }
  }
};

// Rounds one row of k activations to bytes around 128, filled up to kpad; returns what one step is worth.
inline float quantise(const float* x, int k, uint8_t* o, int kpad) {
  __m512 m = _mm512_setzero_ps();
  int i = 0;
  for (; i + 16 <= k; i += 16) m = _mm512_max_ps(m, _mm512_abs_ps(_mm512_loadu_ps(x + i)));
  float a = _mm512_reduce_max_ps(m);
  for (int j = i; j < k; j++) a = std::max(a, std::fabs(x[j]));
  a = std::max(a, 1e-12f);
  float inv = 127.f / a;
  __m512 vi = _mm512_set1_ps(inv);
  for (i = 0; i + 16 <= k; i += 16) {
    __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), vi));
    __m128i b = _mm512_cvtsepi32_epi8(v);
    _mm_storeu_si128((__m128i*)(o + i), _mm_xor_si128(b, _mm_set1_epi8((char)0x80)));
  }
  for (; i < k; i++) o[i] = (uint8_t)((int)std::nearbyint(x[i] * inv) + 128);
  for (; i < kpad; i++) o[i] = 128;
  return a / 127.f;
}

enum Act { NONE = 0, RELU = 1, SILU = 2 };

// e to the power of x, to the last digit but one (Cephes' polynomial).
inline __m512 exp512(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-87.f), _mm512_min_ps(_mm512_set1_ps(88.f), x));  // in this order NaN stays
  __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f));
  __m512 r = _mm512_roundscale_ps(t, 8);
  __m512 f = _mm512_fnmadd_ps(r, _mm512_set1_ps(0.693359375f), x);
  f = _mm512_fnmadd_ps(r, _mm512_set1_ps(-2.12194440e-4f), f);
  __m512 p = _mm512_set1_ps(1.9875691500E-4f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.3981999507E-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(8.3334519073E-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(4.1665795894E-2f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.6666665459E-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.0000001201E-1f));
  p = _mm512_fmadd_ps(_mm512_mul_ps(f, f), p, _mm512_add_ps(f, _mm512_set1_ps(1.f)));
  return _mm512_scalef_ps(p, r);
}

inline __m512 activate(__m512 v, int act) {
  if (act == RELU) return _mm512_max_ps(_mm512_setzero_ps(), v);  // in this order NaN stays
  if (act == SILU)
    return _mm512_div_ps(v, _mm512_add_ps(_mm512_set1_ps(1.f), exp512(_mm512_sub_ps(_mm512_setzero_ps(), v))));
  return v;
}

// MR rows times one block of 64 int8 outputs, in 4 * MR accumulators. Behind the product: undo the shift of the
// activations (comp), scale by row (sx) and output (sw), add the bias, activate, add the residual.
template <int MR>
inline void tile8(const uint8_t* a, int lda, const int8_t* w, int k4, const float* sx, const float* sw,
                  const int32_t* comp, const float* bias, float* out, int ldo, int cols, int act, const float* res) {
  __m512i acc[MR][4];
#pragma GCC unroll 8
  for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) acc[r][c] = _mm512_setzero_si512();
  for (int i = 0; i < k4; i++, w += 256) {
    __m512i b0 = _mm512_load_si512(w), b1 = _mm512_load_si512(w + 64), b2 = _mm512_load_si512(w + 128),
            b3 = _mm512_load_si512(w + 192);
#pragma GCC unroll 8
    for (int r = 0; r < MR; r++) {
      __m512i x = _mm512_set1_epi32(*(const int32_t*)(a + (size_t)r * lda + i * 4));
      // GCC 12 spills the accumulators of the intrinsic.
      asm("vpdpbusd %1,%2,%0" : "+v"(acc[r][0]) : "v"(b0), "v"(x));
      asm("vpdpbusd %1,%2,%0" : "+v"(acc[r][1]) : "v"(b1), "v"(x));
      asm("vpdpbusd %1,%2,%0" : "+v"(acc[r][2]) : "v"(b2), "v"(x));
      asm("vpdpbusd %1,%2,%0" : "+v"(acc[r][3]) : "v"(b3), "v"(x));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
      int left = cols - c * 16;
      __mmask16 m = left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1;
      __m512 v = _mm512_cvtepi32_ps(_mm512_sub_epi32(acc[r][c], _mm512_load_si512(comp + c * 16)));
      v = _mm512_fmadd_ps(v, _mm512_mul_ps(_mm512_set1_ps(sx[r]), _mm512_load_ps(sw + c * 16)),
                          _mm512_load_ps(bias + c * 16));
      v = activate(v, act);
      if (res) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, res + (size_t)r * ldo + c * 16));
      _mm512_mask_storeu_ps(out + (size_t)r * ldo + c * 16, m, v);
    }
}

// The processor's own look ahead ends with each page, and float32 weights of larger models come from memory: fetch the next
// page's 256 bytes. (In int8 this costs more than it gives.)
inline void prefetch(const float* w) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) _mm_prefetch(reinterpret_cast<const char*>(w) + 4096 + i * 64, _MM_HINT_T0);
}

// The same in float32.
template <int MR>
inline void tile32(const float* a, int lda, const float* w, int k, const float* bias, float* out, int ldo, int cols,
                   int act, const float* res) {
  __m512 acc[MR][4];
#pragma GCC unroll 8
  for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) acc[r][c] = _mm512_load_ps(bias + c * 16);
  for (int i = 0; i < k; i++, w += 64) {
    prefetch(w);
    __m512 b0 = _mm512_load_ps(w), b1 = _mm512_load_ps(w + 16), b2 = _mm512_load_ps(w + 32),
           b3 = _mm512_load_ps(w + 48);
#pragma GCC unroll 8
    for (int r = 0; r < MR; r++) {
      __m512 x = _mm512_set1_ps(a[(size_t)r * lda + i]);
      acc[r][0] = _mm512_fmadd_ps(x, b0, acc[r][0]);
      acc[r][1] = _mm512_fmadd_ps(x, b1, acc[r][1]);
      acc[r][2] = _mm512_fmadd_ps(x, b2, acc[r][2]);
      acc[r][3] = _mm512_fmadd_ps(x, b3, acc[r][3]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
      int left = cols - c * 16;
      __mmask16 m = left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1;
      __m512 v = activate(acc[r][c], act);
      if (res) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, res + (size_t)r * ldo + c * 16));
      _mm512_mask_storeu_ps(out + (size_t)r * ldo + c * 16, m, v);
    }
}

// A product's input, rounded where the weights are.
struct Input {
  Aligned<uint8_t> bytes;
  Aligned<float> worth;  // of one step, by row

  void round(const Linear& l, const float* x, int ldx, int rows) {
    int kp = l.k4 * 4;
    bytes.resize((size_t)rows * kp);
    worth.resize(rows);
    for (int r = 0; r < rows; r++)
      worth.data()[r] = quantise(x + (size_t)r * ldx, l.k, bytes.data() + (size_t)r * kp, kp);
  }
};

// Rows [r, r + m) times 64 outputs of a product, or of one that is packed like it; m is 1 to 6.
inline void tile(const Linear& l, const Columns& b, const float* x, int ldx, const Input& input, int r, int m, float* out,
                 int ldo, int cols, int act, const float* res) {
  if (l.q) {
    int kp = l.k4 * 4;
    const uint8_t* a = input.bytes.data() + (size_t)r * kp;
    const int8_t* w = static_cast<const int8_t*>(b.weights);
    const float* sx = input.worth.data() + r;
#define T8(m)                                                                             \
  case m:                                                                                 \
    tile8<m>(a, kp, w, l.k4, sx, b.scale, b.comp, b.bias, out, ldo, cols, act, res); \
    break;
    switch (m) { T8(1) T8(2) T8(3) T8(4) T8(5) T8(6) }
#undef T8
  } else {
    const float* a = x + (size_t)r * ldx;
    const float* w = static_cast<const float*>(b.weights);
#define T32(m)                                                       \
  case m:                                                            \
    tile32<m>(a, ldx, w, l.k, b.bias, out, ldo, cols, act, res); \
    break;
    switch (m) { T32(1) T32(2) T32(3) T32(4) T32(5) T32(6) }
#undef T32
  }
}

// How many of the rows left come next, so that tiles are about alike.
inline int tile_rows(int left) {
  int tiles = (left + 5) / 6;
  return (left + tiles - 1) / tiles;
}

// Products smaller than this many multiply-adds are quicker done than shared.
constexpr double kWorthSharing = 1e5;

// What a worker needs for its products.
struct Hands {
  Input input;
  Team* team = nullptr;  // where it has one
  Aligned<float> outputs;
};

// Blocks of 64 outputs, all of them or in pieces for the team.
template <typename Block>
inline void each_block(const Linear& l, int rows, Team* team, const Block& block) {
  int pieces = team && (double)rows * l.n * l.k >= kWorthSharing ? std::min(8, l.nb) : 1;
  auto piece = [&](int i) {
    for (int b = l.nb * i / pieces; b < l.nb * (i + 1) / pieces; b++) block(b);
  };
  if (pieces > 1) team->share(pieces, piece);
  else piece(0);
}

// out[rows, n] = act(x[rows, k] W^T + b) + res; res may be out.
inline void multiply(const Linear& l, const float* x, int ldx, int rows, float* out, int ldo, int act, const float* res,
                     Hands& hands) {
  if (l.q) hands.input.round(l, x, ldx, rows);
  each_block(l, rows, hands.team, [&](int b) {
    int cols = std::min(64, l.n - b * 64);
    for (int r = 0, m; r < rows; r += m) {
      m = tile_rows(rows - r);
      size_t place = (size_t)r * ldo + b * 64;
      tile(l, l.block(b), x, ldx, hands.input, r, m, out + place, ldo, cols, act, res ? res + place : nullptr);
    }
  });
}

// The same for who reads the result once: read(row, values, first) gets 64 outputs at a time, in order, while they are
// warm. Those beyond n are what the bias says: minus infinity.
template <typename Read>
inline void multiply_and_read(const Linear& l, const float* x, int ldx, int rows, Hands& hands, Read read) {
  if (l.q) hands.input.round(l, x, ldx, rows);
  if (hands.team) {
    int width = l.nb * 64;
    hands.outputs.resize((size_t)rows * width);
    float* out = hands.outputs.data();
    each_block(l, rows, hands.team, [&](int b) {
      for (int r = 0, m; r < rows; r += m) {
        m = tile_rows(rows - r);
        tile(l, l.block(b), x, ldx, hands.input, r, m, out + (size_t)r * width + b * 64, width, 64, NONE, nullptr);
      }
    });
    for (int r = 0; r < rows; r++)
      for (int b = 0; b < l.nb; b++) read(r, out + (size_t)r * width + b * 64, b * 64);
    return;
  }
  alignas(64) float values[6 * 64];
  for (int b = 0; b < l.nb; b++)
    for (int r = 0, m; r < rows; r += m) {
      m = tile_rows(rows - r);
      tile(l, l.block(b), x, ldx, hands.input, r, m, values, 64, 64, NONE, nullptr);
      for (int i = 0; i < m; i++) read(r + i, values + i * 64, b * 64);
    }
}

// Rows [first, first + rows) of the same input, once more, times 64 outputs that are packed like those of `l`.
template <typename Read>
inline void read_more(const Linear& l, const Columns& columns, const float* x, int ldx, int first, int rows,
                      const Hands& hands, Read read) {
  alignas(64) float values[6 * 64];
  for (int r = first, m; r < first + rows; r += m) {
    m = tile_rows(first + rows - r);
    tile(l, columns, x, ldx, hands.input, r, m, values, 64, 64, NONE, nullptr);
    for (int i = 0; i < m; i++) read(r + i, values + i * 64);
  }
}
