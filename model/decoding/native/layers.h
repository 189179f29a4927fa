// Encoder and decoder of model/network/transformer.py, layer by layer.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "attention.h"
#include "memory.h"
#include "products.h"
#include "shortlist.h"
#include "simd.h"

struct Norm {
  std::vector<float> gain, bias;
};

// Rows of x to rows of `out`, which may be x; C numbers each.
inline void layer_norm(const Norm& norm, const float* x, float* out, int num_rows, int C, float eps) {
  for (int r = 0; r < num_rows; r++) {
    const float* p = x + (size_t)r * C;
    float* q = out + (size_t)r * C;
    __m512 sum = _mm512_setzero_ps(), squares = sum;
    for (int i = 0; i < C; i += kLanes) sum = _mm512_add_ps(sum, _mm512_loadu_ps(p + i));
    __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / C);
    for (int i = 0; i < C; i += kLanes) {
      __m512 v = _mm512_sub_ps(_mm512_loadu_ps(p + i), mean);
      squares = _mm512_fmadd_ps(v, v, squares);
    }
    __m512 inverse = _mm512_set1_ps(1.f / std::sqrt(_mm512_reduce_add_ps(squares) / C + eps));
    for (int i = 0; i < C; i += kLanes) {
      __m512 v = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(p + i), mean), inverse);
      _mm512_storeu_ps(q + i, _mm512_fmadd_ps(v, _mm512_loadu_ps(&norm.gain[i]), _mm512_loadu_ps(&norm.bias[i])));
    }
  }
}

struct SelfAttention {
  Linear query_key_value, output;
  Norm norm;
};
struct CrossAttention {
  Linear query, key_value, output;
  Norm norm;
};
struct FeedForward {
  Linear wide, narrow;
  Norm norm;
};
struct EncoderLayer {
  SelfAttention self_attention;
  FeedForward feed_forward;
};
struct DecoderLayer {
  SelfAttention self_attention;
  CrossAttention cross_attention;
  FeedForward feed_forward;
};

// One position of a hypothesis: the token that was fed and, one cache line further, its keys and values, [layer][2][C].
// Hypotheses with a common beginning share its pages.
struct Page {
  int refs;
  int32_t token;
  template <typename Number>
  Number* content() {
    return reinterpret_cast<Number*>(reinterpret_cast<char*>(this) + kCacheLine);
  }
};

// 16 positions of a source, as the decoder reads them: for each layer keys, [C][16], and then values, [16][C].
using MemoryBlock = void;

// The architecture, as library.py passes it.
struct Architecture {
  int32_t d_model, source_vocab_size, target_vocab_size, max_positions, activation, pre_norm;
  int32_t encoder_layers, encoder_heads, encoder_d_ff, decoder_layers, decoder_heads, decoder_d_ff;
  float source_scale, target_scale, layer_norm_eps;
};
// Embeddings and position vectors, [tokens or positions][C]. The caller keeps them while the model exists.
struct EmbeddingTables {
  const float *source_tokens, *source_positions, *target_tokens, *target_positions;
};

struct Model {
  Model(const Architecture& a, const EmbeddingTables& t)
      : C(a.d_model), V(a.target_vocab_size), source_vocab(a.source_vocab_size), positions(a.max_positions),
        architecture(a), tables(t), encoder(a.encoder_layers), decoder(a.decoder_layers) {}

  int C, V;  // width of the model; target vocabulary
  int source_vocab, positions;
  Architecture architecture;
  EmbeddingTables tables;
  std::vector<EncoderLayer> encoder;
  std::vector<DecoderLayer> decoder;
  Norm encoder_norm, decoder_norm;  // of pre-norm stacks only
  Linear out;
  std::vector<const Linear*> linears;     // all products, in the order in which they were packed
  std::unique_ptr<Shortlist> shortlist;   // null: all sentences choose among the whole vocabulary
  double source_work = 0, step_work = 0;  // multiply-adds of one source token, and of one row's step
  mutable ChunkPool pages, blocks;

