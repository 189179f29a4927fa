// Encoder and decoder of model/transformer.py for x86 processors with AVX-512, as a library without dependencies.
//
// What it does differently from torch, and why it is faster:
// - A whole step is one call: no operator is dispatched, nothing is allocated for each.
// - int8 products use VNNI with weights packed in blocks of 64 outputs; a row's scale comes from the row itself.
// - Rows do not know of each other: every row has its own keys and values, page by page, and as many as it needs.
//   Nothing is padded; joining, leaving and reordering a beam move pointers.
// - Threads share rows, not products, so that they never wait for each other within a step.
// A row's sums are taken in the same order however many rows there are: answers do not depend on the company.

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

// Memory on cache lines; growing forgets what was in it.
template <typename T>
struct Aligned {
  T* p = nullptr;
  size_t n = 0;
  Aligned() = default;
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  Aligned(Aligned&& other) noexcept : p(other.p), n(other.n) {
    other.p = nullptr;
    other.n = 0;
  }
  void resize(size_t m) {
    if (m <= n) return;
    std::free(p);
    n = 0;
    p = static_cast<T*>(std::aligned_alloc(64, (m * sizeof(T) + 127) / 64 * 64));
    if (p == nullptr) throw std::bad_alloc();
    n = m;
  }
  ~Aligned() { std::free(p); }
  T* data() const { return p; }
};

// A product with a weight matrix of n outputs and k inputs, packed in blocks of 64 outputs (nb of them): for float32
// [block][input][64], for int8 [block][four inputs][64][4], which is what one VNNI instruction reads.
struct Linear {
  int n = 0, k = 0, nb = 0, k4 = 0;
  bool q = false;
  Aligned<int8_t> w8;
  Aligned<float> w32, scale, bias;
  Aligned<int32_t> comp;
  void shape(int n_, int k_, const float* b) {
    n = n_;
    k = k_;
    nb = (n + 63) / 64;
    k4 = (k + 3) / 4;
    bias.resize(nb * 64);
    std::memset(bias.data(), 0, nb * 64 * sizeof(float));
    if (b) std::memcpy(bias.data(), b, n * sizeof(float));
  }
  void pack(const float* w, const float* b, int n_, int k_) {
    shape(n_, k_, b);
    w32.resize((size_t)nb * k * 64);
    std::memset(w32.data(), 0, (size_t)nb * k * 64 * sizeof(float));
    for (int j = 0; j < n; j++)
      for (int i = 0; i < k; i++) w32.data()[((size_t)(j / 64) * k + i) * 64 + j % 64] = w[(size_t)j * k + i];
  }
  void pack(const int8_t* w, const float* scales, const float* b, int n_, int k_) {
    shape(n_, k_, b);
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
  x = _mm512_max_ps(_mm512_min_ps(x, _mm512_set1_ps(88.f)), _mm512_set1_ps(-87.f));
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
  if (act == RELU) return _mm512_max_ps(v, _mm512_setzero_ps());
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

struct Scratch {
  Aligned<uint8_t> a8;
  Aligned<float> sx;
};

// out[M,n] = act(x[M,k] W^T + b) + res; res may be out
void gemm(const Linear& L, const float* x, int ldx, int M, float* out, int ldo, int act, const float* res, Scratch& s) {
  int kp = L.k4 * 4;
  if (L.q) {
    s.a8.resize((size_t)M * kp);
    s.sx.resize(M);
    for (int r = 0; r < M; r++) s.sx.data()[r] = quantise(x + (size_t)r * ldx, L.k, s.a8.data() + (size_t)r * kp, kp);
  }
  for (int b = 0; b < L.nb; b++) {
    int cols = std::min(64, L.n - b * 64);
    for (int r = 0; r < M;) {
      int left = M - r, tiles = (left + 5) / 6, m = (left + tiles - 1) / tiles;
      float* o = out + (size_t)r * ldo + b * 64;
      const float* rs = res ? res + (size_t)r * ldo + b * 64 : nullptr;
      if (L.q) {
        const uint8_t* a = s.a8.data() + (size_t)r * kp;
        const int8_t* w = L.w8.data() + (size_t)b * L.k4 * 256;
#define T8(m)                                                                                                          \
  case m:                                                                                                              \
    tile8<m>(a, kp, w, L.k4, s.sx.data() + r, L.scale.data() + b * 64, L.comp.data() + b * 64, L.bias.data() + b * 64, \
             o, ldo, cols, act, rs);                                                                                   \
    break;
        switch (m) { T8(1) T8(2) T8(3) T8(4) T8(5) T8(6) }
      } else {
        const float* a = x + (size_t)r * ldx;
        const float* w = L.w32.data() + (size_t)b * L.k * 64;
#define T32(m)                                                                \
  case m:                                                                     \
    tile32<m>(a, ldx, w, L.k, L.bias.data() + b * 64, o, ldo, cols, act, rs); \
    break;
        switch (m) { T32(1) T32(2) T32(3) T32(4) T32(5) T32(6) }
      }
      r += m;
    }
  }
}

struct Norm {
  std::vector<float> g, b;
};
void layer_norm(const Norm& n, const float* x, float* o, int M, int C, float eps) {
  for (int r = 0; r < M; r++) {
    const float* p = x + (size_t)r * C;
    float* q = o + (size_t)r * C;
    __m512 s = _mm512_setzero_ps(), s2 = s;
    for (int i = 0; i < C; i += 16) {
      __m512 v = _mm512_loadu_ps(p + i);
      s = _mm512_add_ps(s, v);
    }
    float mean = _mm512_reduce_add_ps(s) / C;
    __m512 vm = _mm512_set1_ps(mean);
    for (int i = 0; i < C; i += 16) {
      __m512 v = _mm512_sub_ps(_mm512_loadu_ps(p + i), vm);
      s2 = _mm512_fmadd_ps(v, v, s2);
    }
    __m512 inv = _mm512_set1_ps(1.f / std::sqrt(_mm512_reduce_add_ps(s2) / C + eps));
    for (int i = 0; i < C; i += 16) {
      __m512 v = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(p + i), vm), inv);
      _mm512_storeu_ps(q + i, _mm512_fmadd_ps(v, _mm512_loadu_ps(&n.g[i]), _mm512_loadu_ps(&n.b[i])));
    }
  }
}

