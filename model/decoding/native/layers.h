// Encoder and decoder of model/network/transformer.py, layer by layer.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "products.h"
#include "shortlist.h"

struct Norm {
  std::vector<float> gain, bias;
};

struct SelfAttention {
  Linear query_key_value, output;
  Norm norm;
};
// The product gives forget gates and projected inputs.
struct Recurrence {
  Linear gate_input;
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
  SelfAttention self_attention;  // one of these two is empty
  Recurrence recurrence;
  CrossAttention cross_attention;
  FeedForward feed_forward;
};

// 16 positions of a source, as the decoder reads them: for each layer keys, [width][16], and then values, [16][width].
using MemoryBlock = void;

inline int blocks_of(int length) { return (length + kBlockPositions - 1) / kBlockPositions; }

// The architecture, as library.py passes it.
struct Architecture {
  int32_t d_model, source_vocab_size, target_vocab_size, max_positions, activation, pre_norm;
  int32_t recurrent;   // whether the decoder has recurrent units instead of self-attention
  int32_t zero_start;  // whether the first token of a target has a vector of zeros
  int32_t alignment_head;  // the head of the last layer that aligns; below 0: the mean of all heads
  int32_t encoder_layers, encoder_heads, encoder_d_ff, decoder_layers, decoder_heads, decoder_d_ff;
  float source_scale, target_scale, layer_norm_eps;
};
// Embeddings and position vectors, [tokens or positions][C]. The caller keeps them while the model exists.
struct EmbeddingTables {
  const void* source_tokens;
  const float* source_positions;
  const void* target_tokens;
  const float* target_positions;
  Precision precision;  // of the tokens' vectors: float32 or bfloat16
};

// The heads of a stack. Their projections are packed so that each is a multiple of 16 wide: packed.py fills up with zeros.
inline Heads padded_heads(int num_heads, int d_model) {
  int width = d_model / num_heads;
  return {num_heads, (width + kLanes - 1) / kLanes * kLanes, 1.f / std::sqrt((float)width)};
}

struct Model {
  Model(const Kernels& k, const Architecture& a, const EmbeddingTables& t)
      : kernels(k), C(a.d_model), V(a.target_vocab_size), source_vocab(a.source_vocab_size), positions(a.max_positions),
        architecture(a), tables(t), encoder_heads(padded_heads(a.encoder_heads, a.d_model)),
        decoder_heads(padded_heads(a.decoder_heads, a.d_model)), encoder(a.encoder_layers), decoder(a.decoder_layers) {}

  const Kernels& kernels;
  int C, V;  // width of the model; target vocabulary
  int source_vocab, positions;
  Architecture architecture;
  EmbeddingTables tables;
  Heads encoder_heads, decoder_heads;
  std::vector<EncoderLayer> encoder;
  std::vector<DecoderLayer> decoder;
  Norm encoder_norm, decoder_norm;  // of pre-norm stacks only
  Linear out;
  std::vector<const Linear*> linears;     // all products, in the order in which they were packed
  std::unique_ptr<Shortlist> shortlist;   // null: all sentences choose among the whole vocabulary
  double source_work = 0, step_work = 0;  // multiply-adds of one source token, and of one row's step
  mutable ChunkPool pages, states, blocks;

  // Width of all heads together: of queries, keys and values.
  int encoder_width() const { return encoder_heads.num_heads * encoder_heads.width; }
  int decoder_width() const { return decoder_heads.num_heads * decoder_heads.width; }
  // Keys and values of one layer in a MemoryBlock.
  size_t block_layer() const { return (size_t)2 * kBlockPositions * decoder_width(); }
  // Whether keys and values are kept as float16.
  bool halves() const { return out.precision != FLOAT32; }
  const Kernels::ForNumbers& for_numbers() const { return halves() ? kernels.as_half : kernels.as_float; }
  size_t number_bytes() const { return halves() ? sizeof(Half) : sizeof(float); }
  // Sets what follows from weights and shortlist: sizes of chunks, and work.
  void count() {
    constexpr int kOwnColumns = 256;  // of one sentence, roughly
    size_t layers = decoder.size();
    size_t page_numbers = architecture.recurrent ? 0 : layers * 2 * decoder_width();
    pages.set_chunk_size(kCacheLine + page_numbers * number_bytes());
    states.set_chunk_size(layers * C * sizeof(float));
    blocks.set_chunk_size(layers * block_layer() * number_bytes());
    double width = C, key_value_work = 2 * width * width;
    source_work = encoder.size() * width * (4 * width + 2 * architecture.encoder_d_ff) + layers * key_value_work;
    int columns = shortlist ? shortlist->common().num_outputs + kOwnColumns : V;
    double attention_widths = architecture.recurrent ? 4 : 6;
    step_work = layers * width * (attention_widths * width + 2 * architecture.decoder_d_ff) + width * columns;
  }
};