  // Keys and values of one layer in a MemoryBlock.
  size_t block_layer() const { return (size_t)2 * kBlockPositions * C; }
  // Whether keys and values are kept as float16.
  bool halves() const { return out.is_int8; }
  // Sets what follows from weights and shortlist: sizes of chunks, and work.
  void count() {
    constexpr int kOwnColumns = 256;  // of one sentence, roughly
    size_t number = halves() ? sizeof(Half) : sizeof(float), layers = decoder.size();
    pages.set_chunk_size(kCacheLine + layers * 2 * C * number);
    blocks.set_chunk_size(layers * block_layer() * number);
    double width = C, key_value_work = 2 * width * width;
    source_work = encoder.size() * width * (4 * width + 2 * architecture.encoder_d_ff) + layers * key_value_work;
    int columns = shortlist ? shortlist->common().num_outputs + kOwnColumns : V;
    step_work = layers * width * (6 * width + 2 * architecture.decoder_d_ff) + width * columns;
  }
};

// Buffers that one thread needs to compute.
struct Workspace {
  ProductWorkspace products;
  AlignedBuffer<float> x, normed, projected, context, hidden, scores, keys;
  std::vector<const float*> queries;  // of one head
  std::vector<float*> mixed;          // where their results go
  std::vector<uint64_t> marks;

  // Make room for a number of rows that attend to at most `longest` positions; d_ff: of the stack's feed-forward layers.
  void resize(int num_rows, int longest, int C, int d_ff) {
    size_t rows = num_rows;
    x.resize(rows * C);
    normed.resize(rows * C);
    projected.resize(rows * 3 * C);  // query, key and value
    context.resize(rows * C);
    hidden.resize(rows * d_ff);
    scores.resize((size_t)kQueriesAtOnce * blocks_of(longest) * kBlockPositions);
  }
};

// The input of a sub-layer: the rows themselves, or normed where norms come first.
inline InputRows sublayer_input(const Model& m, const Norm& norm, int num_rows, Workspace& w) {
  if (!m.architecture.pre_norm) return {w.x.data(), m.C, num_rows};
  layer_norm(norm, w.x.data(), w.normed.data(), num_rows, m.C, m.architecture.layer_norm_eps);
  return {w.normed.data(), m.C, num_rows};
}
// The last operations of a sub-layer: project, add to the rows, and norm where norms come last.
inline void add_sublayer(const Model& m, const Linear& projection, const InputRows& rows, const Norm& norm,
                         Workspace& w) {
  float* x = w.x.data();
  multiply(projection, rows, x, m.C, NONE, x, w.products);
  if (!m.architecture.pre_norm) layer_norm(norm, x, x, rows.count, m.C, m.architecture.layer_norm_eps);
}

inline void feed_forward(const Model& m, const FeedForward& layer, int d_ff, int num_rows, Workspace& w) {
  float* hidden = w.hidden.data();
  multiply(layer.wide, sublayer_input(m, layer.norm, num_rows, w), hidden, d_ff, m.architecture.activation, nullptr,
           w.products);
  add_sublayer(m, layer.narrow, {hidden, d_ff, num_rows}, layer.norm, w);
}

// token: row of the table.
inline void embed(const float* tokens, const float* positions, float scale, int C, int32_t token, int position,
                  float* x) {
  const float *e = tokens + (size_t)token * C, *p = positions + (size_t)position * C;
  for (int i = 0; i < C; i++) x[i] = e[i] * scale + p[i];
}

// keys: n rows of C numbers, `stride` apart, to a block of 16 positions, [C][16].
template <typename Number>
inline void to_block(const float* keys, size_t stride, int n, int C, Number* block) {
  alignas(kCacheLine) float column[kBlockPositions] = {};
  for (int i = 0; i < C; i++) {
    for (int p = 0; p < n; p++) column[p] = keys[p * stride + i];
    store16(block + (size_t)i * kBlockPositions, _mm512_load_ps(column));
  }
}

template <typename Number>
inline void copy(const float* from, int n, Number* to) {
  for (int i = 0; i < n; i += kLanes) store16(to + i, _mm512_loadu_ps(from + i));
}

struct Source {
  const int32_t* ids;
  int length;
  MemoryBlock* const* memory;  // its blocks, to be filled
};

// Self-attention of one source, whose first token is row `first`: from w.projected to w.context.
inline void attend_source(const Model& m, int first, int length, Workspace& w) {
  int C = m.C, num_heads = m.architecture.encoder_heads, D = C / num_heads, stride = 3 * C;
  const float *query = w.projected.data() + (size_t)first * stride, *key = query + C, *value = key + C;
  float* context = w.context.data() + (size_t)first * C;
  for (int p = 0; p < length; p += kBlockPositions)
    to_block(key + (size_t)p * stride, stride, std::min(kBlockPositions, length - p), C, w.keys.data() + (size_t)p * C);
  for (int h = 0; h < num_heads; h++) {
    for (int p = 0; p < length; p++) {
      w.queries[p] = query + (size_t)p * stride + h * D;
      w.mixed[p] = context + (size_t)p * C + h * D;
    }
    attend_shared(
        length, w.queries.data(), length, D,
        [&](int b) { return w.keys.data() + ((size_t)b * C + h * D) * kBlockPositions; },
        [&](int t) { return value + (size_t)t * stride + h * D; }, w.mixed.data(), w.scores.data());
  }
}