struct EncLayer {
  Linear qkv, o, wide, narrow;
  Norm n1, n2;
};
struct DecLayer {
  Linear qkv, o, q, kv, co, wide, narrow;
  Norm n1, n2, n3;
};

struct Model {
  int C, V, act;
  int EH, EF, E;  // heads, width and layers of the encoder
  int H, F, L;    // of the decoder
  bool pre;
  float source_scale, target_scale, eps;
  const float *src_emb, *tgt_emb, *src_pos, *tgt_pos;  // the caller's, who keeps them
  int source_vocab, positions;
  double step_work = 0;  // multiply-adds of one row's step
  std::vector<EncLayer> enc;
  std::vector<DecLayer> dec;
  Norm en, dn;
  Linear out;
};

inline float dot(const float* a, const float* b, int D) {
  __m512 s = _mm512_setzero_ps();
  for (int i = 0; i < D; i += 16) s = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), s);
  return _mm512_reduce_add_ps(s);
}

// one query row over T positions; key(p), value(p) give C floats
template <typename KF, typename VF>
inline void attend(const float* q, int T, int H, int D, KF key, VF val, float* o, float* sc) {
  float is = 1.f / std::sqrt((float)D);
  for (int h = 0; h < H; h++) {
    float mx = -1e30f;
    for (int p = 0; p < T; p++) {
      float v = dot(q + h * D, key(p) + h * D, D) * is;
      sc[p] = v;
      mx = std::max(mx, v);
    }
    float sum = 0;
    int p = 0;
    __m512 vs = _mm512_setzero_ps(), vm = _mm512_set1_ps(mx);
    for (; p + 16 <= T; p += 16) {
      __m512 e = exp512(_mm512_sub_ps(_mm512_loadu_ps(sc + p), vm));
      vs = _mm512_add_ps(vs, e);
      _mm512_storeu_ps(sc + p, e);
    }
    if (p < T) {
      __mmask16 m = (1 << (T - p)) - 1;
      __m512 e = _mm512_maskz_mov_ps(m, exp512(_mm512_sub_ps(_mm512_maskz_loadu_ps(m, sc + p), vm)));
      vs = _mm512_add_ps(vs, e);
      _mm512_mask_storeu_ps(sc + p, m, e);
    }
    sum = _mm512_reduce_add_ps(vs);
    float inv = 1.f / sum;
    for (int i = 0; i < D; i += 16) {
      __m512 a = _mm512_setzero_ps();
      for (int t = 0; t < T; t++) a = _mm512_fmadd_ps(_mm512_set1_ps(sc[t]), _mm512_loadu_ps(val(t) + h * D + i), a);
      _mm512_storeu_ps(o + h * D + i, _mm512_mul_ps(a, _mm512_set1_ps(inv)));
    }
  }
}