// Pages that one thread has taken ahead of their use, and the states of a recurrent decoder.
class PageCache {
 public:
  explicit PageCache(const Model& m) : recurrent_(m.architecture.recurrent), pages_(m.pages), states_(m.states) {}

  // A page for the next position of a hypothesis.
  Page* take(int32_t token) {
    Page* page = static_cast<Page*>(pages_.take());
    *page = {1, token, nullptr};
    if (recurrent_) page->states = static_cast<float*>(states_.take());
    return page;
  }
  void give(Page* page) noexcept {
    give_states(page);
    pages_.give(page);
  }
  // Gives back a page's states, of which those of the next position have been computed.
  void give_states(Page* page) noexcept {
    if (page->states) states_.give(page->states);
    page->states = nullptr;
  }

 private:
  bool recurrent_;
  ChunkCache pages_, states_;
};

// Buffers that one thread needs to compute.
struct Workspace {
  ProductWorkspace products;
  AlignedBuffer<float> x, normed, projected, context, hidden, scores, keys, token;
  std::vector<const float*> queries;  // of one head
  std::vector<float*> mixed;          // where their results go
  std::vector<uint64_t> marks;

  // Make room for a number of rows that attend to at most `longest` positions. width: of queries, keys and values; d_ff: of
  // the stack's feed-forward layers.
  void resize(int num_rows, int longest, int C, int width, int d_ff) {
    size_t rows = num_rows;
    x.resize(rows * C);
    normed.resize(rows * C);
    projected.resize(rows * 3 * width);  // query, key and value
    context.resize(rows * width);
    hidden.resize(rows * d_ff);
    token.resize(C);
    scores.resize((size_t)kMaxQueriesAtOnce * blocks_of(longest) * kBlockPositions);
  }
  // Room for as many queries as attend together.
  AttentionScratch attention(int num_queries) {
    queries.resize(num_queries);
    mixed.resize(num_queries);
    return {scores.data(), queries.data(), mixed.data()};
  }
};

// Rows of x to rows of `out`, which may be x.
inline void layer_norm(const Model& m, const Norm& norm, const float* x, float* out, int num_rows) {
  m.kernels.layer_norm(norm.gain.data(), norm.bias.data(), x, out, num_rows, m.C, m.architecture.layer_norm_eps);
}

// A token's vector. widened: room for it, if the table is in bfloat16.
inline const float* token_vector(const void* table, Precision precision, int32_t token, int C, float* widened) {
  const size_t at = (size_t)token * C;
  if (precision == FLOAT32) return static_cast<const float*>(table) + at;
  const Bfloat16* vector = static_cast<const Bfloat16*>(table) + at;
  for (int i = 0; i < C; i++) {
    uint32_t bits = (uint32_t)vector[i].bits << 16;
    std::memcpy(widened + i, &bits, sizeof(bits));
  }
  return widened;
}

// The input of a sub-layer: the rows themselves, or normed where norms come first.
inline InputRows sublayer_input(const Model& m, const Norm& norm, int num_rows, Workspace& w) {
  if (!m.architecture.pre_norm) return {w.x.data(), m.C, num_rows};
  layer_norm(m, norm, w.x.data(), w.normed.data(), num_rows);
  return {w.normed.data(), m.C, num_rows};
}
// The last operations of a sub-layer: project, add to the rows, and norm where norms come last.
inline void add_sublayer(const Model& m, const Linear& projection, const InputRows& rows, const Norm& norm,
                         Workspace& w) {
  float* x = w.x.data();
  multiply(projection, rows, x, m.C, NONE, x, w.products);
  if (!m.architecture.pre_norm) layer_norm(m, norm, x, x, rows.count);
}

inline void feed_forward(const Model& m, const FeedForward& layer, int d_ff, int num_rows, Workspace& w) {
  float* hidden = w.hidden.data();
  multiply(layer.wide, sublayer_input(m, layer.norm, num_rows, w), hidden, d_ff, m.architecture.activation, nullptr,
           w.products);
  add_sublayer(m, layer.narrow, {hidden, d_ff, num_rows}, layer.norm, w);
}

