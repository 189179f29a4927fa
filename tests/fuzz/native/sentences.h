// Sentences as a caller could ask for them, their answers, and what the library promises of these.

#pragma once

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bytes.h"
#include "models.h"

// How a cohort chooses: what NativeCohort passes to verso_cohort.
struct Choice {
  int32_t width, end, renormalise;
  std::vector<int32_t> never;
};

inline Choice choice(Bytes& in, const FuzzedModel& model, bool has_shortlist) {
  Choice made{in.rarely() ? 64 : in.between(1, 6), has_shortlist ? model.end() : in.between(0, model.vocab() - 1),
              in.flag(), {}};
  int one_in = in.rarely() ? in.between(1, 4) : 40;  // 1: no token may come at all
  Sequence random(in.byte());
  for (int32_t token = 0; token < model.vocab(); token++)
    if (random.below(one_in) == 0) made.never.push_back(token);
  return made;
}

inline void* make_cohort(const FuzzedModel& model, const Choice& c) {
  void* cohort = verso_cohort(model.handle(), c.width, c.end, c.renormalise, c.never.data(), (int32_t)c.never.size());
  PROMISE(cohort);
  return cohort;
}

// One sentence that is asked for.
struct Asked {
  Request request;
  std::vector<int32_t> source, inputs, once;  // inputs: the start token, forced ones, the prefix
};

inline std::vector<int32_t> tokens(Bytes& in, int count, int vocab) {
  std::vector<int32_t> made(count);
  for (int32_t& token : made) token = in.between(0, vocab - 1);
  return made;
}

// A sentence that Sentence.of and DecodingOptions let through; its policy is any of those of scoring.py.
inline Asked sentence(Bytes& in, const FuzzedModel& model, const Choice& c, int64_t key) {
  const double penalties[] = {1.0, 0.0, 0.6, 2.0, 10.0};
  const int32_t ngrams[] = {0, 0, 1, 2, 3, INT32_MAX}, minima[] = {0, 0, 1, 5, INT32_MAX};
  Asked a{};
  Request& r = a.request;
  r.key = key;
  r.rule = {in.one_of(penalties), 0, 1, 0, 0, 0, 0};
  switch (in.between(0, 3)) {  // RULES of scoring.py: hf, ct2, marian, wu
    case 0: r.rule.force_end = in.flag(); r.rule.stops_when_full = in.flag(); break;
    case 1: r.rule.stops_when_full = 1; r.rule.leader_must_end = r.rule.length_penalty == 0; break;
    case 2: r.rule.stops_when_full = r.rule.narrows = 1; break;
    default: r.rule.length_offset = 5; r.rule.length_scale = 6;
  }
  bool longest = in.rarely();
  a.source = tokens(in, longest ? model.positions() : in.between(1, std::min(8, model.positions())), model.source_vocab());
  r.num_source = (int32_t)a.source.size();
  int room = model.positions() - 1;  // one token at least has to be chosen
  r.num_forced = in.flag() ? in.between(0, std::min(room, 2)) : 0;
  room -= r.num_forced;
  r.num_prefix = in.flag() ? in.between(0, std::min(room, 5)) : 0;
  room -= r.num_prefix;
  a.inputs = tokens(in, 1 + r.num_forced + r.num_prefix, model.vocab());
  r.max_new_tokens = longest ? room + 1 : in.between(1, std::min(room + 1, 12));
  r.min_new_tokens = in.one_of(minima);
  r.no_repeat_ngram_size = in.one_of(ngrams);
  r.num_hypotheses = in.between(1, c.width);
  r.return_scores = in.flag();
  r.return_search = in.flag();
  for (int32_t token : tokens(in, in.flag() ? in.between(0, 16) : 0, model.vocab()))  // MAX_REQUIRED_IDS
    if (std::find(a.once.begin(), a.once.end(), token) == a.once.end()) a.once.push_back(token);
  r.num_once = (int32_t)a.once.size();
  return a;
}

// Makes a token or a length of a sentence one that the model does not have, which the library itself has to refuse.
inline void make_wrong(Bytes& in, const FuzzedModel& model, Asked& a) {
  const int32_t wrong[] = {-1, INT32_MIN, INT32_MAX, std::max(model.vocab(), model.source_vocab())};
  switch (in.between(0, 4)) {
    case 0: a.source[0] = in.one_of(wrong); break;
    case 1: a.inputs.back() = in.one_of(wrong); break;
    case 2: a.source.assign(in.flag() ? 0 : model.positions() + 1, 0); break;
    case 3: a.request.max_new_tokens = in.flag() ? 0 : model.positions() - (int)a.inputs.size() + 2; break;
    default: a.once.assign(1, in.one_of(wrong));
  }
  a.request.num_source = (int32_t)a.source.size();
  a.request.num_once = (int32_t)a.once.size();
}

inline int join(void* cohort, const std::vector<Asked>& asked) {
  std::vector<Request> requests;
  std::vector<int32_t> all;
  for (const Asked& a : asked) {
    requests.push_back(a.request);
    for (auto part : {&a.source, &a.inputs, &a.once}) all.insert(all.end(), part->begin(), part->end());
  }
  all.shrink_to_fit();  // a read beyond the end is then seen
  return verso_join(cohort, requests.data(), (int32_t)requests.size(), all.data());
}