struct Work {
  Scratch s;
  Aligned<float> x, y, qkv, ctx, hid, q, logits, sc;
};

// Encode sentences laid end to end, then project each one's memory: memory[b] gets [L][len][2C].
void encode(const Model& m, const int32_t* ids, const int32_t* len, int B, float* const* memory, Work& w) {
  int C = m.C, T = 0;
  for (int b = 0; b < B; b++) T += len[b];
  w.x.resize((size_t)T * C);
  w.y.resize((size_t)T * C);
  w.qkv.resize((size_t)T * 3 * C);
  w.ctx.resize((size_t)T * C);
  w.hid.resize((size_t)T * m.EF);
  w.sc.resize(T + 16);
  float* x = w.x.data();
  float* y = w.y.data();
  for (int b = 0, t = 0; b < B; b++)
    for (int p = 0; p < len[b]; p++, t++) {
      const float* e = &m.src_emb[(size_t)ids[t] * C];
      const float* ps = &m.src_pos[(size_t)p * C];
      for (int i = 0; i < C; i++) x[(size_t)t * C + i] = e[i] * m.source_scale + ps[i];
    }
  for (auto& l : m.enc) {
    const float* in = x;
    if (m.pre) {
      layer_norm(l.n1, x, y, T, C, m.eps);
      in = y;
    }
    gemm(l.qkv, in, C, T, w.qkv.data(), 3 * C, NONE, nullptr, w.s);
    for (int b = 0, t0 = 0; b < B; t0 += len[b], b++)
      for (int p = 0; p < len[b]; p++) {
        const float* base = w.qkv.data() + (size_t)t0 * 3 * C;
        attend(
            base + (size_t)p * 3 * C, len[b], m.EH, C / m.EH, [&](int i) { return base + (size_t)i * 3 * C + C; },
            [&](int i) { return base + (size_t)i * 3 * C + 2 * C; }, w.ctx.data() + (size_t)(t0 + p) * C, w.sc.data());
      }
    gemm(l.o, w.ctx.data(), C, T, x, C, NONE, x, w.s);
    if (!m.pre) layer_norm(l.n1, x, x, T, C, m.eps);
    in = x;
    if (m.pre) {
      layer_norm(l.n2, x, y, T, C, m.eps);
      in = y;
    }
    gemm(l.wide, in, C, T, w.hid.data(), m.EF, m.act, nullptr, w.s);
    gemm(l.narrow, w.hid.data(), m.EF, T, x, C, NONE, x, w.s);
    if (!m.pre) layer_norm(l.n2, x, x, T, C, m.eps);
  }
  if (m.pre) layer_norm(m.en, x, x, T, C, m.eps);
  for (int b = 0, t0 = 0; b < B; t0 += len[b], b++)
    for (int i = 0; i < m.L; i++)
      gemm(m.dec[i].kv, x + (size_t)t0 * C, C, len[b], memory[b] + (size_t)i * len[b] * 2 * C, 2 * C, NONE, nullptr,
           w.s);
}

