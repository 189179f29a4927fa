// Sentences that choose among a part of the vocabulary (model/decoding/shortlist.py): the output columns of their candidates,
// packed for each sentence.
//
// Candidates that every sentence has (the common ones) are packed once and multiplied with all rows together. A sentence's
// other candidates are its own, packed in slices of 64. A logit is the same to the last bit in whichever block its column is.
// A candidate's position counts the common columns, filled up to whole blocks, and then the sentence's own ones.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "memory.h"
#include "products.h"

class Shortlist {
 public:
  // weights: of the output product, [outputs][inputs], which must outlive this object; offsets, ids: the lists of the source
  // tokens; always: the common candidates.
  Shortlist(const Linear& output, const void* weights, std::vector<int32_t> offsets, std::vector<int32_t> ids,
            std::vector<int32_t> always)
      : output_(output),
        weights_(static_cast<const char*>(weights)),
        offsets_(std::move(offsets)),
        ids_(std::move(ids)),
        always_(std::move(always)) {
    slices_.set_chunk_size(kHeader * sizeof(float) + output.block_bytes());
    size_t row_size = output.row_bytes();
    AlignedBuffer<char> picked;
    picked.resize(always_.size() * row_size);
    std::vector<float> bias, scales;
    for (size_t i = 0; i < always_.size(); i++) {
      std::memcpy(picked.data() + i * row_size, row(always_[i]), row_size);
      bias.push_back(output.bias.data()[always_[i]]);
      if (output.precision == INT8) scales.push_back(output.scale.data()[always_[i]]);
    }
    common_.pack(*output.kernels,
                 {picked.data(), scales.data(), bias.data(), (int)always_.size(), output.num_inputs, output.precision},
                 -INFINITY);
  }

  // The columns of all sentences.
  const Linear& common() const { return common_; }
  // Memory for the slices of sentences.
  ChunkPool& slices() const { return slices_; }

  // A sentence's own candidates, in ascending order. once: tokens that it requires. marks: a buffer.
  std::vector<int32_t> own(const std::vector<int32_t>& source, const std::vector<int32_t>& once,
                           std::vector<uint64_t>& marks) const {
    constexpr int kBits = 64;
    marks.assign((output_.num_outputs + kBits - 1) / kBits, 0);
    for (int32_t token : source)
      for (int32_t i = offsets_[token]; i < offsets_[token + 1]; i++) marks[ids_[i] / kBits] |= 1ull << ids_[i] % kBits;
    for (int32_t token : once) marks[token / kBits] |= 1ull << token % kBits;
    for (int32_t token : always_) marks[token / kBits] &= ~(1ull << token % kBits);
    std::vector<int32_t> found;
    for (size_t word = 0; word < marks.size(); word++)
      for (uint64_t left = marks[word]; left; left &= left - 1)
        found.push_back((int32_t)(word * kBits + __builtin_ctzll(left)));
    return found;
  }

  // Packs the columns of up to 64 tokens as Linear does.
  void fill(void* slice, const int32_t* tokens, int n) const {
    float *scale = static_cast<float*>(slice), *bias = scale + kBlockOutputs;
    int32_t* compensation = static_cast<int32_t*>(slice) + 2 * kBlockOutputs;
    std::fill_n(bias, kBlockOutputs, -INFINITY);
    std::fill_n(scale, kBlockOutputs, 0.f);
    std::fill_n(compensation, kBlockOutputs, 0);
    const char* rows[kBlockOutputs];
    for (int j = 0; j < n; j++) {
      rows[j] = row(tokens[j]);
      bias[j] = output_.bias.data()[tokens[j]];
      if (output_.precision != INT8) continue;
      scale[j] = output_.scale.data()[tokens[j]];
      compensation[j] = output_.compensation.data()[tokens[j]];
    }
    output_.kernels->pack(rows, n, output_.num_inputs, output_.precision, compensation + kBlockOutputs);
  }
  static Columns columns(const void* slice) {
    const float* scale = static_cast<const float*>(slice);
    const int32_t* compensation = static_cast<const int32_t*>(slice) + 2 * kBlockOutputs;
    return {compensation + kBlockOutputs, scale, scale + kBlockOutputs, compensation};
  }

  // The number of a sentence's positions.
  int32_t num_places(const std::vector<int32_t>& own) const {
    return common_.num_padded_outputs() + (int32_t)own.size();
  }
  // The token at a position.
  int32_t token(const std::vector<int32_t>& own, int32_t position) const {
    int32_t index = position - common_.num_padded_outputs();
    return index < 0 ? always_[position] : own[index];
  }
  // The position of a token; -1 if it is not a candidate.
  int32_t place(const std::vector<int32_t>& own, int32_t token) const {
    auto found = std::lower_bound(always_.begin(), always_.end(), token);
    if (found != always_.end() && *found == token) return (int32_t)(found - always_.begin());
    found = std::lower_bound(own.begin(), own.end(), token);
    if (found != own.end() && *found == token) return common_.num_padded_outputs() + (int32_t)(found - own.begin());
    return -1;
  }
  // The positions of those tokens that are candidates, in ascending order.
  std::vector<int32_t> places(const std::vector<int32_t>& own, const std::vector<int32_t>& tokens) const {
    std::vector<int32_t> found;
    for (int32_t one : tokens)
      if (int32_t at = place(own, one); at >= 0) found.push_back(at);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  static constexpr int kHeader = 3 * kBlockOutputs;  // numbers before a slice's weights: scale, bias, compensation

  const char* row(int32_t token) const { return weights_ + token * output_.row_bytes(); }

  const Linear& output_;
  const char* weights_;
  std::vector<int32_t> offsets_, ids_, always_;
  Linear common_;
  mutable ChunkPool slices_;
};
