// Attention of single positions. Keys that several queries attend to (those of a source) are kept in blocks of 16 positions
// with one input after the other, so that one instruction multiplies several positions. Keys of a row's own past are kept
// position by position.

#pragma once

#include "vectors.h"

namespace {

static_assert(kQueriesAtOnce <= kMaxQueriesAtOnce);

inline int blocks_of(int length) { return (length + kBlockPositions - 1) / kBlockPositions; }
inline int smaller(int a, int b) { return a < b ? a : b; }

// Brings numbers near that are read soon. Rows that decode together have more keys and values than the nearest caches hold, and
// the processor does not foresee where those of the next head or position are.
template <typename Number>
inline void fetch(const Number* numbers, int n) {
  for (int i = 0; i < n; i += kCacheLine / sizeof(Number)) __builtin_prefetch(numbers + i);
}

// Replaces n scores, none above `maximum`, by exp(score - maximum), fills the last block up with 0, and returns the sum.
inline float exponentiate(float* scores, int n, float maximum) {
  Floats sums = broadcast16(0.f), maxima = broadcast16(maximum), zero = sums;
  for (int p = 0; p < n; p += kBlockPositions) {
    Floats e = choose_first(n - p, exponential(subtract(load16(scores + p), maxima)), zero);
    sums = add(sums, e);
    store16(scores + p, e);
  }
  return sum(sums);
}

// Weighted means of n values for R rows that attend to the same positions: out[row], one head of `width` numbers. sums: of
// each row's weights.
template <int R, typename Value>
inline void weighted_means(const float* const* weights, int n, int width, Value value, const float* sums,
                           float* const* out) {
  constexpr int kVectors = 4;  // taken together
  for (int i = 0; i < width; i += kVectors * kVecLanes) {
    int vectors = smaller(kVectors, (width - i) / kVecLanes);
    Vec means[R][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; c++) means[r][c] = broadcast(0.f);
    if (vectors == kVectors) {
      for (int t = 0; t < n; t++) {
        auto v = value(t) + i;
        Vec v0 = load(v), v1 = load(v + kVecLanes), v2 = load(v + 2 * kVecLanes), v3 = load(v + 3 * kVecLanes);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
          Vec w = broadcast(weights[r][t]);
          means[r][0] = fmadd(w, v0, means[r][0]);
          means[r][1] = fmadd(w, v1, means[r][1]);
          means[r][2] = fmadd(w, v2, means[r][2]);
          means[r][3] = fmadd(w, v3, means[r][3]);
        }
      }
    } else {
      for (int t = 0; t < n; t++)
        for (int c = 0; c < vectors; c++) {
          Vec v = load(value(t) + i + c * kVecLanes);
          for (int r = 0; r < R; r++) means[r][c] = fmadd(broadcast(weights[r][t]), v, means[r][c]);
        }
    }
    for (int r = 0; r < R; r++) {
      Vec inverse = broadcast(1.f / sums[r]);
      for (int c = 0; c < vectors; c++) store(out[r] + i + c * kVecLanes, means[r][c] * inverse);
    }
  }
}

// Adds n weights, multiplied by a factor, to `to`.
inline void add_weights(const float* weights, int n, float factor, float* to) {
  Floats factors = broadcast16(factor);
  for (int t = 0; t < n; t += kLanes) {
    int left = smaller(kLanes, n - t);
    store_first(to + t, fmadd(load_first(weights + t, left), factors, load_first(to + t, left)), left);
  }
}

// One head of R queries that attend to the same n positions. keys(b): block b, [width][16]; value(t): the numbers of position
// t. `scores` has room for R times n, rounded up to whole blocks.
template <int R, typename Keys, typename Value>
inline void attend_shared(const float* const* queries, int n, const Heads& heads, Keys keys, Value value,
                          float* const* out, float* scores, const WeightSums& added) {
  const int stride = blocks_of(n) * kBlockPositions, width = heads.width;
  Vec scale = broadcast(heads.scale), lowest = broadcast(-__builtin_inff());
  Floats maxima[R];
  for (int r = 0; r < R; r++) maxima[r] = broadcast16(-__builtin_inff());
  for (int b = 0; b * kBlockPositions < n; b++) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; part++) {
      auto k = keys(b) + part * kVecLanes;
      Vec s[R][4];  // four sums for each score, so that additions do not wait for one another
#pragma GCC unroll 4
      for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) s[r][c] = broadcast(0.f);
      for (int i = 0; i < width; i += 4, k += 4 * kBlockPositions) {
        Vec k0 = load(k), k1 = load(k + kBlockPositions), k2 = load(k + 2 * kBlockPositions),
            k3 = load(k + 3 * kBlockPositions);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
          const float* q = queries[r] + i;
          s[r][0] = fmadd(broadcast(q[0]), k0, s[r][0]);
          s[r][1] = fmadd(broadcast(q[1]), k1, s[r][1]);
          s[r][2] = fmadd(broadcast(q[2]), k2, s[r][2]);
          s[r][3] = fmadd(broadcast(q[3]), k3, s[r][3]);
        }
      }
      int at = b * kBlockPositions + part * kVecLanes;