struct Page {
  int refs;
};  // behind it, a cache line further, keys and values of one position: [L][2][C]
inline float* content(Page* page) { return reinterpret_cast<float*>(reinterpret_cast<char*>(page) + 64); }

struct Row {
  std::vector<Page*> pages;  // one for each position so far, this step's included
  const float* memory;       // keys and values of the source, [L][length][2C]
  int length;                // tokens of the source
  int32_t token;             // this step's input
  float* logits;             // for the answer, V
};

// One decoding step of rows [begin, end).
void step(const Model& m, Row* const* rows, int R, Work& w) {
  int C = m.C;
  w.x.resize((size_t)R * C);
  w.y.resize((size_t)R * C);
  w.qkv.resize((size_t)R * 3 * C);
  w.ctx.resize((size_t)R * C);
  w.hid.resize((size_t)R * m.F);
  w.q.resize((size_t)R * C);
  size_t longest = 0;
  for (int r = 0; r < R; r++) longest = std::max(longest, std::max(rows[r]->pages.size(), (size_t)rows[r]->length));
  w.sc.resize(longest + 16);
  w.logits.resize((size_t)R * m.V);
  float* x = w.x.data();
  float* y = w.y.data();
  for (int r = 0; r < R; r++) {
    const float* e = &m.tgt_emb[(size_t)rows[r]->token * C];
    const float* ps = &m.tgt_pos[(rows[r]->pages.size() - 1) * C];
    for (int i = 0; i < C; i++) x[(size_t)r * C + i] = e[i] * m.target_scale + ps[i];
  }
  for (int li = 0; li < m.L; li++) {
    auto& l = m.dec[li];
    const float* in = x;
    if (m.pre) {
      layer_norm(l.n1, x, y, R, C, m.eps);
      in = y;
    }
    gemm(l.qkv, in, C, R, w.qkv.data(), 3 * C, NONE, nullptr, w.s);
    for (int r = 0; r < R; r++) {
      const float* q = w.qkv.data() + (size_t)r * 3 * C;
      Page* const* pg = rows[r]->pages.data();
      int T = (int)rows[r]->pages.size();
      size_t off = (size_t)li * 2 * C;
      std::memcpy(content(pg[T - 1]) + off, q + C, 2 * C * sizeof(float));
      attend(
          q, T, m.H, C / m.H, [&](int i) { return content(pg[i]) + off; },
          [&](int i) { return content(pg[i]) + off + C; }, w.ctx.data() + (size_t)r * C, w.sc.data());
    }
    gemm(l.o, w.ctx.data(), C, R, x, C, NONE, x, w.s);
    if (!m.pre) layer_norm(l.n1, x, x, R, C, m.eps);
    in = x;
    if (m.pre) {
      layer_norm(l.n2, x, y, R, C, m.eps);
      in = y;
    }
    gemm(l.q, in, C, R, w.q.data(), C, NONE, nullptr, w.s);
    for (int r = 0; r < R; r++) {
      const float* base = rows[r]->memory + (size_t)li * rows[r]->length * 2 * C;
      attend(
          w.q.data() + (size_t)r * C, rows[r]->length, m.H, C / m.H, [&](int i) { return base + (size_t)i * 2 * C; },
          [&](int i) { return base + (size_t)i * 2 * C + C; }, w.ctx.data() + (size_t)r * C, w.sc.data());
    }
    gemm(l.co, w.ctx.data(), C, R, x, C, NONE, x, w.s);
    if (!m.pre) layer_norm(l.n2, x, x, R, C, m.eps);
    in = x;
    if (m.pre) {
      layer_norm(l.n3, x, y, R, C, m.eps);
      in = y;
    }
    gemm(l.wide, in, C, R, w.hid.data(), m.F, m.act, nullptr, w.s);
    gemm(l.narrow, w.hid.data(), m.F, R, x, C, NONE, x, w.s);
    if (!m.pre) layer_norm(l.n3, x, x, R, C, m.eps);
  }
  if (m.pre) layer_norm(m.dn, x, x, R, C, m.eps);
  gemm(m.out, x, C, R, w.logits.data(), m.V, NONE, nullptr, w.s);
  for (int r = 0; r < R; r++) std::memcpy(rows[r]->logits, w.logits.data() + (size_t)r * m.V, m.V * sizeof(float));
}

