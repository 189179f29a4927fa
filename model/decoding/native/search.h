// Which token comes next: what model/decoding/{filters,greedy,beam,scoring}.py do, and the tests hold both to the same answers.
//
// Logits are read 64 at a time, as the output projection makes them, and never stand in memory as a whole.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "layers.h"

struct Candidate {
  float value;  // a logit; a sum of log-probabilities later
  int32_t token;
  int row;
};

// Reads one row's logits once and keeps what the choice needs: the best, and the logarithm of the sum of all powers.
class Reader {
 public:
  // own: places forbidden to this row, in order; never: those forbidden to all. Renormalising, the total is taken of what is
  // not forbidden.
  Reader(int wanted, bool totals, bool renormalise, const std::vector<int32_t>& never, std::vector<int32_t> own)
      : wanted_(wanted), totals_(totals), renormalise_(renormalise), own_(std::move(own)) {
    never_ = never.data();
    never_end_ = never_ + never.size();
    if (wanted > 1) best_.reserve(wanted + 1);
  }

  void read(float* values, int first) {
    __mmask16 bad = 0;
    for (int c = 0; c < 4; c++)
      bad |= _mm512_cmp_ps_mask(_mm512_load_ps(values + c * 16), _mm512_set1_ps(INFINITY), _CMP_NLT_UQ);
    broken_ |= bad != 0;
    if (totals_ && !renormalise_) add(values);
    for (; never_ < never_end_ && *never_ < first + 64; never_++) values[*never_ - first] = -INFINITY;
    for (; place_ < own_.size() && own_[place_] < first + 64; place_++) values[own_[place_] - first] = -INFINITY;
    if (totals_ && renormalise_) add(values);
    if (wanted_ == 1)
      for (int c = 0; c < 4; c++) {
        __m512 v = _mm512_load_ps(values + c * 16);
        __mmask16 m = _mm512_cmp_ps_mask(v, top_, _CMP_GT_OQ);
        top_ = _mm512_mask_mov_ps(top_, m, v);
        where_ = _mm512_mask_mov_epi32(where_, m, _mm512_set1_epi32(first + c * 16));
      }
    else if (wanted_ > 1)
      for (int c = 0; c < 4; c++) {
        __mmask16 m = _mm512_cmp_ps_mask(_mm512_load_ps(values + c * 16), _mm512_set1_ps(threshold_), _CMP_GT_OQ);
        for (; m; m &= m - 1) {
          int i = c * 16 + __builtin_ctz(m);
          insert(values[i], first + i);
        }
      }
  }

  // Whether a logit was NaN or infinite.
  bool broken() const { return broken_; }
  float total() const { return begun_ ? reference_ + std::log(_mm512_reduce_add_ps(sum_)) : -INFINITY; }

  // The place of the likeliest token, the first of equals; -1 where all are forbidden.
  Candidate top() const {
    alignas(64) float values[16];
    alignas(64) int32_t where[16];
    _mm512_store_ps(values, top_);
    _mm512_store_epi32(where, where_);
    Candidate best{-INFINITY, -1, 0};
    for (int i = 0; i < 16; i++)
      if (where[i] >= 0 && (values[i] > best.value || (values[i] == best.value && where[i] + i < best.token)))
        best = {values[i], where[i] + i, 0};
    return best;
  }
  // The `wanted` likeliest places, best first.
  const std::vector<Candidate>& best() const { return best_; }

 private:
  void add(const float* values) {
    __m512 v[4];
    for (int c = 0; c < 4; c++) v[c] = _mm512_load_ps(values + c * 16);
    float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(v[0], v[1]), _mm512_max_ps(v[2], v[3])));
    if (!(most > -INFINITY)) return;
    if (!begun_) {
      reference_ = most;
      begun_ = true;
    } else if (most > reference_ + 16.f) {  // powers stay far from the bounds of float32, and are seldom scaled anew
      sum_ = _mm512_mul_ps(sum_, _mm512_set1_ps(std::exp(reference_ - most)));
      reference_ = most;
    }
    for (int c = 0; c < 4; c++) sum_ = _mm512_add_ps(sum_, exp512(_mm512_sub_ps(v[c], _mm512_set1_ps(reference_))));
  }

  void insert(float value, int32_t token) {
    if (!(value > threshold_)) return;
    if ((int)best_.size() == wanted_) best_.pop_back();
    auto place = std::upper_bound(best_.begin(), best_.end(), value,
                                  [](float x, const Candidate& other) { return x > other.value; });
    best_.insert(place, Candidate{value, token, 0});
    if ((int)best_.size() == wanted_) threshold_ = best_.back().value;
  }

  int wanted_;
  bool totals_, renormalise_;
  bool begun_ = false, broken_ = false;
  float reference_ = 0, threshold_ = -INFINITY;
  size_t place_ = 0;
  const int32_t *never_, *never_end_;
  __m512 sum_ = _mm512_setzero_ps(), top_ = _mm512_set1_ps(-INFINITY);
  __m512i where_ = _mm512_set1_epi32(-1);
  std::vector<int32_t> own_;
  std::vector<Candidate> best_;
};

