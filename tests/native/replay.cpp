// Asks the compiled decoder again what was recorded on another machine, or with another instruction set, and compares the
// answers (scripts/test_arm.py). It needs neither Python nor torch, so it runs under an emulator.
//
//   PROGRAM RECORDING [SET]    replay with one instruction set, or with all that this processor can run
//
// What must be equal: bits, if both sets compute the same (kernels.h); else tokens, and numbers within kTolerance. Exit status:
// 0 all answers are equal, 1 some are not, 2 the arguments or the recording are wrong, or the processor lacks the set.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "recording.h"

namespace {

constexpr double kTolerance = 1e-4;
constexpr int kThreads = 2;
constexpr int kReported = 5;  // differences that are printed

void require(int result, const char* call) {
  if (result != kDone) throw std::runtime_error(std::string(call) + " failed");
}

// Counts answers, and those whose bits are equal.
struct Count {
  int total = 0, same_bits = 0, different = 0;
};

template <typename T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
// The bits of NaN depend on the processor.
bool same_bits(float a, float b) { return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof(a)) == 0; }
template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](T x, T y) { return same_bits(x, y); });
}
bool near(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b || std::abs(a - b) <= kTolerance * (1 + std::abs(b));
}
template <typename T>
bool all_near(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](T x, T y) { return near(x, y); });
}

class ReplayedModel {
 public:
  ReplayedModel(RecordedModel recorded, int set) : recorded_(std::move(recorded)), set_(set) {
    for (const RecordedLinear& one : recorded_.linears) linears_.push_back(one.source());
    for (const auto& one : recorded_.norms) norms_.push_back(one.data());
    const auto& tables = recorded_.tables;
    auto floats = [](const std::vector<char>& table) { return reinterpret_cast<const float*>(table.data()); };
    EmbeddingTables addresses{tables[0].data(), floats(tables[1]), tables[2].data(), floats(tables[3]),
                              recorded_.table_precision, nullptr};
    handle_.reset(verso_model(set, &recorded_.architecture, &addresses, linears_.data(), norms_.data()));
    if (!handle_) throw std::runtime_error("there is no memory for a model");
    if (!recorded_.offsets.empty())
      require(verso_shorten(handle_.get(), &linears_.back(), recorded_.offsets.data(), recorded_.ids.data(),
                            recorded_.always.data(), (int32_t)recorded_.always.size()),
              "verso_shorten");
  }

  // Decodes the sentences and compares their answers.
  void compare(const RecordedCohort& c) {
    std::unique_ptr<void, decltype(&verso_cohort_free)> cohort(
        verso_cohort(handle_.get(), c.width, c.end, c.renormalise, c.never.data(), (int32_t)c.never.size()),
        verso_cohort_free);
    if (!cohort) throw std::runtime_error("there is no memory for a cohort");
    std::map<int64_t, Request> requests;
    std::map<int64_t, RecordedAnswer> found;
    for (const RecordedJoin& join : c.joins) {
      for (const Request& one : join.requests) requests[one.key] = one;
      require(verso_join(cohort.get(), join.requests.data(), (int32_t)join.requests.size(), join.tokens.data()),
              "verso_join");
      step(cohort.get(), requests, found);  // the next ones join sentences that have begun
    }
    while (found.size() < c.answers.size()) step(cohort.get(), requests, found);
    for (const RecordedAnswer& expected : c.answers) {
      const RecordedAnswer& answer = found.at(expected.key);
      bool bits = answer.numbers == expected.numbers && same_bits(answer.scores, expected.scores) &&
                  same_bits(answer.candidates, expected.candidates);
      // With other bits the search may differ in what it does not choose.
      bool similar = answer.numbers == expected.numbers && all_near(answer.scores, expected.scores);
      count("sentence", expected.key, bits, similar);
    }
  }
  void compare_attention(const RecordedPass& p) {
    std::vector<float> weights(p.numbers.size());
    require(verso_attention(handle_.get(), p.lengths.data(), (int32_t)p.lengths.size() / 2, p.tokens.data(), kThreads,
                            weights.data()),
            "verso_attention");
    count("attention", 0, same_bits(weights, p.numbers), all_near(weights, p.numbers));
  }
  void compare_logits(const RecordedPass& p) {
    std::vector<float> logits(p.numbers.size());
    require(verso_logits(handle_.get(), p.lengths.data(), p.tokens.data(), logits.data()), "verso_logits");
    count("logits", 0, same_bits(logits, p.numbers), all_near(logits, p.numbers));
  }