// Threads that wait for work; they live as long as the process.
class Pool {
 public:
  // Run part(0) ... part(n - 1), the first of them here.
  void run(int n, const std::function<void(int)>& part) {
    if (n <= 1) {
      part(0);
      return;
    }
    std::lock_guard<std::mutex> one_at_a_time(callers_);
    failure_ = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while ((int)threads_.size() < n - 1) {
        int number = (int)threads_.size() + 1;
        threads_.emplace_back([this, number] { serve(number); });
        threads_.back().detach();
      }
      part_ = &part;
      wanted_ = n;
      left_ = n - 1;
      turn_++;
    }
    wake_.notify_all();
    attempt(part, 0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void attempt(const std::function<void(int)>& part, int number) {
    try {
      part(number);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  void serve(int number) {
    uint64_t seen = 0;
    for (;;) {
      const std::function<void(int)>* part;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return turn_ != seen; });
        seen = turn_;
        if (number >= wanted_) continue;
        part = part_;
      }
      attempt(*part, number);
      std::lock_guard<std::mutex> lock(mutex_);
      if (--left_ == 0) done_.notify_one();
    }
  }
  std::mutex callers_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* part_ = nullptr;
  int wanted_ = 0, left_ = 0;
  std::exception_ptr failure_;
  uint64_t turn_ = 0;
};

Pool& pool() {
  static Pool* one = new Pool();  // never destroyed: its threads may outlive main
  return *one;
}

// Below this many multiply-adds, waking a thread takes longer than it helps.
constexpr double kWorthAThread = 30e6;

int parts_for(int items, int threads, double work) {
  return std::max(1, std::min({threads, items, (int)(work / kWorthAThread)}));
}

struct Sentence {
  Aligned<float> memory;
  std::vector<Row> rows;
};

// Sentences that decode together, K rows each.
class State {
 public:
  State(const Model& model, int width) : m(model), width(width) {}
  ~State() {
    for (void* block : blocks) std::free(block);
  }

  void join(const int32_t* ids, const int32_t* lengths, int n, const int32_t* prefix, int num_prefix, float* logits,
            int threads) {
    size_t old = sentences.size();
    size_t total = 0;
    for (int i = 0; i < n; i++) {
      if (lengths[i] < 1 || lengths[i] > m.positions) throw std::out_of_range("length");
      total += lengths[i];
    }
    for (size_t i = 0; i < total; i++)
      if (ids[i] < 0 || ids[i] >= m.source_vocab) throw std::out_of_range("token");
    sentences.resize(old + n);
    std::vector<size_t> offset(n + 1, 0);
    for (int i = 0; i < n; i++) offset[i + 1] = offset[i] + lengths[i];
    std::vector<float*> memory(n);
    std::vector<Row*> first(n);
    for (int i = 0; i < n; i++) {
      Sentence& s = sentences[old + i];
      s.memory.resize((size_t)m.L * lengths[i] * 2 * m.C);
      memory[i] = s.memory.data();
      s.rows.resize(1);
      s.rows[0].memory = memory[i];
      s.rows[0].length = lengths[i];
      s.rows[0].logits = logits + (size_t)i * m.V;
      first[i] = &s.rows[0];
    }
    int parts = parts_for(n, threads, m.step_work * offset[n]);
    works.resize(std::max(works.size(), (size_t)parts));
    pool().run(parts, [&](int part) {
      int begin = n * part / parts, end = n * (part + 1) / parts;
      encode(m, ids + offset[begin], lengths + begin, end - begin, memory.data() + begin, works[part]);
    });
    for (int p = 0; p < num_prefix; p++) {
      for (int i = 0; i < n; i++) {
        first[i]->token = prefix[i * num_prefix + p];
        first[i]->pages.push_back(new_page());
      }
      advance(first, threads);
    }
    for (int i = 0; i < n; i++) {
      Sentence& s = sentences[old + i];
      for (int r = 1; r < width; r++) {
        s.rows.push_back(s.rows[0]);
        for (Page* page : s.rows[0].pages) page->refs++;
      }
    }
  }