enum Scoring { HF = 0, CT2 = 1, MARIAN = 2, WU = 3 };

// One sentence as the caller hands it in; its tokens follow elsewhere. library.py has the same fields.
struct Request {
  int64_t key;
  double length_penalty;
  int32_t num_source, num_forced;  // tokens of the source; those forced behind the start token
  int32_t min_new_tokens, max_new_tokens, no_repeat_ngram_size, num_hypotheses;
  int32_t scoring, early_stopping, force_end, return_scores;
};

struct Hypothesis {
  double score;
  std::vector<int32_t> tokens;
  bool cut;
};

// A hypothesis that runs.
struct Row {
  std::vector<Page*> pages;  // one for each token fed
  int32_t token;             // to be fed next
  float sum;                 // of log-probabilities
};

struct Sentence {
  Request wish;
  std::vector<int32_t> source, prefix;  // prefix: the start token and those forced behind it
  std::vector<MemoryBlock*> memory;     // of the source, once it was read
  std::vector<int32_t> own, never;      // with a shortlist: candidates that are not common; places that are never chosen
  std::vector<void*> slices;            // with a shortlist: the own candidates' columns
  std::vector<Row> rows;
  std::vector<Hypothesis> pool;  // hypotheses that ended, best first
  bool leader_ended = false, done = false, failed = false;

  // Tokens fed so far, the start token included.
  int num_fed() const { return (int)rows[0].pages.size(); }
  // Tokens generated so far, before the choice.
  int num_generated() const { return num_fed() - (int)prefix.size(); }
  bool at_last_place() const { return num_generated() + 1 == wish.max_new_tokens; }
  std::vector<int32_t> tokens(const Row& row) const {
    std::vector<int32_t> out;
    for (size_t i = prefix.size(); i < row.pages.size(); i++) out.push_back(row.pages[i]->token);
    return out;
  }
  double score(double sum, int num_tokens) const {
    double length = wish.scoring == WU ? (5.0 + num_tokens) / 6.0 : num_tokens;
    return sum / std::pow(length, wish.length_penalty);
  }
};

// How a cohort chooses. A token's place is its number, or with a shortlist where it stands among the candidates.
struct Search {
  int width;
  int32_t end;
  bool renormalise;
  std::vector<int32_t> never;  // in order
  const Shortlist* shortlist;

  Reader reader(const Sentence& s, const Row& row) const {
    if (row.pages.size() < s.prefix.size()) return Reader(0, false, false, {}, {});
    bool beam = width > 1;
    return Reader(beam ? 2 * width : 1, beam || s.wish.return_scores, renormalise, shortlist ? s.never : never,
                  forbidden(s, row));
  }

  // Choose for one sentence, whose rows were read.
  void choose(Sentence& s, const Reader* readers, ChunkCache& pages) const {
    if (s.num_fed() < (int)s.prefix.size()) s.rows[0].token = s.prefix[s.num_fed()];
    else if (width == 1) choose_one(s, readers[0]);
    else choose_beam(s, readers, pages);
  }

  // Let go of a row's pages.
  static void release(std::vector<Page*>& row, ChunkCache& pages) {
    for (Page* page : row)
      if (--page->refs == 0) pages.give(page);
    row.clear();
  }

 private:
  // Places.
  std::vector<int32_t> forbidden(const Sentence& s, const Row& row) const {
    std::vector<int32_t> out;
    if (s.num_generated() < s.wish.min_new_tokens) out.push_back(end);
    if (int size = s.wish.no_repeat_ngram_size) {
      std::vector<int32_t> tokens = s.tokens(row);
      int n = (int)tokens.size();
      for (int start = 0; start + size <= n; start++)
        if (std::equal(tokens.end() - (size - 1), tokens.end(), tokens.begin() + start))
          out.push_back(tokens[start + size - 1]);
      std::sort(out.begin(), out.end());
    }
    return shortlist ? shortlist->places(s.own, out) : out;
  }

  int32_t token(const Sentence& s, int32_t place) const { return shortlist ? shortlist->token(s.own, place) : place; }

