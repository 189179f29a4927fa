// Operations on whole rows: layer normalisation, embedding, and the recurrent unit.

#pragma once

#include "vectors.h"

namespace {

void layer_norm(const float* gain, const float* bias, const float* x, float* out, int num_rows, int C, float eps) {
  const int whole = C / kLanes * kLanes, rest = C - whole;
  const Floats zero = broadcast16(0.f);
  for (int r = 0; r < num_rows; r++) {
    const float* p = x + (size_t)r * C;
    float* q = out + (size_t)r * C;
    Floats sums = zero, squares = zero;
    for (int i = 0; i < whole; i += kLanes) sums = add(sums, load16(p + i));
    if (rest) sums = add(sums, load_first(p + whole, rest));
    Floats mean = broadcast16(sum(sums) / C);
    for (int i = 0; i < whole; i += kLanes) {
      Floats v = subtract(load16(p + i), mean);
      squares = fmadd(v, v, squares);
    }
    if (rest) {
      Floats v = choose_first(rest, subtract(load_first(p + whole, rest), mean), zero);
      squares = fmadd(v, v, squares);
    }
    Floats inverse = broadcast16(1.f / __builtin_sqrtf(sum(squares) / C + eps));
    for (int i = 0; i < whole; i += kLanes) {
      Floats v = multiply(subtract(load16(p + i), mean), inverse);
      store16(q + i, fmadd(v, load16(gain + i), load16(bias + i)));
    }
    if (rest) {
      Floats v = multiply(subtract(load_first(p + whole, rest), mean), inverse);
      store_first(q + whole, fmadd(v, load_first(gain + whole, rest), load_first(bias + whole, rest)), rest);
    }
  }
}

void embed(const float* token, const float* position, float scale, int C, float* x) {
  const int whole = C / kLanes * kLanes, rest = C - whole;
  const Floats scales = broadcast16(scale);
  for (int i = 0; i < whole; i += kLanes) store16(x + i, fmadd(load16(token + i), scales, load16(position + i)));
  if (rest) store_first(x + whole, fmadd(load_first(token + whole, rest), scales, load_first(position + whole, rest)), rest);
}

// forget * before + (1 - forget) * input, where forget is the logistic function of `gate`.
inline Vec next_state(Vec gate, Vec input, Vec before) {
  const Vec one = broadcast(1.f);
  const Vec forget = one / (one + exponential(broadcast(0.f) - gate));
  return fmadd(forget, before, (one - forget) * input);
}
inline Floats next_state(const Floats& gate, const Floats& input, const Floats& before) {
  return for_parts([&](int i) { return next_state(gate.part[i], input.part[i], before.part[i]); });
}

void recur(const float* projected, const float* before, int C, float* state, float* x) {
  const int whole = C / kLanes * kLanes, rest = C - whole;
  const Floats zero = broadcast16(0.f);
  auto add_positive = [&](const Floats& sum, const Floats& v) {
    return for_parts([&](int i) { return sum.part[i] + activate(v.part[i], RELU); });
  };
  for (int i = 0; i < whole; i += kLanes) {
    Floats v = next_state(load16(projected + i), load16(projected + C + i), before ? load16(before + i) : zero);
    store16(state + i, v);
    store16(x + i, add_positive(load16(x + i), v));
  }
  if (rest) {
    Floats v = next_state(load_first(projected + whole, rest), load_first(projected + C + whole, rest),
                          before ? load_first(before + whole, rest) : zero);
    store_first(state + whole, v, rest);
    store_first(x + whole, add_positive(load_first(x + whole, rest), v), rest);
  }
}

}  // namespace
