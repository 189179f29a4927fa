// The choice of the next tokens: greedy and beam search, with the rules of model/decoding/scoring.py and the filters of
// model/decoding/eager/filters.py. The tests compare the answers with those of model/decoding/eager.
//
// Logits are read in blocks of 64, as the output projection computes them, and never stored as a whole. A token's position
// among the logits is its id, or with a shortlist its index among the sentence's candidates.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "layers.h"

// Reads one row's logits once and keeps the best of them, and the logarithm of the sum of their exponentials.
class LogitReader {
 public:
  // num_best: how many of the best are kept. with_total: whether the logarithm of the sum is needed; `renormalise` excludes
  // forbidden logits from it. never, forbidden: positions that are forbidden to all rows and to this one, in ascending order.
  // `never` must outlive the reader.
  LogitReader(int num_best, bool with_total, bool renormalise, const std::vector<int32_t>& never,
              std::vector<int32_t> forbidden)
      : forbidden_(std::move(forbidden)), best_(num_best > 1 ? num_best : 0) {
    std::fill_n(state_.sum, kLanes, 0.f);
    std::fill_n(state_.top, kLanes, -INFINITY);
    std::fill_n(state_.top_starts, kLanes, -1);
    state_.num_best = num_best;
    state_.with_total = with_total;
    state_.renormalise = renormalise;
    state_.threshold = -INFINITY;
    state_.never = never.data();
    state_.never_end = never.data() + never.size();
    state_.forbidden = forbidden_.data();
    state_.forbidden_end = forbidden_.data() + forbidden_.size();
    state_.best = best_.data();
  }
  LogitReader(LogitReader&&) = default;  // the arrays stay where they are
  LogitReader(const LogitReader&) = delete;
  LogitReader& operator=(const LogitReader&) = delete;

  // What the kernels read the logits into.
  LogitState& state() { return state_; }

  // Whether a logit was NaN or infinite.
  bool broken() const { return state_.broken; }
  // The logarithm of the sum of all exponentials. Their lanes are added in the order in which the kernels add lanes.
  float total() const {
    if (!state_.begun) return -INFINITY;
    float lanes[kLanes];
    std::copy_n(state_.sum, kLanes, lanes);
    for (int n = kLanes / 2; n; n /= 2)
      for (int i = 0; i < n; i++) lanes[i] += lanes[i + n];
    // Libraries of mathematics differ in the last bit. In double precision that bit is rounded away.
    return state_.reference + (float)std::log((double)lanes[0]);
  }

  // The best logit and its position, the first of equals; position -1 if all are forbidden. For num_best = 1.
  Candidate top() const {
    Candidate best{-INFINITY, -1, 0};
    for (int i = 0; i < kLanes; i++) {
      float value = state_.top[i];
      int32_t start = state_.top_starts[i];
      if (start >= 0 && (value > best.value || (value == best.value && start + i < best.token)))
        best = {value, start + i, 0};
    }
    return best;
  }
  // The best logits and their positions, best first. For num_best > 1.
  const Candidate* begin() const { return state_.best; }
  const Candidate* end() const { return state_.best + state_.num_found; }

 private:
  LogitState state_{};
  std::vector<int32_t> forbidden_;
  std::vector<Candidate> best_;
};

// The properties of model/decoding/scoring.py: ScoringRule, in the same order. library.py has the same fields.
struct ScoringRule {
  double length_penalty, length_offset, length_scale;
  int32_t narrows, stops_when_full, leader_must_end, force_end;

  double score(double sum, int num_tokens) const {
    return sum / std::pow((length_offset + num_tokens) / length_scale, length_penalty);
  }
};

// One sentence as the caller passes it; its tokens are passed separately. library.py has the same fields.
struct Request {
  int64_t key;
  ScoringRule rule;
  // Tokens of the source, forced behind the start token, of the answer's given beginning, and required.
  int32_t num_source, num_forced, num_prefix, num_once;
  int32_t min_new_tokens, max_new_tokens, no_repeat_ngram_size, num_hypotheses, return_scores, return_search;
};