#pragma GCC unroll 4
      for (int r = 0; r < R; r++) {
        Vec score = ((s[r][0] + s[r][1]) + (s[r][2] + s[r][3])) * scale;
        maxima[r].part[part] = maximum(maxima[r].part[part], choose_first(n - at, score, lowest));
        store(scores + r * stride + at, score);
      }
    }
  }
  const float* weights[R];
  float sums[R];
  for (int r = 0; r < R; r++) {
    weights[r] = scores + r * stride;
    sums[r] = exponentiate(scores + r * stride, n, largest(maxima[r]));
    if (added.rows) add_weights(weights[r], n, added.factor / sums[r], added.rows[r]);
  }
  weighted_means<R>(weights, n, width, value, sums, out);
}

// As above, for any number of queries.
template <typename Keys, typename Value>
inline void attend_shared(int num_queries, int n, const Heads& heads, Keys keys, Value value,
                          const AttentionScratch& scratch, const WeightSums& added) {
  for (int r = 0; r < num_queries; r += kQueriesAtOnce) {
    WeightSums sums{added.rows ? added.rows + r : nullptr, added.factor, added.head};
    const float* const* queries = scratch.queries + r;
    float* const* out = scratch.mixed + r;
    switch (smaller(kQueriesAtOnce, num_queries - r)) {
      case 1: attend_shared<1>(queries, n, heads, keys, value, out, scratch.scores, sums); break;
      case 2: attend_shared<2>(queries, n, heads, keys, value, out, scratch.scores, sums); break;
      case 3: attend_shared<kQueriesAtOnce < 3 ? 1 : 3>(queries, n, heads, keys, value, out, scratch.scores, sums); break;
      default: attend_shared<kQueriesAtOnce < 4 ? 1 : 4>(queries, n, heads, keys, value, out, scratch.scores, sums);
    }
  }
}

// keys: n rows of `width` numbers, `stride` apart, to a block of 16 positions, [width][16].
template <typename Number>
inline void store_keys(const float* keys, size_t stride, int n, int width, Number* block) {
  for (int i = 0; i < width; i += kLanes) {
    alignas(kCacheLine) uint32_t numbers[kLanes][kLanes];
    for (int p = 0; p < kLanes; p++)
      if (p < n) std::memcpy(numbers[p], keys + p * stride + i, sizeof(numbers[p]));
      else std::memset(numbers[p], 0, sizeof(numbers[p]));
    transpose(numbers);
    for (int k = 0; k < kLanes; k++) {
      alignas(kCacheLine) float column[kLanes];
      std::memcpy(column, numbers[k], sizeof(column));
      store16(block + (size_t)(i + k) * kBlockPositions, load16(column));
    }
  }
}

template <typename Number>
inline void copy_numbers(const float* from, int n, Number* to) {
  for (int i = 0; i < n; i += kLanes) store16(to + i, load16(from + i));
}

void attend_source(const Heads& heads, const float* projected, int length, float* keys, float* context,
                   const AttentionScratch& scratch) {
  const int D = heads.width, width = heads.num_heads * D, stride = 3 * width;
  const float *query = projected, *key = query + width, *value = key + width;
  for (int p = 0; p < length; p += kBlockPositions)
    store_keys(key + (size_t)p * stride, stride, smaller(kBlockPositions, length - p), width, keys + (size_t)p * width);
  for (int h = 0; h < heads.num_heads; h++) {
    for (int p = 0; p < length; p++) {
      scratch.queries[p] = query + (size_t)p * stride + h * D;
      scratch.mixed[p] = context + (size_t)p * width + h * D;
    }
    attend_shared(
        length, length, heads, [&](int b) { return keys + ((size_t)b * width + h * D) * kBlockPositions; },
        [&](int t) { return value + (size_t)t * stride + h * D; }, scratch, {nullptr, 0, 0});
  }
}