  void next(const int32_t* tokens, float* logits, int threads) {
    std::vector<Row*> rows;
    for (Sentence& s : sentences)
      for (Row& row : s.rows) {
        row.token = tokens[rows.size()];
        row.logits = logits + rows.size() * m.V;
        row.pages.push_back(new_page());
        rows.push_back(&row);
      }
    advance(rows, threads);
  }

  void reorder(const int64_t* parents) {
    for (size_t i = 0; i < sentences.size(); i++) {
      std::vector<Row>& rows = sentences[i].rows;
      std::vector<std::vector<Page*>> before(width);
      for (int r = 0; r < width; r++) before[r] = rows[r].pages;
      for (int r = 0; r < width; r++) {
        int64_t parent = parents[i * width + r];
        if (parent == r) continue;
        for (Page* page : before[parent]) page->refs++;
        rows[r].pages = before[parent];
      }
      // Only now: a page one row lets go of may be what another goes on from.
      for (int r = 0; r < width; r++)
        if (parents[i * width + r] != r)
          for (Page* page : before[r]) release(page);
    }
  }

  void keep(const int64_t* indices, int n) {
    std::vector<Sentence> kept;
    kept.reserve(n);
    std::vector<bool> stays(sentences.size(), false);
    for (int i = 0; i < n; i++) stays[indices[i]] = true;
    for (size_t i = 0; i < sentences.size(); i++)
      if (!stays[i])
        for (Row& row : sentences[i].rows)
          for (Page* page : row.pages) release(page);
    for (int i = 0; i < n; i++) kept.push_back(std::move(sentences[indices[i]]));
    sentences = std::move(kept);
  }

 private:
  void advance(std::vector<Row*>& rows, int threads) {
    for (const Row* row : rows)
      if (row->token < 0 || row->token >= m.V || (int)row->pages.size() > m.positions) throw std::out_of_range("step");
    int R = (int)rows.size(), parts = parts_for(R, threads, m.step_work * R);
    works.resize(std::max(works.size(), (size_t)parts));
    pool().run(parts, [&](int part) {
      int begin = R * part / parts, end = R * (part + 1) / parts;
      step(m, rows.data() + begin, end - begin, works[part]);
    });
  }

  Page* new_page() {
    if (free_pages.empty()) {
      size_t size = 64 + (size_t)m.L * 2 * m.C * sizeof(float), count = std::max<size_t>(1, (1 << 20) / size);
      char* block = static_cast<char*>(std::aligned_alloc(64, size * count));
      if (block == nullptr) throw std::bad_alloc();
      blocks.push_back(block);
      for (size_t i = 0; i < count; i++) free_pages.push_back(reinterpret_cast<Page*>(block + i * size));
    }
    Page* page = free_pages.back();
    free_pages.pop_back();
    page->refs = 1;
    return page;
  }
  void release(Page* page) {
    if (--page->refs == 0) free_pages.push_back(page);
  }

  const Model& m;
  int width;
  std::vector<Sentence> sentences;
  std::vector<Page*> free_pages;
  std::vector<void*> blocks;
  std::vector<Work> works;
};

template <typename F>
int guarded(F run) {
  try {
    run();
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  } catch (const std::out_of_range&) {
    return 2;
  } catch (...) {
    return 3;
  }
}

}  // namespace

