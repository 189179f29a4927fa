// What the model computes for targets that are given: cross-attention weights, and logits.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "cohort.h"

// A source and its target, which begins with the start token.
struct Pair {
  const int32_t *source, *target;
  int num_source, num_target;
};

// The decoder's memory and pages of some pairs, while they are computed.
class ForcedPass {
 public:
  ForcedPass(const Model& m, const Pair* pairs, int n) : m_(m), pages_(m), blocks_(m.blocks) {
    memory_.resize(n);
    rows_.resize(n);
    for (int i = 0; i < n; i++) {
      const Pair& pair = pairs[i];
      for (int b = 0; b < blocks_of(pair.num_source); b++) memory_[i].push_back(blocks_.take());
      for (int t = 0; t < pair.num_target; t++) {
        // Row t has the pages of all tokens up to t. Rows are computed in order, so that each finds those before it.
        if (t) rows_[i].push_back(rows_[i].back());
        else rows_[i].emplace_back();
        rows_[i].back().push_back(pages_.take(pair.target[t]));
      }
      sources_.push_back({pair.source, pair.num_source, memory_[i].data()});
    }
    for (auto& rows : rows_)
      for (auto& row : rows) pointers_.push_back(&row);
    size_t first = 0;
    for (int i = 0; i < n; first += rows_[i++].size())
      beams_.push_back({memory_[i].data(), pairs[i].num_source, pointers_.data() + first, (int)rows_[i].size()});
  }
  ~ForcedPass() {
    for (auto& rows : rows_)
      for (Page* page : rows.back()) pages_.give(page);
    for (auto& memory : memory_)
      for (MemoryBlock* block : memory) blocks_.give(block);
  }
  ForcedPass(const ForcedPass&) = delete;
  ForcedPass& operator=(const ForcedPass&) = delete;

  int num_rows() const { return (int)pointers_.size(); }
  // The last hidden states of all targets' tokens, [rows][C]. weights: as for advance().
  const float* run(Workspace& scratch, float* const* weights) {
    encode(m_, sources_.data(), (int)sources_.size(), scratch);
    return advance(m_, beams_, scratch, weights);
  }

 private:
  const Model& m_;
  PageCache pages_;
  ChunkCache blocks_;
  std::vector<std::vector<MemoryBlock*>> memory_;
  std::vector<Source> sources_;
  std::vector<std::vector<std::vector<Page*>>> rows_;  // of each pair
  std::vector<std::vector<Page*> const*> pointers_;
  std::vector<Beam> beams_;
};

// lengths: of each pair the tokens of its source and of its target. tokens: laid end to end, each source before its target.
inline std::vector<Pair> checked_pairs(const Model& m, const int32_t* lengths, int n, const int32_t* tokens) {
  std::vector<Pair> pairs;
  for (int i = 0; i < n; i++) {
    int num_source = lengths[2 * i], num_target = lengths[2 * i + 1];
    pairs.push_back({tokens, tokens + num_source, num_source, num_target});
    bool fits = num_source > 0 && num_source <= m.positions && num_target > 0 && num_target <= m.positions;
    for (int t = 0; fits && t < num_source; t++) fits = tokens[t] >= 0 && tokens[t] < m.source_vocab;
    for (int t = 0; fits && t < num_target; t++) fits = tokens[num_source + t] >= 0 && tokens[num_source + t] < m.V;
    if (!fits) throw std::out_of_range("pair");
    tokens += num_source + num_target;
  }
  return pairs;
}

// Cross-attention weights of the last layer, averaged over its heads: of each pair [target][source], laid end to end.
inline void attention_of(const Model& m, const std::vector<Pair>& pairs, int threads, float* weights) {
  struct Part {
    size_t begin, end;
    float* weights;
  };
  std::vector<Part> parts;  // as many pairs as one step and one encoder pass take
  for (size_t i = 0; i < pairs.size();) {
    parts.push_back({i, i, weights});
    int num_rows = 0, num_sources = 0;
    while (i < pairs.size() && (i == parts.back().begin || (num_rows + pairs[i].num_target <= kStepRows &&
                                                             num_sources + pairs[i].num_source <= kEncoderTokens))) {
      num_rows += pairs[i].num_target;
      num_sources += pairs[i].num_source;
      weights += (size_t)pairs[i].num_target * pairs[i].num_source;
      i++;
    }
    parts.back().end = i;
  }
  int workers = std::max(1, std::min(threads, (int)parts.size()));
  thread_pool().run(workers, [&](int worker) {
    static thread_local Workspace scratch;
    for (size_t p = worker; p < parts.size(); p += workers) {
      const Part& part = parts[p];
      std::vector<float*> rows;
      float* next = part.weights;
      for (size_t i = part.begin; i < part.end; i++)
        for (int t = 0; t < pairs[i].num_target; t++, next += pairs[i].num_source) rows.push_back(next);
      std::memset(part.weights, 0, (next - part.weights) * sizeof(float));
      ForcedPass(m, pairs.data() + part.begin, (int)(part.end - part.begin)).run(scratch, rows.data());
    }
  });
}

// Logits after each target token of one pair, [target][V].
inline void logits_of(const Model& m, const Pair& pair, float* logits) {
  static thread_local Workspace scratch;
  ForcedPass pass(m, &pair, 1);
  multiply(m.out, {pass.run(scratch, nullptr), m.C, pass.num_rows()}, logits, m.V, NONE, nullptr, scratch.products);
}