struct Source {
  const int32_t* ids;
  int length;
  MemoryBlock* const* memory;  // its blocks, to be filled
};

// Keys and values of one decoder layer to the sources' memory.
inline void project_memory(const Model& m, int layer, const Source* sources, int num_sources, int num_rows,
                           Workspace& w) {
  int width = m.decoder_width(), stride = 2 * width;
  float* projected = w.projected.data();
  multiply(m.decoder[layer].cross_attention.key_value, {w.x.data(), m.C, num_rows}, projected, stride, NONE, nullptr,
           w.products);
  size_t offset = layer * m.block_layer() * m.number_bytes();
  for (int s = 0, first = 0; s < num_sources; first += sources[s].length, s++)
    for (int p = 0; p < sources[s].length; p += kBlockPositions)
      m.for_numbers().store_block(projected + (size_t)(first + p) * stride, stride,
                                  std::min(kBlockPositions, sources[s].length - p), width,
                                  static_cast<char*>(sources[s].memory[p / kBlockPositions]) + offset);
}

// Encodes sentences, whose rows are laid end to end, and fills their memory with what the decoder attends to.
inline void encode(const Model& m, const Source* sources, int num_sources, Workspace& w) {
  const Architecture& a = m.architecture;
  int C = m.C, width = m.encoder_width(), T = 0, longest = 0;
  for (int s = 0; s < num_sources; s++) {
    T += sources[s].length;
    longest = std::max(longest, sources[s].length);
  }
  w.resize(T, longest, C, std::max(width, m.decoder_width()), a.encoder_d_ff);
  w.keys.resize((size_t)blocks_of(longest) * kBlockPositions * width);
  AttentionScratch scratch = w.attention(longest);
  float *x = w.x.data(), *projected = w.projected.data(), *context = w.context.data();
  for (int s = 0, row = 0; s < num_sources; s++)
    for (int p = 0; p < sources[s].length; p++, row++)
      m.kernels.embed(
          token_vector(m.tables.source_tokens, m.tables.precision, sources[s].ids[p], C, w.token.data()),
          m.tables.source_positions + (size_t)p * C, a.source_scale, C, x + (size_t)row * C);
  for (const EncoderLayer& layer : m.encoder) {
    const SelfAttention& attention = layer.self_attention;
    multiply(attention.query_key_value, sublayer_input(m, attention.norm, T, w), projected, 3 * width, NONE, nullptr,
             w.products);
    for (int s = 0, first = 0; s < num_sources; first += sources[s].length, s++)
      m.kernels.attend_source(m.encoder_heads, projected + (size_t)first * 3 * width, sources[s].length, w.keys.data(),
                              context + (size_t)first * width, scratch);
    add_sublayer(m, attention.output, {context, width, T}, attention.norm, w);
    feed_forward(m, layer.feed_forward, a.encoder_d_ff, T, w);
  }
  if (a.pre_norm) layer_norm(m, m.encoder_norm, x, x, T);
  for (size_t layer = 0; layer < m.decoder.size(); layer++)
    project_memory(m, (int)layer, sources, num_sources, T, w);
}

// Rows of one sentence, which attend to the same memory.
struct Beam {
  MemoryBlock* const* memory;
  int length;                       // tokens of the source
  std::vector<Page*> const** rows;  // pages of each row; the last one is to be filled
  int num_rows;
};

// Self-attention of all rows over their own pages: from w.projected to w.context. Fills the last pages' keys and values.
inline void attend_pages(const Model& m, int layer, const std::vector<Beam>& beams, Workspace& w) {
  int width = m.decoder_width();
  const float* projected = w.projected.data();
  float* context = w.context.data();
  for (const Beam& beam : beams)
    for (int r = 0; r < beam.num_rows; r++, projected += 3 * width, context += width)
      m.for_numbers().attend_pages(m.decoder_heads, projected, beam.rows[r]->data(), (int)beam.rows[r]->size(),
                                   (size_t)layer * 2 * width, context, w.scores.data());
}

