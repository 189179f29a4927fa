// A cohort: the sentences that decode together. They join, take steps, and leave.
//
// Threads share sentences: each takes some of them and steps with those until the time is over, without waiting for the
// others. Threads that are too many for that help the others with their products. Which sentences share a thread or a step
// changes no answer: rows are computed independently.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "layers.h"
#include "memory.h"
#include "thread_pool.h"
#include "search.h"

// Multiply-adds that a thread must have to do: with fewer, waking it takes longer than it saves.
constexpr double kMinWorkPerThread = 4e6;
// Rows of one step and tokens of one encoder pass: enough that weights are read seldom, few enough for the caches.
constexpr int kStepRows = 128;
constexpr int kEncoderTokens = 192;
// Weights that a step must multiply with for its products to be shared, in bytes of int8 weights that cost 1 (Kernels): with
// fewer, sharing takes longer than it saves.
constexpr double kMinBytesToShare = 8e6;
// Weights that do not fit into the caches beside all else, and the rows a group then needs: with fewer, reading the weights
// takes longer than multiplying with them.
constexpr double kMinBytesFromMemory = 16e6;
constexpr int kMinInt8Rows = 4, kMinFloatRows = 16;
// Helpers of a leader: a product is cut into as many pieces as there are threads in the largest group (products.h).
constexpr int kMaxHelpers = 7;

// While it exists, a worker's products are shared with helpers; these are dismissed when it is destroyed.
class LeaderGuard {
 public:
  LeaderGuard(ProductWorkspace& products, SpinningPool* pool) : products_(products) { products.pool = pool; }
  ~LeaderGuard() {
    if (products_.pool) products_.pool->dismiss();
    products_.pool = nullptr;
  }
  LeaderGuard(const LeaderGuard&) = delete;
  LeaderGuard& operator=(const LeaderGuard&) = delete;

 private:
  ProductWorkspace& products_;
};

// One worker's chunks of the model's memory. Slices are used with a shortlist only.
struct WorkerChunks {
  explicit WorkerChunks(const Model& m)
      : pages(m), blocks(m.blocks), slices(m.shortlist ? m.shortlist->slices() : m.blocks) {}
  PageCache pages;
  ChunkCache blocks, slices;
};

class Cohort {
 public:
  Cohort(const Model& model, Search search) : m_(model), search_(std::move(search)) {}
  ~Cohort() {
    WorkerChunks chunks(m_);
    for (Sentence& s : sentences_) release(s, chunks);
  }

  // tokens: of each request its source, then the start token, the forced ones and the prefix, then those it requires.
  void join(const Request* requests, int n, const int32_t* tokens) {
    size_t old = sentences_.size();
    sentences_.resize(old + n);
    for (int i = 0; i < n; i++) {
      Sentence& s = sentences_[old + i];
      s.request = requests[i];
      s.source.assign(tokens, tokens + s.request.num_source);
      tokens += s.request.num_source;
      int num_inputs = 1 + s.request.num_forced + s.request.num_prefix;
      s.inputs.assign(tokens, tokens + num_inputs);
      tokens += num_inputs;
      s.once.assign(tokens, tokens + s.request.num_once);
      tokens += s.request.num_once;
      bool fits = !s.source.empty() && (int)s.source.size() <= m_.positions &&
                  s.request.max_new_tokens > 0 && num_inputs - 1 + s.request.max_new_tokens <= m_.positions;
      for (int32_t token : s.source) fits &= token >= 0 && token < m_.source_vocab;
      for (int32_t token : s.inputs) fits &= token >= 0 && token < m_.V;
      for (int32_t token : s.once) fits &= token >= 0 && token < m_.V;
      if (!fits) {
        sentences_.resize(old);
        throw std::out_of_range("request");
      }
      if (!s.once.empty()) {  // with a shortlist, `never` has tokens until the sentence is shortened
        std::sort(s.once.begin(), s.once.end());
        std::set_difference(search_.never.begin(), search_.never.end(), s.once.begin(), s.once.end(),
                            std::back_inserter(s.never));
      }
      s.rows.resize(1);
      s.rows[0].token = s.inputs[0];
      s.rows[0].sum = 0;
    }
  }

