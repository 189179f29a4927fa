// What is fuzzed: the C interface of the compiled decoder, called as model/decoding/native calls it, with models, sentences and
// an order of calls that follow from the input's bytes. scripts/fuzz_native.py builds and runs it.
//
//   model    any architecture and weights that packed.py lets through, NaN and infinity among them
//   cohort   sentences join, take steps and leave in any order; each answer is the one that the sentence gets alone
//   forced   attention and logits of given pairs; greedy search chooses the best of these logits
//   threads  the same as cohort with models whose sentences and products are shared by threads
//   pool     the sharing of one product alone: every piece is computed once
//
// VERSO_FUZZ_TARGET names the one that a process runs.

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bytes.h"
#include "models.h"
#include "pool.h"
#include "sentences.h"

namespace {

// The answer that a sentence gets in a cohort of its own.
Answer answer_alone(const FuzzedModel& model, const Choice& c, const Asked& a, int threads) {
  void* cohort = make_cohort(model, c);
  PROMISE(join(cohort, {a}) == kDone);
  std::vector<Answer> answers;
  for (int steps = 0; answers.empty(); steps++) {
    PROMISE(steps < (int)a.inputs.size() + a.request.max_new_tokens);  // each call takes a step
    answers = run(cohort, 0, threads, [&](int64_t key) { return key == a.request.key ? &a : nullptr; });
  }
  PROMISE(answers.size() == 1);
  verso_cohort_free(cohort);
  return std::move(answers[0]);
}

// One cohort with the calls that the bytes choose, and afterwards some of its sentences alone.
class Play {
 public:
  Play(const FuzzedModel& model, bool has_shortlist, Bytes& in)
      : model_(model), in_(in), choice_(choice(in, model, has_shortlist)), cohort_(make_cohort(model, choice_)) {}
  ~Play() { verso_cohort_free(cohort_); }  // also with sentences that run
  Play(const Play&) = delete;
  Play& operator=(const Play&) = delete;

  void run_calls(int max_calls, int max_threads) {
    for (int calls = 0; calls < max_calls && !in_.empty(); calls++) switch (in_.between(0, 5)) {
        case 0:
        case 1: join_some(); break;
        case 5: leave_some(); break;
        default: step(max_threads);
      }
    if (in_.rarely()) return;  // freed while sentences run
    for (int steps = 0; !running_.empty(); steps++) {
      PROMISE(steps <= 2 * model_.positions());
      step(max_threads);
    }
  }

  void compare(size_t most) {
    for (size_t i = 0; i < answers_.size() && i < most; i++) {
      const auto& [asked, answer] = answers_[i];
      PROMISE(answer_alone(model_, choice_, asked, 1) == answer);
    }
  }

 private:
  void join_some() {
    std::vector<Asked> asked;
    for (int left = in_.between(0, 3); left && running_.size() + asked.size() < 6; left--)
      asked.push_back(sentence(in_, model_, choice_, next_key_ += (int64_t)1 << in_.between(0, 33)));
    if (!asked.empty() && in_.rarely()) {
      make_wrong(in_, model_, asked[in_.between(0, (int)asked.size() - 1)]);
      PROMISE(join(cohort_, asked) == kOutOfRange);  // and no sentence was added: the steps below would find it
      return;
    }
    PROMISE(join(cohort_, asked) == kDone);
    for (Asked& a : asked) running_.emplace(a.request.key, std::move(a));
  }

  void leave_some() {
    std::vector<int64_t> keys;
    for (const auto& [key, asked] : running_)
      if (in_.flag()) keys.push_back(key);
    for (int64_t key : keys) running_.erase(key);
    if (in_.flag()) keys.push_back(-1);  // no such sentence
    PROMISE(verso_leave(cohort_, keys.data(), (int32_t)keys.size()) == kDone);
  }

  void step(int max_threads) {
    auto find = [&](int64_t key) -> const Asked* {
      auto found = running_.find(key);
      return found == running_.end() ? nullptr : &found->second;
    };
    double seconds = in_.rarely() ? 0.002 : 0;
    for (Answer& answer : run(cohort_, seconds, in_.between(1, max_threads), find)) {
      auto found = running_.find(answer.key);
      PROMISE(found != running_.end());  // a sentence finishes once
      check_answer(model_, choice_, found->second, answer);
      answers_.emplace_back(std::move(found->second), std::move(answer));
      running_.erase(found);
    }
  }

