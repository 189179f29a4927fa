// Vectors of 16 float32 numbers, made of the set's own, and functions of vectors.
//
// A set's file (sets/) defines its vector types, Vec and IntVec, of kVecLanes numbers, the functions of vectors used below and
// in the other files of this folder, and how its int8 products are computed. sets/portable.h has no instruction of any
// processor and shows what each function does.

#pragma once

#include <cstring>

#include "../kernels.h"
#include VERSO_SET_HEADER

namespace {

// 16 numbers: in one vector or in several.
struct Floats {
  Vec part[kParts];
};

template <typename Number>
inline Floats load16(const Number* p) {
  Floats v;
#pragma GCC unroll 16
  for (int i = 0; i < kParts; i++) v.part[i] = load(p + i * kVecLanes);
  return v;
}
// The first n numbers, and then zeros.
inline Floats load_first(const float* p, int n) {
  alignas(kCacheLine) float padded[kLanes] = {};
  std::memcpy(padded, p, n * sizeof(float));
  return load16(padded);
}
template <typename Number>
inline void store16(Number* p, const Floats& v) {
#pragma GCC unroll 16
  for (int i = 0; i < kParts; i++) store(p + i * kVecLanes, v.part[i]);
}
inline void store_first(float* p, const Floats& v, int n) {
  alignas(kCacheLine) float padded[kLanes];
  store16(padded, v);
  std::memcpy(p, padded, n * sizeof(float));
}
inline Floats broadcast16(float x) {
  Floats v;
#pragma GCC unroll 16
  for (int i = 0; i < kParts; i++) v.part[i] = broadcast(x);
  return v;
}

// Calls f(part number) for each part of 16 numbers.
template <typename F>
inline Floats for_parts(F f) {
  Floats v;
#pragma GCC unroll 16
  for (int i = 0; i < kParts; i++) v.part[i] = f(i);
  return v;
}
inline Floats add(const Floats& a, const Floats& b) {
  return for_parts([&](int i) { return a.part[i] + b.part[i]; });
}
inline Floats subtract(const Floats& a, const Floats& b) {
  return for_parts([&](int i) { return a.part[i] - b.part[i]; });
}
inline Floats multiply(const Floats& a, const Floats& b) {
  return for_parts([&](int i) { return a.part[i] * b.part[i]; });
}
// a * b + c, rounded once.
inline Floats fmadd(const Floats& a, const Floats& b, const Floats& c) {
  return for_parts([&](int i) { return fmadd(a.part[i], b.part[i], c.part[i]); });
}
// The first n numbers of v, and those of `other` behind; n may be beyond the bounds.
inline Floats choose_first(int n, const Floats& v, const Floats& other) {
  return for_parts([&](int i) { return choose_first(n - i * kVecLanes, v.part[i], other.part[i]); });
}

// Joins 16 lanes in the order that every set has: lanes 8 apart, then 4, 2 and 1.
template <typename F>
inline Vec join_parts(const Floats& v, F f) {
  Floats joined = v;
#pragma GCC unroll 4
  for (int n = kParts / 2; n; n /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) joined.part[i] = f(joined.part[i], joined.part[i + n]);
  return joined.part[0];
}
inline float sum(const Floats& v) {
  return sum(join_parts(v, [](Vec a, Vec b) { return a + b; }));
}
inline float largest(const Floats& v) {
  return largest(join_parts(v, [](Vec a, Vec b) { return maximum(a, b); }));
}

// e to the power of x, correct to the last digit but one (polynomial of the Cephes library, after subtracting the nearest
// multiple of ln 2, which is given in two parts).
inline Vec exponential(Vec x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kSmallest = -87.f, kLargest = 88.f;  // beyond these the result is no normal float32
  x = maximum(broadcast(kSmallest), minimum(broadcast(kLargest), x));  // this order keeps NaN
  Vec r = nearest(x * broadcast(kLog2E));
  Vec f = fnmadd(r, broadcast(kLn2High), x);
  f = fnmadd(r, broadcast(kLn2Low), f);
  Vec p = broadcast(1.9875691500E-4f);
  p = fmadd(p, f, broadcast(1.3981999507E-3f));
  p = fmadd(p, f, broadcast(8.3334519073E-3f));
  p = fmadd(p, f, broadcast(4.1665795894E-2f));
  p = fmadd(p, f, broadcast(1.6666665459E-1f));
  p = fmadd(p, f, broadcast(5.0000001201E-1f));
  p = fmadd(f * f, p, f + broadcast(1.f));
  return times_power_of_two(p, r);
}
inline Floats exponential(const Floats& x) {
  return for_parts([&](int i) { return exponential(x.part[i]); });
}

// x times the normal distribution function, with an error of 1.5e-7 * |x| (Abramowitz and Stegun 1964, formula 7.1.26).
inline Vec gelu(Vec x) {
  constexpr float kInverseSqrt2 = 0.707106781f, kHalf = 0.5f;
  Vec zero = broadcast(0.f), one = broadcast(1.f), magnitude = maximum(zero - x, x);
  Vec z = magnitude * broadcast(kInverseSqrt2);
  Vec t = one / fmadd(z, broadcast(0.3275911f), one);
  Vec p = broadcast(1.061405429f);
  p = fmadd(p, t, broadcast(-1.453152027f));
  p = fmadd(p, t, broadcast(1.421413741f));
  p = fmadd(p, t, broadcast(-0.284496736f));
  p = fmadd(p, t, broadcast(0.254829592f));
  Vec tail = p * t * broadcast(kHalf) * exponential(zero - z * z);  // the share of the distribution beyond |x|
  return fnmadd(magnitude, tail, maximum(zero, x));
}

inline Vec activate(Vec v, int activation) {
  if (activation == RELU) return maximum(broadcast(0.f), v);  // this order keeps NaN
  if (activation == SILU) return v / (broadcast(1.f) + exponential(broadcast(0.f) - v));
  if (activation == GELU) return gelu(v);
  return v;
}

}  // namespace