// The recurrent units of all rows: from w.projected, added to w.x. Fills the last pages' states.
inline void recur(const Model& m, int layer, const std::vector<Beam>& beams, Workspace& w) {
  const float* projected = w.projected.data();
  float* x = w.x.data();
  const size_t at = (size_t)layer * m.C;
  for (const Beam& beam : beams)
    for (int r = 0; r < beam.num_rows; r++, projected += 2 * m.C, x += m.C) {
      const std::vector<Page*>& pages = *beam.rows[r];
      const float* before = pages.size() > 1 ? pages[pages.size() - 2]->states + at : nullptr;
      m.kernels.recur(projected, before, m.C, pages.back()->states + at, x);
    }
}

// The first sub-layer of a decoder layer, which mixes positions of the target: from w.x to w.x.
inline void mix_target(const Model& m, int index, const std::vector<Beam>& beams, int num_rows, Workspace& w) {
  const DecoderLayer& layer = m.decoder[index];
  float *x = w.x.data(), *projected = w.projected.data();
  if (m.architecture.recurrent) {
    const Recurrence& recurrence = layer.recurrence;
    multiply(recurrence.gate_input, sublayer_input(m, recurrence.norm, num_rows, w), projected, 2 * m.C, NONE, nullptr,
             w.products);
    recur(m, index, beams, w);
    if (!m.architecture.pre_norm) layer_norm(m, recurrence.norm, x, x, num_rows);
    return;
  }
  const SelfAttention& self = layer.self_attention;
  int width = m.decoder_width();
  multiply(self.query_key_value, sublayer_input(m, self.norm, num_rows, w), projected, 3 * width, NONE, nullptr,
           w.products);
  attend_pages(m, index, beams, w);
  add_sublayer(m, self.output, {w.context.data(), width, num_rows}, self.norm, w);
}

// Cross-attention of all rows: from w.projected to w.context. added: of each row.
inline void attend_memory(const Model& m, int layer, const std::vector<Beam>& beams, Workspace& w, WeightSums added) {
  size_t width = m.decoder_width(), first = 0;
  for (const Beam& beam : beams) {
    WeightSums sums{added.rows ? added.rows + first : nullptr, added.factor, added.head};
    m.for_numbers().attend_memory(m.decoder_heads, w.projected.data() + first * width, beam.num_rows, beam.memory,
                                  beam.length, layer * m.block_layer(), w.context.data() + first * width,
                                  w.attention(beam.num_rows), sums);
    first += beam.num_rows;
  }
}

// One decoding step: fills the rows' last pages and returns their last hidden states, [rows][C]. weights: for each row, where
// the cross-attention weights of the last layer are added, those of its alignment head or the mean; null: nowhere.
inline const float* advance(const Model& m, const std::vector<Beam>& beams, Workspace& w,
                            float* const* weights = nullptr) {
  const Architecture& a = m.architecture;
  int C = m.C, width = m.decoder_width(), R = 0;
  size_t longest = 0;
  for (const Beam& beam : beams) {
    for (int r = 0; r < beam.num_rows; r++) longest = std::max(longest, beam.rows[r]->size());
    longest = std::max(longest, (size_t)beam.length);
    R += beam.num_rows;
  }
  w.resize(R, (int)longest, C, width, a.decoder_d_ff);
  float *x = w.x.data(), *projected = w.projected.data();
  int row = 0;
  for (const Beam& beam : beams)
    for (int r = 0; r < beam.num_rows; r++, row++) {
      const size_t position = beam.rows[r]->size() - 1;
      m.kernels.embed(
          token_vector(m.tables.target_tokens, m.tables.precision, beam.rows[r]->back()->token, C, w.token.data()),
          m.tables.target_positions + position * C, a.zero_start && position == 0 ? 0.f : a.target_scale, C,
          x + (size_t)row * C);
    }
  for (size_t index = 0; index < m.decoder.size(); index++) {
    mix_target(m, (int)index, beams, R, w);

    const CrossAttention& cross = m.decoder[index].cross_attention;
    multiply(cross.query, sublayer_input(m, cross.norm, R, w), projected, width, NONE, nullptr, w.products);
    bool is_last = index + 1 == m.decoder.size();
    const float factor = a.alignment_head < 0 ? 1.f / a.decoder_heads : 1.f;
    attend_memory(m, (int)index, beams, w, {is_last ? weights : nullptr, factor, a.alignment_head});
    add_sublayer(m, cross.output, {w.context.data(), width, R}, cross.norm, w);

    feed_forward(m, m.decoder[index].feed_forward, a.decoder_d_ff, R, w);
  }
  if (a.pre_norm) layer_norm(m, m.decoder_norm, x, x, R);
  return x;
}