// Keys and values of one decoder layer to the sources' memory.
template <typename Number>
inline void project_memory(const Model& m, int layer, const Source* sources, int num_sources, int num_rows,
                           Workspace& w) {
  int C = m.C, stride = 2 * C;
  float* projected = w.projected.data();
  multiply(m.decoder[layer].cross_attention.key_value, {w.x.data(), C, num_rows}, projected, stride, NONE, nullptr,
           w.products);
  for (int s = 0, first = 0; s < num_sources; first += sources[s].length, s++)
    for (int p = 0; p < sources[s].length; p += kBlockPositions) {
      int n = std::min(kBlockPositions, sources[s].length - p);
      const float *key = projected + (size_t)(first + p) * stride, *value = key + C;
      Number* keys = static_cast<Number*>(sources[s].memory[p / kBlockPositions]) + layer * m.block_layer();
      Number* values = keys + (size_t)kBlockPositions * C;
      to_block(key, stride, n, C, keys);
      for (int i = 0; i < n; i++) copy(value + (size_t)i * stride, C, values + (size_t)i * C);
    }
}

// Encodes sentences, whose rows are laid end to end, and fills their memory with what the decoder attends to.
template <typename Number>
inline void encode_as(const Model& m, const Source* sources, int num_sources, Workspace& w) {
  const Architecture& a = m.architecture;
  int C = m.C, T = 0, longest = 0;
  for (int s = 0; s < num_sources; s++) {
    T += sources[s].length;
    longest = std::max(longest, sources[s].length);
  }
  w.resize(T, longest, C, a.encoder_d_ff);
  w.keys.resize((size_t)blocks_of(longest) * kBlockPositions * C);
  w.queries.resize(longest);
  w.mixed.resize(longest);
  float* x = w.x.data();
  for (int s = 0, row = 0; s < num_sources; s++)
    for (int p = 0; p < sources[s].length; p++, row++)
      embed(m.tables.source_tokens, m.tables.source_positions, a.source_scale, C, sources[s].ids[p], p,
            x + (size_t)row * C);
  for (const EncoderLayer& layer : m.encoder) {
    const SelfAttention& attention = layer.self_attention;
    multiply(attention.query_key_value, sublayer_input(m, attention.norm, T, w), w.projected.data(), 3 * C, NONE,
             nullptr, w.products);
    for (int s = 0, first = 0; s < num_sources; first += sources[s].length, s++)
      attend_source(m, first, sources[s].length, w);
    add_sublayer(m, attention.output, {w.context.data(), C, T}, attention.norm, w);
    feed_forward(m, layer.feed_forward, a.encoder_d_ff, T, w);
  }
  if (a.pre_norm) layer_norm(m.encoder_norm, x, x, T, C, a.layer_norm_eps);
  for (size_t layer = 0; layer < m.decoder.size(); layer++)
    project_memory<Number>(m, (int)layer, sources, num_sources, T, w);
}
inline void encode(const Model& m, const Source* sources, int num_sources, Workspace& w) {
  if (m.halves()) encode_as<Half>(m, sources, num_sources, w);
  else encode_as<float>(m, sources, num_sources, w);
}

// Rows of one sentence, which attend to the same memory.
struct Beam {
  MemoryBlock* const* memory;
  int length;                       // tokens of the source
  std::vector<Page*> const** rows;  // pages of each row; the last one is to be filled
  int num_rows;
};

// Self-attention of all rows over their own pages: from w.projected to w.context. Fills the last pages' keys and values.
template <typename Number>
inline void attend_pages(const Model& m, int layer, const std::vector<Beam>& beams, Workspace& w) {
  int C = m.C, num_heads = m.architecture.decoder_heads, D = C / num_heads;
  size_t keys = (size_t)layer * 2 * C, values = keys + C;
  float* scores = w.scores.data();
  int row = 0;
  for (const Beam& beam : beams)
    for (int r = 0; r < beam.num_rows; r++, row++) {
      const float *query = w.projected.data() + (size_t)row * 3 * C, *key_value = query + C;
      float* context = w.context.data() + (size_t)row * C;
      Page* const* pages = beam.rows[r]->data();
      int n = (int)beam.rows[r]->size();
      copy(key_value, 2 * C, pages[n - 1]->content<Number>() + keys);
      for (int h = 0; h < num_heads; h++)
        attend_own(
            query + h * D, n, D, [&](int t) { return pages[t]->content<Number>() + keys + h * D; },
            [&](int t) { return pages[t]->content<Number>() + values + h * D; }, context + h * D, scores);
    }
}