// A candidate of a step, for callers that ask for the search (model/decoding/search.py: Considered). library.py has the same
// fields.
struct TracedCandidate {
  int32_t step;        // tokens chosen before
  int32_t token, row;  // row: the one it continues
  int32_t kept, finished;
  float log_prob;
};

// A hypothesis that ended.
struct Hypothesis {
  double score;
  std::vector<int32_t> tokens;
  bool cut;
};

// A hypothesis that runs.
struct Row {
  std::vector<Page*> pages;  // one for each token fed
  int32_t token;             // the next to be fed
  float sum;                 // of log-probabilities
};

struct Sentence {
  Request request;
  std::vector<int32_t> source, inputs;   // inputs: the start token, forced ones and the prefix
  std::vector<MemoryBlock*> memory;      // of the source, once it is encoded
  std::vector<int32_t> once;             // tokens that every hypothesis holds once each, in ascending order
  std::vector<int32_t> never;            // with a shortlist or with `once`: positions never chosen
  std::vector<int32_t> own;              // with a shortlist: candidates that are not common
  std::vector<void*> slices;             // with a shortlist: the own candidates' columns
  std::vector<Row> rows;
  std::vector<Hypothesis> pool;  // the best hypotheses that ended, best first
  std::vector<TracedCandidate> trace;  // the candidates of each step, best first, if the search is asked for
  bool leader_ended = false;     // the best candidate of some step was one that ended
  bool done = false, failed = false;

  // Tokens fed so far, the start token included.
  int num_fed() const { return (int)rows[0].pages.size(); }
  // Tokens chosen so far, before this choice.
  int num_generated() const { return num_fed() - (int)inputs.size(); }
  // Whether the token chosen now is the last it may have.
  bool is_last() const { return num_generated() + 1 == request.max_new_tokens; }
  // Tokens that a hypothesis can still take, this one included.
  int num_left() const { return request.max_new_tokens - num_generated() - request.rule.force_end; }
  // Whether greedy search sums log-probabilities.
  bool needs_sum() const { return request.return_scores || request.return_search; }
  // The answer so far of one row: the prefix and the tokens chosen.
  std::vector<int32_t> tokens(const Row& row) const {
    std::vector<int32_t> out;
    for (size_t i = 1 + request.num_forced; i < row.pages.size(); i++) out.push_back(row.pages[i]->token);
    return out;
  }
  // num_tokens: those of a hypothesis, its prefix and closing token included and forced ones not.
  double score(double sum, int num_tokens) const { return request.rule.score(sum, num_tokens + request.num_forced); }
};

// How a cohort chooses.
struct Search {
  int width;
  int32_t end, num_tokens;  // num_tokens: V
  bool renormalise;
  std::vector<int32_t> never;  // in ascending order
  const Shortlist* shortlist;

  LogitReader reader(const Sentence& s, const Row& row) const {
    if (row.pages.size() < s.inputs.size()) return LogitReader(0, false, false, {}, {});
    bool beam = width > 1;
    return LogitReader(beam ? 2 * width : 1, beam || s.needs_sum(), renormalise,
                       shortlist || !s.once.empty() ? s.never : never, forbidden(s, row));
  }

  // Choose for one sentence, whose rows' logits were read.
  void choose(Sentence& s, const LogitReader* readers, PageCache& pages) const {
    if (s.num_fed() < (int)s.inputs.size()) s.rows[0].token = s.inputs[s.num_fed()];
    else if (width == 1) choose_greedy(s, readers[0]);
    else choose_beam(s, readers, pages);
  }

  // Give back a row's pages that no other row shares.
  static void release(std::vector<Page*>& row, PageCache& pages) {
    for (Page* page : row)
      if (--page->refs == 0) pages.give(page);
    row.clear();
  }

