// Logits are read while they are in the cache: the best of them, and the logarithm of the sum of their exponentials.

#pragma once

#include "tiles.h"
#include "vectors.h"

namespace {

constexpr int kVectorsPerBlock = kBlockOutputs / kLanes;

// Keeps, for each of the 16 lanes, the best logit and the position at which its vector starts.
inline void update_top(LogitState& state, const float* values, int first) {
#pragma GCC unroll 16
  for (int p = 0; p < kParts; p++) {
    Vec top = load(state.top + p * kVecLanes);
    IntVec starts = load_ints(state.top_starts + p * kVecLanes);
    for (int c = 0; c < kVectorsPerBlock; c++)
      keep_greater(load(values + c * kLanes + p * kVecLanes), first + c * kLanes, top, starts);
    store(state.top + p * kVecLanes, top);
    store_ints(state.top_starts + p * kVecLanes, starts);
  }
}

// Inserts a candidate behind those that are at least as good.
inline void insert(LogitState& state, float value, int32_t position) {
  if (!(value > state.threshold)) return;
  if (state.num_found == state.num_best) state.num_found--;
  int at = state.num_found++;
  for (; at > 0 && value > state.best[at - 1].value; at--) state.best[at] = state.best[at - 1];
  state.best[at] = {value, position, 0};
  if (state.num_found == state.num_best) state.threshold = state.best[state.num_found - 1].value;
}

inline void update_best(LogitState& state, const float* values, int first) {
  for (int i = 0; i < kBlockOutputs; i += kVecLanes)
    for (uint32_t m = greater(load(values + i), broadcast(state.threshold)); m; m &= m - 1) {
      int at = i + __builtin_ctz(m);
      insert(state, values[at], first + at);
    }
}

// Adds the exponentials of a block to the sum.
inline void add_exponentials(LogitState& state, const float* values) {
  Floats most = load16(values);
  for (int c = 1; c < kVectorsPerBlock; c++) {
    Floats v = load16(values + c * kLanes);
    most = for_parts([&](int p) { return maximum(most.part[p], v.part[p]); });
  }
  float highest = largest(most);
  if (!(highest > -__builtin_inff())) return;
  Floats sums = load16(state.sum);
  if (!state.begun) {
    state.reference = highest;
    state.begun = true;
  } else if (highest > state.reference + 16.f) {
    // Exponentials stay far from the bounds of float32, and are seldom rescaled. As in LogitReader::total, the exponential is
    // one of double precision.
    sums = multiply(sums, broadcast16((float)__builtin_exp((double)(state.reference - highest))));
    state.reference = highest;
  }
  Floats reference = broadcast16(state.reference);
  for (int c = 0; c < kVectorsPerBlock; c++)
    sums = add(sums, exponential(subtract(load16(values + c * kLanes), reference)));
  store16(state.sum, sums);
}

// Overwrites the forbidden ones of 64 logits. next: the first forbidden position that is to come, and then the first behind.
inline void forbid(const int32_t*& next, const int32_t* end, float* values, int first) {
  for (; next < end && *next < first + kBlockOutputs; next++) values[*next - first] = -__builtin_inff();
}

void read_logits(LogitState& state, float* values, int first) {
  uint32_t bad = 0;
  for (int i = 0; i < kBlockOutputs; i += kVecLanes) bad |= not_less(load(values + i), broadcast(__builtin_inff()));
  state.broken |= bad != 0;
  if (state.with_total && !state.renormalise) add_exponentials(state, values);
  forbid(state.never, state.never_end, values, first);
  forbid(state.forbidden, state.forbidden_end, values, first);
  if (state.with_total && state.renormalise) add_exponentials(state, values);
  if (state.num_best == 1) update_top(state, values, first);
  else if (state.num_best > 1) update_best(state, values, first);
}

void multiply_and_read(const ProductInput& input, const Columns& block, int first, int num_rows,
                       LogitState* const* states, int position) {
  alignas(kCacheLine) float values[kMaxTileRows * kBlockOutputs];
  for (int r = 0, n; r < num_rows; r += n) {
    n = tile_rows(input, num_rows - r);
    multiply_rows(input, block, first + r, n, {values, kBlockOutputs, kBlockOutputs, NONE, nullptr});
    for (int i = 0; i < n; i++) read_logits(*states[r + i], values + i * kBlockOutputs, position);
  }
}

}  // namespace