  // Take one step, and more until `seconds` are over. Outcomes are kept until the next call.
  void run(double seconds, int threads) {
    std::vector<double> work;  // multiply-adds of the sentences up to and including each
    double sum = 0;
    for (Sentence& s : sentences_)
      work.push_back(sum += m_.step_work * s.rows.size() + (s.memory.empty() ? m_.source_work * s.source.size() : 0));
    Division division = divide(sum, threads);
    auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::vector<SpinningPool> shared(division.helpers ? division.groups : 0);
    // Leaders come first: if the system starts too few threads, no helper waits for a leader that has none.
    thread_pool().run(division.groups + division.helpers, [&](int index) {
      int group = index % division.groups;
      if (index >= division.groups) return shared[group].serve();
      static thread_local Workspace scratch;
      // Before anything that may throw: the helpers wait until they are dismissed.
      LeaderGuard leader(scratch.products, division.helpers ? &shared[group] : nullptr);
      std::vector<Sentence*> own;
      for (size_t i = 0; i < work.size(); i++) {
        double middle = ((i ? work[i - 1] : 0) + work[i]) / 2;
        if ((int)(middle / sum * division.groups) == group) own.push_back(&sentences_[i]);
      }
      WorkerChunks chunks(m_);
      read(own, scratch, chunks);
      do {
        for (size_t i = 0; i < own.size();) {
          size_t begin = i;
          int rows = 0;
          while (i < own.size() && (i == begin || rows + (int)own[i]->rows.size() <= kStepRows))
            rows += (int)own[i++]->rows.size();
          step(own.data() + begin, (int)(i - begin), scratch, chunks.pages);
        }
        own.erase(std::remove_if(own.begin(), own.end(), [](Sentence* s) { return s->done; }), own.end());
      } while (!own.empty() && std::chrono::steady_clock::now() < until);
    });
    collect();
  }

  void leave(const int64_t* keys, int n) {
    WorkerChunks chunks(m_);
    for (Sentence& s : sentences_)
      if (std::find(keys, keys + n, s.request.key) != keys + n) {
        s.done = true;
        release(s, chunks);
      }
    forget_done();
  }

  // For each sentence that finished: its key (low and high half), the number of hypotheses (0: it failed), and for each
  // hypothesis whether it was cut, the number of tokens, the tokens; then, if it did not fail and the search was asked for, the
  // number of candidates. scores() and candidates() have the scores and the candidates, in the same order.
  const std::vector<int32_t>& outcomes() const { return outcomes_; }
  const std::vector<double>& scores() const { return scores_; }
  const std::vector<TracedCandidate>& candidates() const { return candidates_; }

 private:
  // How the threads share the sentences: each group takes some of them, and its helpers share the products of its leader.
  struct Division {
    int groups, helpers;  // helpers: of all groups together
  };

  // Every group reads all weights in each step. Where those come from memory, groups of few rows would wait for them.
  // work: multiply-adds of the next step of all sentences.
  Division divide(double work, int threads) const {
    int num = (int)sentences_.size();
    double bytes = m_.step_work * weight_bytes(m_.out.precision);
    int min_rows = bytes < kMinBytesFromMemory ? 1 : m_.out.precision == INT8 ? kMinInt8Rows : kMinFloatRows;
    int groups = std::min({threads, num, (int)(work / kMinWorkPerThread), num * search_.width / min_rows});
    groups = std::max(1, groups);
    double cost = m_.out.precision == INT8 ? m_.out.kernels->int8_cost : 1;
    int helpers = bytes * cost < kMinBytesToShare ? 0 : std::min(threads - groups, groups * kMaxHelpers);
    return {groups, helpers};
  }

  // Encode new sentences.
  void read(const std::vector<Sentence*>& own, Workspace& scratch, WorkerChunks& chunks) {
    std::vector<Source> sources;
    int tokens = 0;
    for (Sentence* s : own) {
      if (!s->memory.empty()) continue;
      if (tokens && tokens + (int)s->source.size() > kEncoderTokens) {
        encode(m_, sources.data(), (int)sources.size(), scratch);
        sources.clear();
        tokens = 0;
      }
      for (int i = 0; i < blocks_of((int)s->source.size()); i++)
        s->memory.push_back(chunks.blocks.take());
      if (m_.shortlist) shorten(*s, scratch, chunks.slices);
      sources.push_back({s->source.data(), (int)s->source.size(), s->memory.data()});
      tokens += (int)s->source.size();
    }
    if (tokens) encode(m_, sources.data(), (int)sources.size(), scratch);
  }