 private:
  // Positions that are forbidden to a row at this step.
  std::vector<int32_t> forbidden(const Sentence& s, const Row& row) const {
    std::vector<int32_t> out;
    if (s.num_generated() < s.request.min_new_tokens) out.push_back(end);
    if (int size = s.request.no_repeat_ngram_size) {
      std::vector<int32_t> tokens = s.tokens(row);
      int n = (int)tokens.size();
      for (int start = 0; start + size <= n; start++)
        if (std::equal(tokens.end() - (size - 1), tokens.end(), tokens.begin() + start))
          out.push_back(tokens[start + size - 1]);
      std::sort(out.begin(), out.end());
    }
    if (!s.once.empty()) {
      std::vector<int32_t> tokens = s.tokens(row), missing;
      for (int32_t token : s.once) {
        bool present = std::find(tokens.begin(), tokens.end(), token) != tokens.end();
        (present ? out : missing).push_back(token);
      }
      if (!missing.empty() && (int)missing.size() == s.num_left()) return all_but(s, missing);
      if (!missing.empty()) out.push_back(end);
      std::sort(out.begin(), out.end());
    }
    return shortlist ? shortlist->places(s.own, out) : out;
  }

  // All positions but those of some tokens, which ascend.
  std::vector<int32_t> all_but(const Sentence& s, const std::vector<int32_t>& tokens) const {
    std::vector<int32_t> kept = shortlist ? shortlist->places(s.own, tokens) : tokens, out;
    int32_t num = shortlist ? shortlist->num_places(s.own) : num_tokens;
    auto next = kept.begin();
    for (int32_t position = 0; position < num; position++)
      if (next != kept.end() && *next == position) next++;
      else out.push_back(position);
    return out;
  }

  int32_t token(const Sentence& s, int32_t position) const {
    return shortlist ? shortlist->token(s.own, position) : position;
  }

  void choose_greedy(Sentence& s, const LogitReader& reader) const {
    Row& row = s.rows[0];
    Candidate best = reader.top();
    if (reader.broken() || best.token < 0) {
      s.done = s.failed = true;
      return;
    }
    best.token = token(s, best.token);
    bool last = s.is_last(), forced = last && s.request.rule.force_end;
    if (s.needs_sum() && !forced) row.sum += best.value - reader.total();
    row.token = best.token;
    bool ends = last || best.token == end;
    if (s.request.return_search)
      s.trace.push_back({s.num_generated(), forced ? end : best.token, 0, true, ends, row.sum});
    if (!ends) return;
    bool cut = best.token != end;
    std::vector<int32_t> tokens = s.tokens(row);
    if (cut && !forced) tokens.push_back(best.token);
    double score = s.score(row.sum, (int)tokens.size() + (forced || !cut));
    s.pool.push_back({score, std::move(tokens), cut});
    s.done = true;
  }

  void choose_beam(Sentence& s, const LogitReader* readers, PageCache& pages) const {
    for (size_t r = 0; r < s.rows.size(); r++)
      if (readers[r].broken()) {
        s.done = s.failed = true;
        return;
      }
    std::vector<Candidate> candidates = best_candidates(s, readers);
    size_t num_pooled = add_to_pool(s, candidates);
    std::vector<Candidate> continuing;
    for (const Candidate& c : candidates)
      if (c.token != end && continuing.size() < (size_t)width) continuing.push_back(c);
    s.done = s.is_last() || continuing.empty() || is_done(s, continuing[0].value);
    s.failed = s.done && s.pool.empty();
    if (s.request.return_search) record(s, candidates, num_pooled);
    if (!s.done) continue_rows(s, continuing, pages);
  }