  Precision precision() const { return recorded_.precision; }
  const Count& answers() const { return count_; }

 private:
  // One step of all sentences; answers of those that finished.
  void step(void* cohort, const std::map<int64_t, Request>& requests, std::map<int64_t, RecordedAnswer>& found) {
    const int32_t* next = nullptr;
    const double* scores = nullptr;
    const TracedCandidate* candidates = nullptr;
    int32_t size = 0;
    require(verso_run(cohort, 0, kThreads, &next, &size, &scores, &candidates), "verso_run");
    for (const int32_t* end = next + size; next < end;) {
      RecordedAnswer answer;
      answer.key = (int64_t)((uint64_t)(uint32_t)next[1] << 32 | (uint32_t)next[0]);
      const int32_t* begin = next + 2;
      int num_hypotheses = *begin;
      next = begin + 1;
      for (int i = 0; i < num_hypotheses; i++) next += 2 + next[1];
      answer.scores.assign(scores, scores + num_hypotheses);
      scores += num_hypotheses;
      if (num_hypotheses && requests.at(answer.key).return_search) {
        answer.candidates.assign(candidates, candidates + *next);
        candidates += *next++;
      }
      answer.numbers.assign(begin, next);
      found[answer.key] = std::move(answer);
    }
  }

  void count(const char* what, int64_t key, bool bits, bool similar) {
    bool own_fused = std::string(verso_set_name(set_)) != "portable";
    bool equal = recorded_.exact || (recorded_.fused && own_fused) ? bits : similar;
    count_.total++;
    count_.same_bits += bits;
    count_.different += !equal;
    if (!equal && count_.different <= kReported)
      std::printf("  %s: %s %lld differs\n", recorded_.name.c_str(), what, (long long)key);
  }

  struct Free {
    void operator()(void* model) const { verso_model_free(model); }
  };
  RecordedModel recorded_;
  int set_;
  std::vector<LinearSource> linears_;
  std::vector<const float*> norms_;
  std::unique_ptr<void, Free> handle_;
  Count count_;
};

// Replays a recording with one set, prints a line, and returns whether all answers are equal.
bool replay(const std::string& path, int set) {
  Recording recording(path);
  std::unique_ptr<ReplayedModel> model;
  Count counts[3];  // by precision
  int num_models = 0;
  auto add = [&] {
    if (!model) return;
    Count& sum = counts[model->precision()];
    sum.total += model->answers().total;
    sum.same_bits += model->answers().same_bits;
    sum.different += model->answers().different;
    num_models++;
  };
  for (RecordKind kind; (kind = recording.kind()) != kEnd;) {
    if (kind == kModel) {
      add();
      model.reset();
      model = std::make_unique<ReplayedModel>(recording.model(), set);
    } else if (!model) {
      throw std::runtime_error("the recording begins without a model");
    } else if (kind == kSentences) {
      model->compare(recording.cohort());
    } else if (kind == kAttention) {
      model->compare_attention(recording.pass());
    } else if (kind == kLogits) {
      model->compare_logits(recording.pass());
    } else {
      throw std::runtime_error("the recording has a record of another kind");
    }
  }
  add();
  const Count &int8 = counts[INT8], &bfloat16 = counts[BFLOAT16], &float32 = counts[FLOAT32];
  int different = int8.different + bfloat16.different + float32.different;
  std::printf("%s: %d models; int8: %d of %d answers have the same bits; bfloat16: %d of %d; float32: %d of %d; %s\n",
              verso_set_name(set), num_models, int8.same_bits, int8.total, bfloat16.same_bits, bfloat16.total,
              float32.same_bits, float32.total, different ? "THERE ARE DIFFERENCES" : "all are equal");
  return !different;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: %s RECORDING [SET]\n", argv[0]);
    return 2;
  }
  bool found = false, equal = true;
  try {
    for (int set = 0; verso_set_name(set); set++) {
      const char* lacking = verso_set_lacks(set);
      if (argc == 3 && std::string(verso_set_name(set)) != argv[2]) continue;
      if (lacking) {
        std::printf("%s: this processor has no %s\n", verso_set_name(set), lacking);
        continue;
      }
      found = true;
      equal &= replay(argv[1], set);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  if (!found) return 2;
  return equal ? 0 : 1;
}
