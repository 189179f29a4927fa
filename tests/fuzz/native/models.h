// Models as a bundle could hold them: any architecture that packed.py hands to the library, and any weights.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "bytes.h"
#include "model/decoding/native/decoder.cpp"

// What packed.py does before it calls verso_model: heads are padded to a multiple of 16. ModelConfig has at least one of
// everything, and an even width.
struct Shape {
  Architecture architecture;
  enum Weights { kFloat, kInt8, kBfloat16, kMixed } weights;
  bool has_shortlist;
};

inline Shape small_shape(Bytes& in) {
  Architecture a{};
  a.encoder_heads = in.between(1, 3);
  int head = in.flag() ? 16 * in.between(1, a.encoder_heads == 1 ? 5 : 2) : 2 * in.between(1, 40 / a.encoder_heads);
  a.d_model = a.encoder_heads * head;
  a.decoder_heads = in.flag() ? a.encoder_heads : 1;
  a.alignment_head = in.between(-1, a.decoder_heads - 1);
  a.source_vocab_size = in.between(1, 140);
  a.target_vocab_size = in.between(1, 140);
  a.max_positions = in.between(1, 40);
  a.activation = in.one_of({RELU, SILU, GELU});
  a.pre_norm = in.flag();
  a.encoder_layers = in.between(1, 2);
  a.decoder_layers = in.between(1, 2);
  a.encoder_d_ff = in.between(1, 70);
  a.decoder_d_ff = in.between(1, 70);
  a.source_scale = a.target_scale = in.flag() ? std::sqrt((float)a.d_model) : 1.f;
  a.layer_norm_eps = in.flag() ? 1e-5f : 1e-12f;
  return {a, (Shape::Weights)in.between(0, 3), in.flag()};
}

// A model and all that it points to. Every array is an allocation of its own of the right size, so that AddressSanitizer sees
// a read beyond its end.
class FuzzedModel {
 public:
  // seed: of the weights.
  FuzzedModel(const Shape& shape, uint64_t seed, Bytes& in) : shape_(shape), random_(seed) {
    const Architecture& a = shape.architecture;
    int C = a.d_model;
    style_ = in.between(0, 3);
    bool narrow = shape.weights == Shape::kBfloat16;
    auto tokens = [&](int n) {
      return narrow ? (const void*)bfloat16s((size_t)n * C, 1) : (const void*)floats((size_t)n * C, 1);
    };
    EmbeddingTables tables{tokens(a.source_vocab_size), floats((size_t)a.max_positions * C, 1),
                           tokens(a.target_vocab_size), floats((size_t)a.max_positions * C, 1),
                           narrow ? BFLOAT16 : FLOAT32};
    for (int i = 0; i < a.encoder_layers; i++) {
      attention(in, 3, padded_width(a.encoder_heads));
      feed_forward(in, a.encoder_d_ff);
    }
    for (int i = 0; i < a.decoder_layers; i++) {
      int width = padded_width(a.decoder_heads);
      attention(in, 3, width);
      linear(in, width, C);  // cross-attention: the query; then keys and values, and what follows
      attention(in, 2, width);
      feed_forward(in, a.decoder_d_ff);
    }
    if (a.pre_norm) {
      norm();
      norm();
    }
    linear(in, a.target_vocab_size, C);
    spoil(in);
    handle_ = verso_model(usable_set(in), &a, &tables, linears_.data(), norms_.data());
    PROMISE(handle_);
    if (shape.has_shortlist) shorten(in);
  }
  ~FuzzedModel() { verso_model_free(handle_); }
  FuzzedModel(const FuzzedModel&) = delete;
  FuzzedModel& operator=(const FuzzedModel&) = delete;

  void* handle() const { return handle_; }
  const Architecture& architecture() const { return shape_.architecture; }
  int source_vocab() const { return shape_.architecture.source_vocab_size; }
  int vocab() const { return shape_.architecture.target_vocab_size; }
  int positions() const { return shape_.architecture.max_positions; }
  int32_t end() const { return end_; }
  // Of each token, whether a sentence may choose it: without a shortlist all of them.
  std::vector<char> candidates(const std::vector<int32_t>& source, const std::vector<int32_t>& once) const {
    std::vector<char> found(vocab(), !shape_.has_shortlist);
    for (int32_t token : once) found[token] = true;
    for (int32_t token : always_) found[token] = true;
    if (shape_.has_shortlist)
      for (int32_t token : source)
        for (int32_t i = offsets_[token]; i < offsets_[token + 1]; i++) found[ids_[i]] = true;
    return found;
  }
  // Lets the library believe that a step is so much work that threads share it.
  void pretend_large() { static_cast<Model*>(handle_)->step_work = 1e7; }