  // Find a sentence's own candidates and pack their columns of the output projection.
  void shorten(Sentence& s, Workspace& scratch, ChunkCache& slices) {
    s.own = m_.shortlist->own(s.source, s.once, scratch.marks);
    s.never = m_.shortlist->places(s.own, s.once.empty() ? search_.never : s.never);
    for (size_t i = 0; i < s.own.size(); i += 64) {
      s.slices.push_back(slices.take());
      m_.shortlist->fill(s.slices.back(), s.own.data() + i, (int)std::min<size_t>(64, s.own.size() - i));
    }
  }

  void step(Sentence* const* own, int n, Workspace& scratch, PageCache& pages) {
    std::vector<LogitReader> readers;
    readers.reserve(kStepRows);
    std::vector<LogitState*> states;
    std::vector<std::vector<Page*> const*> rows;
    for (int i = 0; i < n; i++)
      for (Row& row : own[i]->rows) {
        row.pages.push_back(pages.take(row.token));
        readers.push_back(search_.reader(*own[i], row));
        rows.push_back(&row.pages);
      }
    std::vector<Beam> beams;
    size_t first = 0;
    for (int i = 0; i < n; first += own[i++]->rows.size())
      beams.push_back({own[i]->memory.data(), (int)own[i]->source.size(), rows.data() + first, (int)own[i]->rows.size()});
    const float* x = advance(m_, beams, scratch);
    for (const std::vector<Page*>* row : rows)
      if (row->size() > 1) pages.give_states((*row)[row->size() - 2]);
    const Linear& first_read = m_.shortlist ? m_.shortlist->common() : m_.out;
    for (LogitReader& reader : readers) states.push_back(&reader.state());
    multiply_and_read(first_read, {x, m_.C, (int)rows.size()}, scratch.products, states.data());
    first = 0;
    for (int i = 0; i < n; first += own[i++]->rows.size()) {
      int position = first_read.num_padded_outputs();
      for (const void* slice : own[i]->slices) {
        read_more(m_.out, Shortlist::columns(slice), {x, m_.C, (int)rows.size()}, (int)first,
                  (int)own[i]->rows.size(), scratch.products, states.data(), position);
        position += 64;
      }
    }
    first = 0;
    for (int i = 0; i < n; i++) {
      size_t num_rows = own[i]->rows.size();
      search_.choose(*own[i], readers.data() + first, pages);
      first += num_rows;
    }
  }

  void collect() {
    outcomes_.clear();
    scores_.clear();
    candidates_.clear();
    WorkerChunks chunks(m_);
    for (Sentence& s : sentences_) {
      if (!s.done) continue;
      size_t num = s.failed ? 0 : std::min(s.pool.size(), (size_t)s.request.num_hypotheses);
      outcomes_.push_back((int32_t)(s.request.key & 0xffffffff));
      outcomes_.push_back((int32_t)(s.request.key >> 32));
      outcomes_.push_back((int32_t)num);
      for (size_t i = 0; i < num; i++) {
        outcomes_.push_back(s.pool[i].cut);
        outcomes_.push_back((int32_t)s.pool[i].tokens.size());
        outcomes_.insert(outcomes_.end(), s.pool[i].tokens.begin(), s.pool[i].tokens.end());
        scores_.push_back(s.pool[i].score);
      }
      if (num && s.request.return_search) {
        outcomes_.push_back((int32_t)s.trace.size());
        candidates_.insert(candidates_.end(), s.trace.begin(), s.trace.end());
      }
      release(s, chunks);
    }
    forget_done();
  }

  void forget_done() {
    sentences_.erase(std::remove_if(sentences_.begin(), sentences_.end(), [](const Sentence& s) { return s.done; }),
                     sentences_.end());
  }

  static void release(Sentence& s, WorkerChunks& chunks) {
    for (Row& row : s.rows) Search::release(row.pages, chunks.pages);
    for (MemoryBlock* block : s.memory) chunks.blocks.give(block);
    for (void* slice : s.slices) chunks.slices.give(slice);
    s.memory.clear();
    s.slices.clear();
  }

  const Model& m_;
  Search search_;
  std::vector<Sentence> sentences_;
  std::vector<int32_t> outcomes_;
  std::vector<double> scores_;
  std::vector<TracedCandidate> candidates_;
};