  void choose_one(Sentence& s, const Reader& reader) const {
    Row& row = s.rows[0];
    Candidate best = reader.top();
    if (reader.broken() || best.token < 0) {
      s.done = s.failed = true;
      return;
    }
    best.token = token(s, best.token);
    bool last = s.at_last_place(), forced = last && s.wish.force_end;
    if (s.wish.return_scores && !forced) row.sum += best.value - reader.total();
    row.token = best.token;
    if (!last && best.token != end) return;
    bool cut = best.token != end;
    std::vector<int32_t> tokens = s.tokens(row);
    if (cut && !forced) tokens.push_back(best.token);
    int num_tokens = (int)tokens.size() + (forced || !cut) + s.wish.num_forced;
    s.pool.push_back({s.score(row.sum, num_tokens), std::move(tokens), cut});
    s.done = true;
  }

  void choose_beam(Sentence& s, const Reader* readers, ChunkCache& pages) const {
    bool over = s.at_last_place(), only_end = over && s.wish.force_end;
    std::vector<Candidate> candidates;
    for (size_t r = 0; r < s.rows.size(); r++) {
      if (readers[r].broken()) {
        s.done = s.failed = true;
        return;
      }
      float total = readers[r].total(), offset = s.rows[r].sum - total;
      auto add = [&](float logit, int32_t token) {
        float value = offset + logit;
        if (std::isfinite(value)) candidates.push_back({value, token, (int)r});
      };
      if (only_end) add(total, end);
      else
        for (const Candidate& c : readers[r].best()) add(c.value, token(s, c.token));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
    // A Marian beam that narrows looks no further than the rows it has left.
    size_t most = s.wish.scoring == MARIAN ? width - s.pool.size() : 2 * (size_t)width;
    if (candidates.size() > most) candidates.resize(most);

    int num_tokens = s.num_generated() + 1;
    for (size_t rank = 0; rank < candidates.size() && rank < (size_t)width; rank++) {
      const Candidate& c = candidates[rank];
      bool closed = c.token == end;
      if (!closed && !over) continue;
      s.leader_ended |= rank == 0;
      std::vector<int32_t> tokens = s.tokens(s.rows[c.row]);
      if (!closed) tokens.push_back(c.token);
      bool cut = over && (!closed || s.wish.force_end);
      add_to_pool(s, {s.score(c.value, (int)tokens.size() + closed + s.wish.num_forced), std::move(tokens), cut});
    }
    std::vector<Candidate> going;
    for (const Candidate& c : candidates)
      if (c.token != end && going.size() < (size_t)width) going.push_back(c);
    s.done = over || going.empty() || enough(s, going[0].value, num_tokens + s.wish.num_forced);
    s.failed = s.done && s.pool.empty();
    if (!s.done) go_on(s, going, pages);
  }

  void add_to_pool(Sentence& s, Hypothesis hypothesis) const {
    auto place = std::upper_bound(s.pool.begin(), s.pool.end(), hypothesis.score,
                                  [](double x, const Hypothesis& other) { return x > other.score; });
    s.pool.insert(place, std::move(hypothesis));
    if ((s.wish.scoring == HF || s.wish.scoring == WU) && s.pool.size() > (size_t)width) s.pool.pop_back();
  }

  // Whether nothing that still runs is worth running on; leader: log-probability of the best of it.
  bool enough(const Sentence& s, double leader, int num_tokens) const {
    int num_ended = (int)s.pool.size();
    if (s.wish.scoring == CT2 && s.wish.length_penalty == 0.0)
      return s.leader_ended && num_ended >= s.wish.num_hypotheses;
    if (num_ended < width) return false;
    if (s.wish.scoring == CT2 || s.wish.scoring == MARIAN || s.wish.early_stopping) return true;
    return s.pool.back().score >= s.score(leader, num_tokens);
  }

  // The rows of the next step: each goes on from a row of this one. The first heir takes its pages, the others share them.
  void go_on(Sentence& s, const std::vector<Candidate>& going, ChunkCache& pages) const {
    std::vector<Row> rows(going.size());
    std::vector<int> heir(s.rows.size(), -1);
    for (size_t i = 0; i < going.size(); i++) {
      rows[i].token = going[i].token;
      rows[i].sum = going[i].value;
      if (heir[going[i].row] < 0) heir[going[i].row] = (int)i;
      else {
        rows[i].pages = s.rows[going[i].row].pages;
        for (Page* page : rows[i].pages) page->refs++;
      }
    }
    for (size_t r = 0; r < s.rows.size(); r++)
      if (heir[r] < 0) release(s.rows[r].pages, pages);
      else rows[heir[r]].pages = std::move(s.rows[r].pages);
    s.rows = std::move(rows);
  }
};
