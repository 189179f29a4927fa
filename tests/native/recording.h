// What recorder.py writes: models, what was asked of them, and what they answered. Numbers are little-endian, and an array
// stands behind the number of its elements.

#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/decoding/native/decoder.cpp"

// The kinds of records; recorder.py has the same numbers.
enum RecordKind : int32_t { kEnd = 0, kModel = 1, kSentences = 2, kAttention = 3, kLogits = 4 };

struct RecordedLinear {
  int32_t outputs, inputs;
  Precision precision;
  std::vector<char> weights;
  std::vector<float> scales, biases;

  LinearSource source() const {
    auto pointer = [](const auto& array) { return array.empty() ? nullptr : array.data(); };
    return {weights.data(), pointer(scales), pointer(biases), outputs, inputs, precision};
  }
};

struct RecordedModel {
  std::string name;
  // Of its products. exact: none is in float32. fused: the set that answered fuses multiplications and additions. If neither is
  // true, other sets compute other bits.
  Precision precision;
  bool exact, fused;
  Precision table_precision;
  Architecture architecture;
  std::vector<char> tables[4];
  std::vector<RecordedLinear> linears;
  std::vector<std::vector<float>> norms;
  std::vector<int32_t> offsets, ids, always;  // of a shortlist; without one there are no offsets
};

// One sentence's answer: numbers as Cohort::outcomes has them, behind the key.
struct RecordedAnswer {
  int64_t key;
  std::vector<int32_t> numbers;
  std::vector<double> scores;
  std::vector<TracedCandidate> candidates;
};

// Sentences that joined together.
struct RecordedJoin {
  std::vector<Request> requests;
  std::vector<int32_t> tokens;
};

struct RecordedCohort {
  int32_t width, end, renormalise;
  std::vector<int32_t> never;
  std::vector<RecordedJoin> joins;
  std::vector<RecordedAnswer> answers;
};

// Targets that were given, and the weights or logits.
struct RecordedPass {
  std::vector<int32_t> lengths, tokens;
  std::vector<float> numbers;
};

class Recording {
 public:
  explicit Recording(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + " cannot be read");
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    const std::string begin = "verso recording 3\n";
    if (bytes_.compare(0, begin.size(), begin) != 0) throw std::runtime_error(path + " is no recording of this version");
    at_ = begin.size();
  }

  RecordKind kind() { return number<RecordKind>(); }
  RecordedModel model() {
    RecordedModel m;
    auto name = array<char>();
    m.name.assign(name.begin(), name.end());
    m.precision = number<Precision>();
    m.exact = number<int32_t>();
    m.fused = number<int32_t>();
    m.table_precision = number<Precision>();
    m.architecture = number<Architecture>();
    for (auto& table : m.tables) table = array<char>();
    m.linears.resize(number<int64_t>());
    for (RecordedLinear& one : m.linears) {
      one.outputs = number<int32_t>();
      one.inputs = number<int32_t>();
      one.precision = number<Precision>();
      one.weights = array<char>();
      one.scales = array<float>();
      one.biases = array<float>();
    }
    m.norms.resize(number<int64_t>());
    for (auto& one : m.norms) one = array<float>();
    m.offsets = array<int32_t>();
    m.ids = array<int32_t>();
    m.always = array<int32_t>();
    return m;
  }
  RecordedCohort cohort() {
    RecordedCohort c;
    c.width = number<int32_t>();
    c.end = number<int32_t>();
    c.renormalise = number<int32_t>();
    c.never = array<int32_t>();
    c.joins.resize(number<int64_t>());
    for (RecordedJoin& one : c.joins) {
      one.requests = array<Request>();
      one.tokens = array<int32_t>();
    }
    c.answers.resize(number<int64_t>());
    for (RecordedAnswer& one : c.answers) {
      one.key = number<int64_t>();
      one.numbers = array<int32_t>();
      one.scores = array<double>();
      one.candidates = array<TracedCandidate>();
    }
    return c;
  }
  RecordedPass pass() {
    RecordedPass p;
    p.lengths = array<int32_t>();
    p.tokens = array<int32_t>();
    p.numbers = array<float>();
    return p;
  }

 private:
  template <typename T>
  T number() {
    T value;
    copy(&value, sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> array() {
    auto size = number<int64_t>();
    if (size < 0 || (uint64_t)size > (bytes_.size() - at_) / sizeof(T)) throw std::runtime_error("the recording is cut off");
    std::vector<T> values(size);
    if (size) copy(values.data(), size * sizeof(T));
    return values;
  }
  void copy(void* to, size_t size) {
    if (size > bytes_.size() - at_) throw std::runtime_error("the recording is cut off");
    std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }

  std::string bytes_;
  size_t at_ = 0;
};
