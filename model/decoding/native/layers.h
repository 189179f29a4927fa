// Encoder and decoder of model/network/transformer.py, layer by layer.

#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "attention.h"
#include "memory.h"
#include "products.h"
#include "shortlist.h"

struct Norm {
  std::vector<float> g, b;
};

inline void layer_norm(const Norm& n, const float* x, float* o, int rows, int C, float eps) {
  for (int r = 0; r < rows; r++) {
    const float* p = x + (size_t)r * C;
    float* q = o + (size_t)r * C;
    __m512 s = _mm512_setzero_ps(), s2 = s;
    for (int i = 0; i < C; i += 16) s = _mm512_add_ps(s, _mm512_loadu_ps(p + i));
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

struct EncoderLayer {
  Linear qkv, o, wide, narrow;
  Norm n1, n2;
};
struct DecoderLayer {
  Linear qkv, o, q, kv, co, wide, narrow;
  Norm n1, n2, n3;
};

// One position of a hypothesis: the token that was fed, and a cache line further its keys and values, [L][2][C].
// Hypotheses with a common beginning share its pages.
struct Page {
  int refs;
  int32_t token;
  template <typename Number>
  Number* content() {
    return reinterpret_cast<Number*>(reinterpret_cast<char*>(this) + 64);
  }
};

// 16 positions of a source, as the decoder sees them: in each layer keys, [C][16], and behind them values, [16][C].
using MemoryBlock = void;

// Columns a sentence has for itself, about.
constexpr int kOwn = 256;

struct Model {
  int C, V, act;
  int EH, EF, E;  // heads, width and layers of the encoder
  int H, F, L;    // of the decoder
  bool pre;
  float source_scale, target_scale, eps;
  const float *src_emb, *tgt_emb, *src_pos, *tgt_pos;  // the caller's, who keeps them
  int source_vocab, positions;
  std::vector<EncoderLayer> encoder;
  std::vector<DecoderLayer> decoder;
  Norm en, dn;
  Linear out;
  std::unique_ptr<Shortlist> shortlist;  // where there is one
  double source_work = 0, step_work = 0;  // multiply-adds of one source token, and of one row's step
  mutable Chunks pages, blocks;

  size_t block_layer() const { return (size_t)2 * kBlock * C; }
  bool halves() const { return out.q; }
  void count() {
    size_t number = halves() ? sizeof(Half) : sizeof(float);
    pages.set_size(64 + (size_t)L * 2 * C * number);
    blocks.set_size(L * block_layer() * number);
    source_work = E * ((double)C * (4 * C + 2 * EF)) + L * 2.0 * C * C;
    step_work = L * ((double)C * (6 * C + 2 * F)) + (double)C * (shortlist ? shortlist->common().n + kOwn : V);
  }
};

// What a worker needs while it computes.
struct Work {
  Hands hands;
  Aligned<float> x, y, qkv, context, hidden, scores, keys;
  std::vector<uint64_t> marks;
};

// Where a product reads: the rows themselves, or what their norm makes of them where norms come first.
inline const float* before(const Model& m, const Norm& norm, const float* x, float* y, int rows) {
  if (!m.pre) return x;
  layer_norm(norm, x, y, rows, m.C, m.eps);
  return y;
}
inline void behind(const Model& m, const Norm& norm, float* x, int rows) {
  if (!m.pre) layer_norm(norm, x, x, rows, m.C, m.eps);
}

inline void embed(const float* table, const float* positions, float scale, int C, int32_t token, int place, float* x) {
  const float *e = table + (size_t)token * C, *p = positions + (size_t)place * C;
  for (int i = 0; i < C; i++) x[i] = e[i] * scale + p[i];
}

// keys [n, C], `stride` apart, to a block of 16 positions, [C][16].
template <typename Number>
inline void to_block(const float* keys, size_t stride, int n, int C, Number* block) {
  alignas(64) float column[kBlock] = {};
  for (int i = 0; i < C; i++) {
    for (int p = 0; p < n; p++) column[p] = keys[p * stride + i];
    store16(block + (size_t)i * kBlock, _mm512_load_ps(column));
  }
}

template <typename Number>
inline void copy(const float* from, int n, Number* to) {
  for (int i = 0; i < n; i += 16) store16(to + i, _mm512_loadu_ps(from + i));
}

struct Source {
  const int32_t* ids;
  int length;
  MemoryBlock* const* memory;  // its blocks, to be filled
};

// Read sentences, laid end to end, and leave what the decoder looks at in their memory.
template <typename Number>
inline void encode_as(const Model& m, const Source* sources, int num_sources, Work& w) {
  int C = m.C, D = C / m.EH, T = 0, longest = 0;
  for (int b = 0; b < num_sources; b++) {
    T += sources[b].length;
    longest = std::max(longest, sources[b].length);
  }
  int room = blocks_of(longest) * kBlock;
  w.x.resize((size_t)T * C);
  w.y.resize((size_t)T * C);
  w.qkv.resize((size_t)T * 3 * C);
  w.context.resize((size_t)T * C);
  w.hidden.resize((size_t)T * m.EF);
  w.scores.resize(4 * room);
  w.keys.resize((size_t)room * C);
  float *x = w.x.data(), *y = w.y.data(), *qkv = w.qkv.data(), *context = w.context.data();
  for (int b = 0, t = 0; b < num_sources; b++)
    for (int p = 0; p < sources[b].length; p++, t++)
      embed(m.src_emb, m.src_pos, m.source_scale, C, sources[b].ids[p], p, x + (size_t)t * C);
  std::vector<const float*> queries(longest);
  std::vector<float*> outs(longest);
  for (auto& l : m.encoder) {
    multiply(l.qkv, before(m, l.n1, x, y, T), C, T, qkv, 3 * C, NONE, nullptr, w.hands);
    for (int b = 0, t = 0; b < num_sources; t += sources[b].length, b++) {
      int n = sources[b].length;
      const float* first = qkv + (size_t)t * 3 * C;
      for (int p = 0; p < n; p += kBlock)
        to_block(first + (size_t)p * 3 * C + C, 3 * C, std::min(kBlock, n - p), C, w.keys.data() + (size_t)p * C);
      for (int h = 0; h < m.EH; h++) {
        for (int p = 0; p < n; p++) {
          queries[p] = first + (size_t)p * 3 * C + h * D;
          outs[p] = context + (size_t)(t + p) * C + h * D;
        }
        attend_together(
            n, queries.data(), n, D, [&](int i) { return w.keys.data() + ((size_t)i * C + h * D) * kBlock; },
            [&](int i) { return first + (size_t)i * 3 * C + 2 * C + h * D; }, outs.data(), w.scores.data());
      }
    }
    multiply(l.o, context, C, T, x, C, NONE, x, w.hands);
    behind(m, l.n1, x, T);
    multiply(l.wide, before(m, l.n2, x, y, T), C, T, w.hidden.data(), m.EF, m.act, nullptr, w.hands);
    multiply(l.narrow, w.hidden.data(), m.EF, T, x, C, NONE, x, w.hands);
    behind(m, l.n2, x, T);
  }
  if (m.pre) layer_norm(m.en, x, x, T, C, m.eps);
  for (int li = 0; li < m.L; li++) {
    multiply(m.decoder[li].kv, x, C, T, qkv, 2 * C, NONE, nullptr, w.hands);
    for (int b = 0, t = 0; b < num_sources; t += sources[b].length, b++)
      for (int p = 0; p < sources[b].length; p += kBlock) {
        int n = std::min(kBlock, sources[b].length - p);
        const float* rows = qkv + (size_t)(t + p) * 2 * C;
        Number* block = static_cast<Number*>(sources[b].memory[p / kBlock]) + li * m.block_layer();
        to_block(rows, 2 * C, n, C, block);
        for (int i = 0; i < n; i++) copy(rows + (size_t)i * 2 * C + C, C, block + (size_t)(kBlock + i) * C);
      }
  }
}
inline void encode(const Model& m, const Source* sources, int num_sources, Work& w) {
  if (m.halves()) encode_as<Half>(m, sources, num_sources, w);
  else encode_as<float>(m, sources, num_sources, w);
}

// Rows of one sentence, which look at the same memory.
struct Beam {
  MemoryBlock* const* memory;
  int length;                       // tokens of the source
  std::vector<Page*> const** rows;  // pages of each row; the last is to be filled
  int num_rows;
};

// One decoding step: the rows' pages are filled, and their last hidden states, [rows][C], given.
template <typename Number>
inline const float* advance_as(const Model& m, const std::vector<Beam>& beams, Work& w) {
  int C = m.C, D = C / m.H, R = 0;
  size_t longest = 0;
  for (const Beam& beam : beams) {
    for (int r = 0; r < beam.num_rows; r++) longest = std::max(longest, beam.rows[r]->size());
    longest = std::max(longest, (size_t)beam.length);
    R += beam.num_rows;
  }
  w.x.resize((size_t)R * C);
  w.y.resize((size_t)R * C);
  w.qkv.resize((size_t)R * 3 * C);
  w.context.resize((size_t)R * C);
  w.hidden.resize((size_t)R * m.F);
  w.scores.resize(4 * (size_t)blocks_of(longest) * kBlock);
  float *x = w.x.data(), *y = w.y.data(), *qkv = w.qkv.data(), *context = w.context.data(), *scores = w.scores.data();
  int row = 0;
  for (const Beam& beam : beams)
    for (int r = 0; r < beam.num_rows; r++, row++)
      embed(m.tgt_emb, m.tgt_pos, m.target_scale, C, beam.rows[r]->back()->token, (int)beam.rows[r]->size() - 1,
            x + (size_t)row * C);
  const float* queries[64];
  float* outs[64];
  for (int li = 0; li < m.L; li++) {
    auto& l = m.decoder[li];
    size_t keys = (size_t)li * 2 * C, values = keys + C;
    multiply(l.qkv, before(m, l.n1, x, y, R), C, R, qkv, 3 * C, NONE, nullptr, w.hands);
    row = 0;
    for (const Beam& beam : beams)
      for (int r = 0; r < beam.num_rows; r++, row++) {
        const float* q = qkv + (size_t)row * 3 * C;
        Page* const* pages = beam.rows[r]->data();
        int n = (int)beam.rows[r]->size();
        copy(q + C, 2 * C, pages[n - 1]->content<Number>() + keys);
        for (int h = 0; h < m.H; h++)
          attend_alone(
              q + h * D, n, D, [&](int t) { return pages[t]->content<Number>() + keys + h * D; },
              [&](int t) { return pages[t]->content<Number>() + values + h * D; }, context + (size_t)row * C + h * D, scores);
      }
    multiply(l.o, context, C, R, x, C, NONE, x, w.hands);
    behind(m, l.n1, x, R);
    multiply(l.q, before(m, l.n2, x, y, R), C, R, qkv, C, NONE, nullptr, w.hands);
    row = 0;
    for (const Beam& beam : beams) {
      size_t layer = li * m.block_layer();
      for (int h = 0; h < m.H; h++) {
        for (int r = 0; r < beam.num_rows; r++) {
          queries[r] = qkv + (size_t)(row + r) * C + h * D;
          outs[r] = context + (size_t)(row + r) * C + h * D;
        }
        attend_together(
            beam.num_rows, queries, beam.length, D,
            [&](int i) { return static_cast<const Number*>(beam.memory[i]) + layer + (size_t)h * D * kBlock; },
            [&](int t) {
              return static_cast<const Number*>(beam.memory[t / kBlock]) + layer +
                     (size_t)(kBlock + t % kBlock) * C + h * D;
            },
            outs, scores);
      }
      row += beam.num_rows;
    }
    multiply(l.co, context, C, R, x, C, NONE, x, w.hands);
    behind(m, l.n2, x, R);
    multiply(l.wide, before(m, l.n3, x, y, R), C, R, w.hidden.data(), m.F, m.act, nullptr, w.hands);
    multiply(l.narrow, w.hidden.data(), m.F, R, x, C, NONE, x, w.hands);
    behind(m, l.n3, x, R);
  }
  if (m.pre) layer_norm(m.dn, x, x, R, C, m.eps);
  return x;
}
inline const float* advance(const Model& m, const std::vector<Beam>& beams, Work& w) {
  return m.halves() ? advance_as<Half>(m, beams, w) : advance_as<float>(m, beams, w);
}