// Cross-attention of all rows: from w.projected to w.context. added: of each row.
template <typename Number>
inline void attend_memory(const Model& m, int layer, const std::vector<Beam>& beams, Workspace& w, WeightSums added) {
  int C = m.C, num_heads = m.architecture.decoder_heads, D = C / num_heads;
  size_t keys = layer * m.block_layer(), values = keys + (size_t)kBlockPositions * C;
  int first = 0;
  for (const Beam& beam : beams) {
    w.queries.resize(beam.num_rows);
    w.mixed.resize(beam.num_rows);
    for (int h = 0; h < num_heads; h++) {
      for (int r = 0; r < beam.num_rows; r++) {
        w.queries[r] = w.projected.data() + (size_t)(first + r) * C + h * D;
        w.mixed[r] = w.context.data() + (size_t)(first + r) * C + h * D;
      }
      attend_shared(
          beam.num_rows, w.queries.data(), beam.length, D,
          [&](int b) { return static_cast<const Number*>(beam.memory[b]) + keys + (size_t)h * D * kBlockPositions; },
          [&](int t) {
            const Number* block = static_cast<const Number*>(beam.memory[t / kBlockPositions]) + values;
            return block + (size_t)(t % kBlockPositions) * C + h * D;
          },
          w.mixed.data(), w.scores.data(), added.from(first));
    }
    first += beam.num_rows;
  }
}

// One decoding step: fills the rows' last pages and returns their last hidden states, [rows][C]. weights: for each row, where
// the cross-attention weights of the last layer are added, as the mean of its heads; null: nowhere.
template <typename Number>
inline const float* advance_as(const Model& m, const std::vector<Beam>& beams, Workspace& w, float* const* weights) {
  const Architecture& a = m.architecture;
  int C = m.C, R = 0;
  size_t longest = 0;
  for (const Beam& beam : beams) {
    for (int r = 0; r < beam.num_rows; r++) longest = std::max(longest, beam.rows[r]->size());
    longest = std::max(longest, (size_t)beam.length);
    R += beam.num_rows;
  }
  w.resize(R, (int)longest, C, a.decoder_d_ff);
  float *x = w.x.data(), *projected = w.projected.data();
  int row = 0;
  for (const Beam& beam : beams)
    for (int r = 0; r < beam.num_rows; r++, row++)
      embed(m.tables.target_tokens, m.tables.target_positions, a.target_scale, C, beam.rows[r]->back()->token,
            (int)beam.rows[r]->size() - 1, x + (size_t)row * C);
  for (size_t index = 0; index < m.decoder.size(); index++) {
    const SelfAttention& self = m.decoder[index].self_attention;
    multiply(self.query_key_value, sublayer_input(m, self.norm, R, w), projected, 3 * C, NONE, nullptr, w.products);
    attend_pages<Number>(m, (int)index, beams, w);
    add_sublayer(m, self.output, {w.context.data(), C, R}, self.norm, w);

    const CrossAttention& cross = m.decoder[index].cross_attention;
    multiply(cross.query, sublayer_input(m, cross.norm, R, w), projected, C, NONE, nullptr, w.products);
    bool is_last = index + 1 == m.decoder.size();
    attend_memory<Number>(m, (int)index, beams, w, {is_last ? weights : nullptr, 1.f / a.decoder_heads});
    add_sublayer(m, cross.output, {w.context.data(), C, R}, cross.norm, w);

    feed_forward(m, m.decoder[index].feed_forward, a.decoder_d_ff, R, w);
  }
  if (a.pre_norm) layer_norm(m.decoder_norm, x, x, R, C, a.layer_norm_eps);
  return x;
}
inline const float* advance(const Model& m, const std::vector<Beam>& beams, Workspace& w,
                            float* const* weights = nullptr) {
  return m.halves() ? advance_as<Half>(m, beams, w, weights) : advance_as<float>(m, beams, w, weights);
}
