// Sentences whose answers are made of some of the vocabulary only: output columns that are packed for each sentence.
//
// model/decoding/shortlist.py says which. What every sentence may need is packed once and multiplied with all rows together; the
// rest of a sentence's candidates are its own, in slices of 64. A logit is the same to the last bit wherever its column
// stands. Places count the common columns, filled up to whole blocks, then the sentence's own.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "memory.h"
#include "products.h"

// 16 rows of 16 numbers of four bytes, turned: column i of what went in is row i of what comes out.
inline void turn(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 8; i++) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

class Shortlist {
 public:
  // rows: the output's weights, [n][k], which must outlive this; offsets, ids: the lists of the source tokens.
  Shortlist(const Linear& out, const void* rows, std::vector<int32_t> offsets, std::vector<int32_t> ids,
            std::vector<int32_t> always)
      : out_(out),
        rows_(static_cast<const int32_t*>(rows)),
        numbers_(out.q ? out.k4 : out.k),
        offsets_(std::move(offsets)),
        ids_(std::move(ids)),
        always_(std::move(always)) {
    slices_.set_size(kHead * 4 + (size_t)numbers_ * 256);
    std::vector<char> picked((size_t)always_.size() * numbers_ * 4);
    std::vector<float> bias, scales;
    for (size_t i = 0; i < always_.size(); i++) {
      std::memcpy(picked.data() + i * numbers_ * 4, row(always_[i]), numbers_ * 4);
      bias.push_back(out.bias.data()[always_[i]]);
      if (out.q) scales.push_back(out.scale.data()[always_[i]]);
    }
    int n = (int)always_.size();
    if (out.q) common_.pack((const int8_t*)picked.data(), scales.data(), bias.data(), n, out.k, -INFINITY);
    else common_.pack((const float*)picked.data(), bias.data(), n, out.k, -INFINITY);
  }

  // Columns of all sentences.
  const Linear& common() const { return common_; }
  Chunks& slices() const { return slices_; }

  // A sentence's candidates that are not common, in order. marks: scratch.
  std::vector<int32_t> own(const std::vector<int32_t>& source, std::vector<uint64_t>& marks) const {
    marks.assign((out_.n + 63) / 64, 0);
    for (int32_t token : source)
      for (int32_t i = offsets_[token]; i < offsets_[token + 1]; i++) marks[ids_[i] / 64] |= 1ull << ids_[i] % 64;
    for (int32_t token : always_) marks[token / 64] &= ~(1ull << token % 64);
    std::vector<int32_t> found;
    for (size_t word = 0; word < marks.size(); word++)
      for (uint64_t left = marks[word]; left; left &= left - 1)
        found.push_back((int32_t)(word * 64 + __builtin_ctzll(left)));
    return found;
  }

  // The columns of up to 64 tokens, packed as Linear packs them.
  void fill(void* slice, const int32_t* tokens, int n) const {
    float *scale = static_cast<float*>(slice), *bias = scale + 64;
    int32_t *comp = reinterpret_cast<int32_t*>(scale + 128), *weights = comp + 64;
    std::fill(bias, bias + 64, -INFINITY);
    std::memset(scale, 0, 64 * 4);
    std::memset(comp, 0, 64 * 4);
    for (int j = 0; j < n; j++) {
      bias[j] = out_.bias.data()[tokens[j]];
      if (!out_.q) continue;
      scale[j] = out_.scale.data()[tokens[j]];
      comp[j] = out_.comp.data()[tokens[j]];
    }
    for (int c = 0; c < 64; c += 16)
      for (int i = 0; i < numbers_; i += 16) {
        int left = std::min(16, numbers_ - i);
        __mmask16 mask = (1u << left) - 1;
        __m512i r[16];
        for (int j = 0; j < 16; j++)
          r[j] = c + j < n ? _mm512_maskz_loadu_epi32(mask, row(tokens[c + j]) + i) : _mm512_setzero_si512();
        turn(r);
        for (int j = 0; j < left; j++) _mm512_store_si512(weights + (size_t)(i + j) * 64 + c, r[j]);
      }
  }
  static Columns columns(const void* slice) {
    const float* scale = static_cast<const float*>(slice);
    return {scale + kHead, scale, scale + 64, reinterpret_cast<const int32_t*>(scale + 128)};
  }

  int32_t token(const std::vector<int32_t>& own, int32_t place) const {
    int32_t beyond = place - common_.nb * 64;
    return beyond < 0 ? always_[place] : own[beyond];
  }
  // Where a token stands, or -1.
  int32_t place(const std::vector<int32_t>& own, int32_t token) const {
    auto found = std::lower_bound(always_.begin(), always_.end(), token);
    if (found != always_.end() && *found == token) return (int32_t)(found - always_.begin());
    found = std::lower_bound(own.begin(), own.end(), token);
    if (found != own.end() && *found == token) return common_.nb * 64 + (int32_t)(found - own.begin());
    return -1;
  }
  // Those of some tokens that are there, in order.
  std::vector<int32_t> places(const std::vector<int32_t>& own, const std::vector<int32_t>& tokens) const {
    std::vector<int32_t> found;
    for (int32_t one : tokens)
      if (int32_t at = place(own, one); at >= 0) found.push_back(at);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  static constexpr int kHead = 192;  // numbers before a slice's weights: scale, bias, comp

  const int32_t* row(int32_t token) const { return rows_ + (size_t)token * numbers_; }

  const Linear& out_;
  const int32_t* rows_;
  int numbers_;  // of four bytes in a row: inputs, or four inputs each
  std::vector<int32_t> offsets_, ids_, always_;
  Linear common_;
  mutable Chunks slices_;
};