  const FuzzedModel& model_;
  Bytes& in_;
  Choice choice_;
  void* cohort_;
  int64_t next_key_ = 0;
  std::map<int64_t, Asked> running_;
  std::vector<std::pair<Asked, Answer>> answers_;
};

void fuzz_model(Bytes& in) {
  Shape shape = small_shape(in);
  uint64_t seed = in.byte();
  FuzzedModel model(shape, seed, in);
  Play play(model, shape.has_shortlist, in);
  play.run_calls(6, 1);
  play.compare(1);
}

// Models that are made once, so that a run has time for many calls.
const std::pair<Shape, std::unique_ptr<FuzzedModel>>& common_model(int number) {
  static std::map<int, std::pair<Shape, std::unique_ptr<FuzzedModel>>> made;
  auto found = made.find(number);
  if (found != made.end()) return found->second;
  Sequence random(number);
  std::vector<uint8_t> bytes(64);
  for (uint8_t& byte : bytes) byte = (uint8_t)(random.below(255) & ~8);  // no odd values: these are for the other target
  Bytes in(bytes.data(), bytes.size());
  Shape shape = small_shape(in);
  shape.weights = (Shape::Weights)(number % 4);
  shape.has_shortlist = number / 3 % 2;
  shape.architecture.max_positions = 24 + number;
  shape.architecture.target_vocab_size = number % 2 ? 5 : 130;
  auto model = std::make_unique<FuzzedModel>(shape, number, in);
  return made[number] = {shape, std::move(model)};
}

void fuzz_cohort(Bytes& in) {
  const auto& [shape, model] = common_model(in.between(0, 23));
  Play play(*model, shape.has_shortlist, in);
  play.run_calls(24, 3);
  play.compare(3);
}

// Pairs of source and target, and how the library takes them.
struct Pairs {
  std::vector<int32_t> lengths, tokens;
  std::vector<size_t> sizes;  // numbers of each pair's weights
  bool wrong = false;
};

Pairs some_pairs(Bytes& in, const FuzzedModel& model) {
  Pairs made;
  for (int left = in.rarely() ? in.between(0, 40) : in.between(1, 3); left; left--) {
    int longest = in.rarely() ? model.positions() : std::min(6, model.positions());
    int source = in.between(1, longest), target = in.between(1, longest);
    if (in.rarely()) {
      made.wrong = true;
      (in.flag() ? source : target) = in.flag() ? 0 : model.positions() + 1;
    }
    made.lengths.insert(made.lengths.end(), {source, target});
    made.sizes.push_back((size_t)source * target);
    for (int i = 0; i < source; i++) made.tokens.push_back(in.between(0, model.source_vocab() - 1));
    for (int i = 0; i < target; i++) made.tokens.push_back(in.between(0, model.vocab() - 1));
    if (in.rarely() && !made.tokens.empty()) {
      made.wrong = true;
      made.tokens.back() = in.flag() ? -1 : std::max(model.vocab(), model.source_vocab());
    }
  }
  made.tokens.shrink_to_fit();
  return made;
}

bool same_bits(const float* a, const float* b, size_t n) { return n == 0 || std::memcmp(a, b, n * sizeof(float)) == 0; }

// Greedy search without filters takes the best of the logits that verso_logits gives for its own answer.
void compare_with_greedy(const FuzzedModel& model, bool has_shortlist, Bytes& in) {
  Choice c{1, has_shortlist ? model.end() : in.between(0, model.vocab() - 1), 0, {}};
  Asked a = sentence(in, model, c, 1);
  a.request.min_new_tokens = a.request.no_repeat_ngram_size = a.request.num_once = 0;
  a.request.rule.force_end = 0;
  a.once.clear();
  Answer answer = answer_alone(model, c, a, 1);
  if (answer.hypotheses.empty()) return;
  const Hypothesis& best = answer.hypotheses[0];
  std::vector<int32_t> given = a.source, chosen(best.tokens.begin() + a.request.num_prefix, best.tokens.end());
  if (!best.cut) chosen.push_back(c.end);
  given.insert(given.end(), a.inputs.begin(), a.inputs.end());
  given.insert(given.end(), chosen.begin(), chosen.end() - 1);
  int32_t length = (int32_t)(given.size() - a.source.size());
  const int32_t lengths[] = {a.request.num_source, length};
  std::vector<float> logits((size_t)length * model.vocab());
  PROMISE(verso_logits(model.handle(), lengths, given.data(), logits.data()) == kDone);
  std::vector<char> candidates = model.candidates(a.source, {});
  for (size_t i = 0; i < chosen.size(); i++) {
    const float* row = logits.data() + (a.inputs.size() - 1 + i) * model.vocab();
    for (int32_t other = 0; other < model.vocab(); other++) PROMISE(!candidates[other] || row[chosen[i]] >= row[other]);
  }
}

void fuzz_forced(Bytes& in) {
  const auto& [shape, model] = common_model(in.between(0, 23));
  Pairs pairs = some_pairs(in, *model);
  size_t total = 0;
  for (size_t size : pairs.sizes) total += size;
  std::vector<float> weights(total, NAN);
  int32_t n = (int32_t)pairs.sizes.size();
  int result = verso_attention(model->handle(), pairs.lengths.data(), n, pairs.tokens.data(), in.between(1, 3), weights.data());
  PROMISE(result == (pairs.wrong ? kOutOfRange : kDone));
  if (pairs.wrong) return;
  const float* next = weights.data();
  const int32_t* tokens = pairs.tokens.data();
  for (int i = 0; i < n; i++) {
    int source = pairs.lengths[2 * i], target = pairs.lengths[2 * i + 1];
    std::vector<float> alone(pairs.sizes[i]);
    PROMISE(verso_attention(model->handle(), &pairs.lengths[2 * i], 1, tokens, 1, alone.data()) == kDone);
    PROMISE(same_bits(alone.data(), next, alone.size()));
    for (int t = 0; t < target; t++, next += source) {
      float sum = 0;
      for (int s = 0; s < source; s++) sum += next[s];
      PROMISE(std::fabs(sum - 1) < 1e-3f);
    }
    std::vector<float> logits((size_t)target * model->vocab()), again(logits.size());
    PROMISE(verso_logits(model->handle(), &pairs.lengths[2 * i], tokens, logits.data()) == kDone);
    PROMISE(verso_logits(model->handle(), &pairs.lengths[2 * i], tokens, again.data()) == kDone);
    PROMISE(same_bits(logits.data(), again.data(), logits.size()));
    tokens += source + target;
  }
  compare_with_greedy(*model, shape.has_shortlist, in);
}

// Models whose products have enough blocks to be shared.
const std::pair<Shape, std::unique_ptr<FuzzedModel>>& wide_model(int number) {
  static std::pair<Shape, std::unique_ptr<FuzzedModel>> made[4];
  auto& entry = made[number];
  if (entry.second) return entry;
  Architecture a{};
  a.d_model = 64;
  a.source_vocab_size = 100;
  a.target_vocab_size = 1700;
  a.max_positions = 32;
  a.activation = RELU;
  a.pre_norm = 1;
  a.encoder_layers = a.decoder_layers = 1;
  a.encoder_heads = a.decoder_heads = 2;
  a.encoder_d_ff = a.decoder_d_ff = 1600;
  a.source_scale = a.target_scale = 8;
  a.layer_norm_eps = 1e-5f;
  Shape shape{a, number % 2 ? Shape::kFloat : Shape::kInt8, number / 2 == 1};
  const uint8_t bytes[] = {0, 3};
  Bytes in(bytes, sizeof bytes);
  auto model = std::make_unique<FuzzedModel>(shape, number, in);
  model->pretend_large();
  return entry = {shape, std::move(model)};
}

void fuzz_threads(Bytes& in) {
  const auto& [shape, model] = wide_model(in.between(0, 3));
  Play play(*model, shape.has_shortlist, in);
  play.run_calls(12, 3);
  play.compare(2);
}

using Target = void (*)(Bytes&);

Target target() {
  const std::map<std::string, Target> targets = {
      {"model", fuzz_model}, {"cohort", fuzz_cohort}, {"forced", fuzz_forced}, {"threads", fuzz_threads}, {"pool", fuzz_pool}};
  const char* name = std::getenv("VERSO_FUZZ_TARGET");
  auto found = targets.find(name ? name : "");
  if (found != targets.end()) return found->second;
  std::fprintf(stderr, "VERSO_FUZZ_TARGET must be model, cohort, forced, threads or pool\n");
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Target run_target = target();
  Bytes in(data, size);
  run_target(in);
  return 0;
}