template <typename Number>
void store_block(const float* projected, int stride, int n, int width, void* block) {
  Number *keys = static_cast<Number*>(block), *values = keys + (size_t)kBlockPositions * width;
  store_keys(projected, stride, n, width, keys);
  for (int i = 0; i < n; i++)
    copy_numbers(projected + (size_t)i * stride + width, width, values + (size_t)i * width);
}

template <typename Number>
void attend_memory(const Heads& heads, const float* projected, int num_rows, void* const* blocks, int length, size_t keys,
                   float* context, const AttentionScratch& scratch, const WeightSums& added) {
  const int D = heads.width, width = heads.num_heads * D;
  const size_t values = keys + (size_t)kBlockPositions * width;
  auto keys_of = [&](int h, int b) {
    return static_cast<const Number*>(blocks[b]) + keys + (size_t)h * D * kBlockPositions;
  };
  auto value_of = [&](int h, int t) {
    const Number* block = static_cast<const Number*>(blocks[t / kBlockPositions]) + values;
    return block + (size_t)(t % kBlockPositions) * width + h * D;
  };
  auto fetch_keys = [&](int h) {
    for (int b = 0; b < blocks_of(length); b++) fetch(keys_of(h, b), D * kBlockPositions);
  };
  fetch_keys(0);
  for (int h = 0; h < heads.num_heads; h++) {
    for (int r = 0; r < num_rows; r++) {
      scratch.queries[r] = projected + (size_t)r * width + h * D;
      scratch.mixed[r] = context + (size_t)r * width + h * D;
    }
    for (int t = 0; t < length; t++) fetch(value_of(h, t), D);
    if (h + 1 < heads.num_heads) fetch_keys(h + 1);
    const bool adds = added.head < 0 || added.head == h;
    attend_shared(
        num_rows, length, heads, [&](int b) { return keys_of(h, b); }, [&](int t) { return value_of(h, t); }, scratch,
        {adds ? added.rows : nullptr, added.factor, added.head});
  }
}

// One head of one query that attends to its own n positions; key(t) and value(t): the numbers of position t. `scores` has room
// for n, rounded up to whole blocks.
template <typename Key, typename Value>
inline void attend_own(const float* query, int n, const Heads& heads, Key key, Value value, float* out, float* scores) {
  Vec scale = broadcast(heads.scale);
  Floats maxima = broadcast16(-__builtin_inff()), lowest = maxima;
  for (int p = 0; p < n; p += kBlockPositions) {
    int num_positions = smaller(kBlockPositions, n - p);
    Floats products[kBlockPositions];
    for (int t = 0; t < num_positions; t++) {
      auto k = key(p + t);
      Floats s = multiply(load16(query), load16(k));
      for (int i = kLanes; i < heads.width; i += kLanes) s = fmadd(load16(query + i), load16(k + i), s);
      products[t] = s;
    }
    for (int t = num_positions; t < kBlockPositions; t++) products[t] = broadcast16(0.f);
    Floats s;
    sum_each(&products[0].part, s.part);
    s = for_parts([&](int i) { return s.part[i] * scale; });
    Floats own = choose_first(num_positions, s, lowest);
    maxima = for_parts([&](int i) { return maximum(maxima.part[i], own.part[i]); });
    store16(scores + p, s);
  }
  const float* weights[1] = {scores};
  float sums[1] = {exponentiate(scores, n, largest(maxima))};
  float* outs[1] = {out};
  weighted_means<1>(weights, n, heads.width, value, sums, outs);
}

template <typename Number>
void attend_pages(const Heads& heads, const float* projected, Page* const* pages, int n, size_t keys, float* context,
                  float* scores) {
  const int D = heads.width, width = heads.num_heads * D;
  const size_t values = keys + width;
  auto content = [&](int t) { return reinterpret_cast<Number*>(reinterpret_cast<char*>(pages[t]) + kCacheLine); };
  copy_numbers(projected + width, 2 * width, content(n - 1) + keys);
  for (int t = 0; t < n; t++) fetch(content(t) + keys, D);
  for (int h = 0; h < heads.num_heads; h++) {
    for (int t = 0; t < n; t++) {
      fetch(content(t) + values + h * D, D);
      if (h + 1 < heads.num_heads) fetch(content(t) + keys + (h + 1) * D, D);
    }
    attend_own(
        projected + h * D, n, heads, [&](int t) { return content(t) + keys + h * D; },
        [&](int t) { return content(t) + values + h * D; }, context + h * D, scores);
  }
}

}  // namespace