extern "C" {

// What a product is made of: float32 weights, or int8 weights with a scale for each output.
struct LinearSource {
  const float* weight;
  const int8_t* rounded;
  const float* scales;
  const float* bias;
  int32_t outputs, inputs;
};

// numbers: C, V, activation (1 relu, 2 silu), encoder heads, width, layers, decoder heads, width, layers, pre-norm,
// source vocabulary, rows of the position tables.
// tables: embedding and positions of source and target, which must outlive the model.
// norms: gain and bias of each, in the order of the layers; then those after the stacks, where they are pre-norm.
void* verso_model(const int32_t* numbers, const float* factors, const float* const* tables, const LinearSource* linears,
                  const float* const* norms) {
  auto m = std::make_unique<Model>();
  const int32_t* n = numbers;
  m->C = n[0];
  m->V = n[1];
  m->act = n[2];
  m->EH = n[3];
  m->EF = n[4];
  m->E = n[5];
  m->H = n[6];
  m->F = n[7];
  m->L = n[8];
  m->pre = n[9];
  m->source_vocab = n[10];
  m->positions = n[11];
  m->source_scale = factors[0];
  m->target_scale = factors[1];
  m->eps = factors[2];
  m->src_emb = tables[0];
  m->src_pos = tables[1];
  m->tgt_emb = tables[2];
  m->tgt_pos = tables[3];
  auto linear = [&](Linear& l) {
    const LinearSource& s = *linears++;
    if (s.rounded) l.pack(s.rounded, s.scales, s.bias, s.outputs, s.inputs);
    else l.pack(s.weight, s.bias, s.outputs, s.inputs);
  };
  auto norm = [&](Norm& x) {
    x.g.assign(norms[0], norms[0] + m->C);
    x.b.assign(norms[1], norms[1] + m->C);
    norms += 2;
  };
  int code = guarded([&] {
    m->enc.resize(m->E);
    m->dec.resize(m->L);
    for (auto& l : m->enc) {
      linear(l.qkv);
      linear(l.o);
      linear(l.wide);
      linear(l.narrow);
      norm(l.n1);
      norm(l.n2);
    }
    for (auto& l : m->dec) {
      linear(l.qkv);
      linear(l.o);
      linear(l.q);
      linear(l.kv);
      linear(l.co);
      linear(l.wide);
      linear(l.narrow);
      norm(l.n1);
      norm(l.n2);
      norm(l.n3);
      m->step_work += (double)m->C * (6 * m->C + 2 * m->F);
    }
    if (m->pre) {
      norm(m->en);
      norm(m->dn);
    }
    linear(m->out);
    m->step_work += (double)m->C * m->V;
  });
  return code ? nullptr : m.release();
}
void verso_model_free(void* model) { delete static_cast<Model*>(model); }

void* verso_state(const void* model, int32_t width) {
  return new (std::nothrow) State(*static_cast<const Model*>(model), width);
}
void verso_state_free(void* state) { delete static_cast<State*>(state); }

// Each returns 0; 1 where there was no memory; 2 for a token or place the model does not have; 3 for anything else.
// After an error the state is of no use.
int32_t verso_join(void* state, const int32_t* ids, const int32_t* lengths, int32_t n, const int32_t* prefix,
                   int32_t num_prefix, float* logits, int32_t threads) {
  return guarded([&] { static_cast<State*>(state)->join(ids, lengths, n, prefix, num_prefix, logits, threads); });
}
int32_t verso_step(void* state, const int32_t* tokens, float* logits, int32_t threads) {
  return guarded([&] { static_cast<State*>(state)->next(tokens, logits, threads); });
}
int32_t verso_reorder(void* state, const int64_t* parents) {
  return guarded([&] { static_cast<State*>(state)->reorder(parents); });
}
int32_t verso_keep(void* state, const int64_t* indices, int32_t n) {
  return guarded([&] { static_cast<State*>(state)->keep(indices, n); });
}

}  // extern "C"