// What became of a sentence.
struct Answer {
  int64_t key = 0;
  std::vector<Hypothesis> hypotheses;  // none: it failed
  std::vector<TracedCandidate> trace;

  // Equal to the last bit.
  bool operator==(const Answer& other) const {
    auto same = [](const Hypothesis& a, const Hypothesis& b) {
      return a.cut == b.cut && a.tokens == b.tokens && std::memcmp(&a.score, &b.score, sizeof a.score) == 0;
    };
    auto same_candidate = [](const TracedCandidate& a, const TracedCandidate& b) {
      return std::memcmp(&a, &b, sizeof a) == 0;
    };
    return std::equal(hypotheses.begin(), hypotheses.end(), other.hypotheses.begin(), other.hypotheses.end(), same) &&
           std::equal(trace.begin(), trace.end(), other.trace.begin(), other.trace.end(), same_candidate);
  }
};

// Takes at least one step and reads what finished, as NativeCohort._read does. asked: of a key, what was asked for; null if no
// such sentence runs.
template <typename Find>
std::vector<Answer> run(void* cohort, double seconds, int threads, Find asked) {
  const int32_t* numbers = nullptr;
  const double* scores = nullptr;
  const TracedCandidate* candidates = nullptr;
  int32_t size = 0;
  PROMISE(verso_run(cohort, seconds, threads, &numbers, &size, &scores, &candidates) == kDone);
  std::vector<Answer> answers;
  const int32_t* end = numbers + size;
  while (numbers < end) {
    PROMISE(end - numbers >= 3);
    Answer answer;
    answer.key = (int64_t)((uint64_t)(uint32_t)numbers[1] << 32 | (uint32_t)numbers[0]);
    int count = numbers[2];
    numbers += 3;
    const Asked* a = asked(answer.key);
    PROMISE(a);
    PROMISE(count >= 0 && count <= a->request.num_hypotheses);
    for (int i = 0; i < count; i++) {
      PROMISE(end - numbers >= 2 && numbers[1] >= 0 && end - numbers - 2 >= numbers[1]);
      answer.hypotheses.push_back({*scores++, {numbers + 2, numbers + 2 + numbers[1]}, numbers[0] != 0});
      numbers += 2 + numbers[1];
    }
    if (count && a->request.return_search) {
      PROMISE(numbers < end && *numbers >= 0);
      answer.trace.assign(candidates, candidates + *numbers);
      candidates += *numbers++;
    }
    answers.push_back(std::move(answer));
  }
  PROMISE(numbers == end);
  return answers;
}

// What every answer keeps to, whatever the weights are.
inline void check_answer(const FuzzedModel& model, const Choice& c, const Asked& a, const Answer& answer) {
  const Request& r = a.request;
  std::vector<char> candidates = model.candidates(a.source, a.once);
  auto has = [](const std::vector<int32_t>& in, int32_t token) { return std::find(in.begin(), in.end(), token) != in.end(); };
  double previous = INFINITY;
  for (const Hypothesis& h : answer.hypotheses) {
    if (r.return_scores) {
      PROMISE(std::isfinite(h.score));
      PROMISE(h.score <= previous);
      previous = h.score;
    }
    size_t given = r.num_prefix;
    PROMISE(h.tokens.size() >= given && (int)(h.tokens.size() - given) <= r.max_new_tokens);
    PROMISE(std::equal(h.tokens.begin(), h.tokens.begin() + given, a.inputs.begin() + 1 + r.num_forced));
    for (size_t i = given; i < h.tokens.size(); i++) {
      int32_t token = h.tokens[i];
      PROMISE(token >= 0 && token < model.vocab() && token != c.end);
      PROMISE(candidates[token]);
      PROMISE(!has(c.never, token) || has(a.once, token));
      // Required tokens come once; those of the prefix count.
      if (has(a.once, token)) PROMISE(std::count(h.tokens.begin(), h.tokens.end(), token) == 1);
    }
    if (!h.cut && !has(a.once, c.end)) {  // nothing ends before it may; nobody requires the closing token
      PROMISE((int)(h.tokens.size() - given) >= r.min_new_tokens);
      for (int32_t token : a.once) PROMISE(has(h.tokens, token));
    }
    if (int n = r.no_repeat_ngram_size)
      for (size_t i = std::max<size_t>(given, 1); i < h.tokens.size(); i++)  // no sequence that ends at i came before
        for (size_t j = n - 1; j < i; j++) {
          if (i + 1 < (size_t)n) break;
          PROMISE(!std::equal(h.tokens.begin() + (i + 1 - n), h.tokens.begin() + (i + 1), h.tokens.begin() + (j + 1 - n)));
        }
  }
  int step = 0;
  for (const TracedCandidate& t : answer.trace) {
    PROMISE(t.token >= 0 && t.token < model.vocab() && t.row >= 0 && t.row < c.width);
    PROMISE(t.step >= step && t.step < r.max_new_tokens && std::isfinite(t.log_prob));
    step = t.step;
  }
}