 private:
  // Numbers around +-bound. Few different ones make equal logits, which is where rules about order show.
  float number(float bound) {
    switch (style_) {
      case 0: return bound * ((float)random_.below(2001) / 1000.f - 1.f);
      case 1: return bound * (float)(random_.below(3) - 1);
      case 2: return 0;
      default: return 4 * bound * ((float)random_.below(2001) / 1000.f - 1.f);  // decided models
    }
  }
  const float* floats(size_t n, float bound) {
    auto& made = floats_.emplace_back(n);
    for (float& one : made) one = number(bound);
    return made.data();
  }
  const Bfloat16* bfloat16s(size_t n, float bound) {
    auto& made = bfloat16s_.emplace_back(n);
    for (Bfloat16& one : made) {
      float value = number(bound);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      one.bits = (uint16_t)(bits >> 16);
    }
    return made.data();
  }
  Precision precision(Bytes& in) const {
    switch (shape_.weights) {
      case Shape::kFloat: return FLOAT32;
      case Shape::kInt8: return INT8;
      case Shape::kBfloat16: return BFLOAT16;
      default: return in.one_of({FLOAT32, BFLOAT16, INT8});
    }
  }
  void linear(Bytes& in, int outputs, int inputs) {
    LinearSource source{nullptr, nullptr, nullptr, outputs, inputs, precision(in)};
    float bound = 1.f / std::sqrt((float)inputs);
    if (source.precision == INT8) {
      auto& rounded = bytes_.emplace_back((size_t)outputs * inputs);
      for (int8_t& one : rounded) one = (int8_t)(style_ == 2 ? 0 : random_.below(256) - 128);
      source.weights = rounded.data();
      auto& scales = floats_.emplace_back(outputs);
      for (float& one : scales) one = bound / 128;
      source.scales = scales.data();
    } else if (source.precision == BFLOAT16) {
      source.weights = bfloat16s((size_t)outputs * inputs, bound);
    } else {
      source.weights = floats((size_t)outputs * inputs, bound);
    }
    if (in.flag()) source.biases = floats(outputs, 1);
    linears_.push_back(source);
  }
  void norm() {
    auto& gain = floats_.emplace_back(shape_.architecture.d_model);
    for (float& one : gain) one = 1;
    norms_.push_back(gain.data());
    norms_.push_back(floats(shape_.architecture.d_model, 0.1f));
  }
  // Projections to `parts` vectors of some width, the projection behind, and the norm. (The library does not depend on it that
  // what fills a head up is zero.)
  void attention(Bytes& in, int parts, int width) {
    int C = shape_.architecture.d_model;
    linear(in, parts * width, C);
    linear(in, C, width);
    norm();
  }
  int padded_width(int num_heads) const {
    Heads heads = padded_heads(num_heads, shape_.architecture.d_model);
    return heads.num_heads * heads.width;
  }
  // An instruction set that this processor can run.
  static int32_t usable_set(Bytes& in) {
    std::vector<int32_t> usable;
    for (int32_t set = 0; verso_set_name(set); set++)
      if (!verso_set_lacks(set)) usable.push_back(set);
    return usable[in.between(0, (int)usable.size() - 1)];
  }
  void feed_forward(Bytes& in, int d_ff) {
    linear(in, d_ff, shape_.architecture.d_model);
    linear(in, shape_.architecture.d_model, d_ff);
    norm();
  }
  // Puts numbers at the bounds of float32 into weights, scales, biases, norms and tables. A bundle in data form has finite
  // ones only; one in TorchScript may have any.
  void spoil(Bytes& in) {
    constexpr float kMax = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<float>::infinity();
    const float special[] = {NAN, kInfinity, -kInfinity, 0.f, -0.f, kMax, -kMax, 1e38f, 1e19f, -1e19f, 1e-45f, 65520.f};
    for (int left = in.rarely() ? in.between(1, 8) : 0; left; left--) {
      std::vector<float>& array = floats_[in.between(0, (int)floats_.size() - 1)];
      float value = in.one_of(special);
      if (in.flag()) std::fill(array.begin(), array.end(), value);
      else array[in.between(0, (int)std::min<size_t>(array.size(), 60000) - 1)] = value;
    }
  }
  // What Shortlist.check lets through: lists within the vocabulary that ascend, the closing token always there.
  void shorten(Bytes& in) {
    int one_in = in.between(1, 40);
    auto draw = [&](std::vector<int32_t>& to, int32_t required) {
      for (int32_t token = 0; token < vocab(); token++)
        if (token == required || random_.below(one_in) == 0) to.push_back(token);
    };
    end_ = in.between(0, vocab() - 1);
    draw(always_, end_);
    offsets_.push_back(0);
    for (int token = 0; token < source_vocab(); token++) {
      if (!in.rarely()) draw(ids_, -1);  // else it has none
      offsets_.push_back((int32_t)ids_.size());
    }
    PROMISE(verso_shorten(handle_, &linears_.back(), offsets_.data(), ids_.data(), always_.data(),
                          (int32_t)always_.size()) == kDone);
  }

  Shape shape_;
  Sequence random_;
  int style_ = 0;
  std::deque<std::vector<float>> floats_;  // a deque, so that what was made stays where it is
  std::deque<std::vector<int8_t>> bytes_;
  std::deque<std::vector<Bfloat16>> bfloat16s_;
  std::vector<LinearSource> linears_;
  std::vector<const float*> norms_;
  std::vector<int32_t> offsets_, ids_, always_;
  int32_t end_ = 0;
  void* handle_ = nullptr;
};