  // The candidates a beam considers, best first; of equals the one of the first row.
  std::vector<Candidate> best_candidates(const Sentence& s, const LogitReader* readers) const {
    std::vector<Candidate> out;
    for (size_t r = 0; r < s.rows.size(); r++) {
      float total = readers[r].total(), offset = s.rows[r].sum - total;
      auto add = [&](float logit, int32_t token) {
        float value = offset + logit;
        if (std::isfinite(value)) out.push_back({value, token, (int)r});
      };
      if (s.is_last() && s.request.rule.force_end) add(total, end);
      else
        for (const Candidate& c : readers[r]) add(c.value, token(s, c.token));
    }
    std::stable_sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
    // A beam that narrows considers no more candidates than it has rows left.
    size_t most = s.request.rule.narrows ? width - s.pool.size() : 2 * (size_t)width;
    if (out.size() > most) out.resize(most);
    return out;
  }

  // Put the candidates that end or are cut at this step into the pool, which keeps the best. Returns the rank behind the last
  // one that was kept: those of one step are equally long, so one that is kept has no better one that is not.
  size_t add_to_pool(Sentence& s, const std::vector<Candidate>& candidates) const {
    size_t kept = 0;
    for (size_t rank = 0; rank < candidates.size() && rank < (size_t)width; rank++) {
      const Candidate& c = candidates[rank];
      bool closed = c.token == end, last = s.is_last();
      if (!closed && !last) continue;
      s.leader_ended |= rank == 0;
      std::vector<int32_t> tokens = s.tokens(s.rows[c.row]);
      if (!closed) tokens.push_back(c.token);
      double score = s.score(c.value, (int)tokens.size() + closed);
      bool cut = last && (!closed || s.request.rule.force_end);
      auto next = std::upper_bound(s.pool.begin(), s.pool.end(), score,
                                   [](double x, const Hypothesis& other) { return x > other.score; });
      if (next - s.pool.begin() < width) kept = rank + 1;
      s.pool.insert(next, {score, std::move(tokens), cut});
      if (s.pool.size() > (size_t)width) s.pool.pop_back();
    }
    return kept;
  }

  // Remember what became of the candidates of this step. num_pooled: see add_to_pool().
  void record(Sentence& s, const std::vector<Candidate>& candidates, size_t num_pooled) const {
    int rows_left = s.done ? 0 : width;
    for (size_t rank = 0; rank < candidates.size(); rank++) {
      const Candidate& c = candidates[rank];
      bool finished = s.is_last() || c.token == end;
      bool kept = finished ? rank < num_pooled : rows_left-- > 0;
      s.trace.push_back({s.num_generated(), c.token, c.row, kept, finished, c.value});
    }
  }

  // Whether nothing that still runs can change the answer; leader: log-probability of the best running hypothesis.
  bool is_done(const Sentence& s, double leader) const {
    const ScoringRule& rule = s.request.rule;
    int num_ended = (int)s.pool.size();
    if (rule.leader_must_end) return s.leader_ended && num_ended >= s.request.num_hypotheses;
    if (num_ended < width) return false;
    return rule.stops_when_full || s.pool.back().score >= s.score(leader, s.request.num_prefix + s.num_generated() + 1);
  }

  // Make the rows of the next step: each continues a row of this one. The first one to continue a row takes its pages, the
  // others share them.
  void continue_rows(Sentence& s, const std::vector<Candidate>& continuing, PageCache& pages) const {
    std::vector<Row> rows(continuing.size());
    std::vector<int> heir(s.rows.size(), -1);
    for (size_t i = 0; i < continuing.size(); i++) {
      const Candidate& c = continuing[i];
      rows[i].token = c.token;
      rows[i].sum = c.value;
      if (heir[c.row] < 0) heir[c.row] = (int)i;
      else {
        rows[i].pages = s.rows[c.row].pages;
        for (Page* page : rows[i].pages) page->refs++;
      }
    }
    for (size_t r = 0; r < s.rows.size(); r++)
      if (heir[r] < 0) release(s.rows[r].pages, pages);
      else rows[heir[r]].pages = std::move(s.rows[r].pages);
    s.rows = std::move(rows);
  }
};
