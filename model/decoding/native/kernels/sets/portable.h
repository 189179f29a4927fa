// Any processor. Vectors are of four numbers, which the compiler maps to whatever instructions there are.
//
// The functions here say what those of the other sets do, too.

#pragma once

#include <cstring>

#include "../../kernels.h"

namespace {

typedef float Vec __attribute__((vector_size(16)));
typedef int32_t IntVec __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(sizeof(Vec))));  // the bits of a vector of numbers
constexpr int kVecLanes = 4, kParts = 4;

// Vectors of one tile's outputs, rows of one tile, and queries that are multiplied with a block of keys at a time.
constexpr int kTileVectors = 4, kMaxTileRows = 2, kQueriesAtOnce = 1;

template <typename To, typename From>
inline To bits_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// Lanes of a where m has all bits set, else those of b.
inline IntVec choose(IntVec m, IntVec a, IntVec b) { return (m & a) | (~m & b); }
inline Vec choose(IntVec m, Vec a, Vec b) { return (Vec)choose(m, (IntVec)a, (IntVec)b); }
// Bit i is set where lane i of a comparison is true.
inline uint32_t lanes(IntVec m) { return (m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8); }

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline void store(float* p, Vec v) { std::memcpy(p, &v, sizeof(v)); }
inline Vec broadcast(float x) { return Vec{x, x, x, x}; }

// a * b + c, rounded once.
inline float fused(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
  return __builtin_fmaf(a, b, c);
#else
  // The product is exact in double. Their sum is rounded to odd: then rounding it again to float gives what rounding once
  // would (Boldo and Melquiond 2008, "Emulation of a FMA and correctly rounded sums").
  double product = (double)a * b, sum = product + c, back = sum - product;
  double error = (product - (sum - back)) + (c - back);
  uint64_t bits = bits_of<uint64_t>(sum);
  constexpr uint64_t kExponent = 0x7ffull << 52;
  if (error != 0 && !(bits & 1) && (bits & kExponent) != kExponent) bits += (error > 0) == (sum > 0) ? 1 : -1;
  return (float)bits_of<double>(bits);
#endif
}
#ifdef __FP_FAST_FMAF
inline
#else
__attribute__((noinline))  // dozens of copies would take the compiler half a minute
#endif
Vec fmadd(Vec a, Vec b, Vec c) {
  return Vec{fused(a[0], b[0], c[0]), fused(a[1], b[1], c[1]), fused(a[2], b[2], c[2]), fused(a[3], b[3], c[3])};
}
// c - a * b, rounded once.
inline Vec fnmadd(Vec a, Vec b, Vec c) { return fmadd(-a, b, c); }
// a * b + c in a float32 product, rounded once or twice.
inline Vec accumulate(Vec a, Vec b, Vec c) {
#ifdef __FP_FAST_FMAF
  return fmadd(a, b, c);
#else
  return a * b + c;
#endif
}
// The second number if one of them is NaN.
inline Vec maximum(Vec a, Vec b) { return choose(a > b, a, b); }
inline Vec minimum(Vec a, Vec b) { return choose(a < b, a, b); }
// The nearest whole number, the even one of two; the magnitude is less than 2^22.
inline Vec nearest(Vec v) {
  constexpr float kMagic = 12582912.f;  // numbers of its size have no binary places
  return (v + kMagic) - kMagic;
}
// v times 2 to the power of r, a whole number for which the power is a normal float32.
inline Vec times_power_of_two(Vec v, Vec r) {
  constexpr float kMagic = 12582912.f;
  constexpr int kBias = 127, kMantissaBits = 23;
  typedef uint32_t Bits __attribute__((vector_size(16)));
  Bits exponent = (Bits)(r + kMagic) - (Bits)broadcast(kMagic) + kBias;
  return v * (Vec)(exponent << kMantissaBits);
}
// The first n lanes of v, and those of `other` behind; n may be beyond the bounds.
inline Vec choose_first(int n, Vec v, Vec other) { return choose(IntVec{0, 1, 2, 3} < n, v, other); }
// The larger of two magnitudes; NaN is larger than any number.
inline Vec larger_magnitude(Vec a, Vec b) {
  IntVec x = (IntVec)a & 0x7fffffff, y = (IntVec)b & 0x7fffffff;
  return (Vec)choose(x > y, x, y);
}

inline float to_float(Half half) {
  constexpr uint32_t kExponent = 0x7c00 << 13;
  uint32_t sign = (uint32_t)(half.bits & 0x8000) << 16, bits = (uint32_t)(half.bits & 0x7fff) << 13;
  if ((bits & kExponent) == kExponent) bits += (255 - 31) << 23;  // infinity or NaN
  else if (bits & kExponent) bits += (127 - 15) << 23;
  else return bits_of<float>(bits_of<uint32_t>((float)(half.bits & 0x3ff) * 0x1p-24f) | sign);  // subnormal
  return bits_of<float>(bits | sign);
}
// Rounds to the nearest, the even one of two.
inline Half to_half(float x) {
  uint32_t bits = bits_of<uint32_t>(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return {(uint16_t)(sign | 0x7e00)};  // NaN
  if (magnitude < 0x38800000)  // less than 2^-14: what is left of the sum 0.5 + x is rounded to steps of 2^-24
    return {(uint16_t)(sign | (bits_of<uint32_t>(bits_of<float>(magnitude) + 0.5f) - 0x3f000000))};
  uint32_t odd = magnitude >> 13 & 1;
  return {(uint16_t)(sign | (magnitude - ((127 - 15) << 23) + 0xfff + odd) >> 13)};
}
inline Vec load(const Half* p) { return Vec{to_float(p[0]), to_float(p[1]), to_float(p[2]), to_float(p[3])}; }
// Numbers beyond those of float16 become its largest.
inline void store(Half* p, Vec v) {
  v = maximum(broadcast(-65504.f), minimum(broadcast(65504.f), v));  // this order keeps NaN
  for (int i = 0; i < kVecLanes; i++) p[i] = to_half(v[i]);
}

// Lanes two apart are joined first.
inline float sum(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline float largest(Vec v) {
  float even = v[0] > v[2] ? v[0] : v[2], odd = v[1] > v[3] ? v[1] : v[3];
  return even > odd ? even : odd;
}
// The sum of each of 16 vectors of 16 numbers: of four in a row by sum(), and then of these in pairs.
inline void sum_each(const Vec (*v)[kParts], Vec (&sums)[kParts]) {
  for (int i = 0; i < kLanes; i++)
    sums[i / kVecLanes][i % kVecLanes] = (sum(v[i][0]) + sum(v[i][1])) + (sum(v[i][2]) + sum(v[i][3]));
}

// Bit i is set where lane i of a is greater than that of b; where it is not less, NaN included.
inline uint32_t greater(Vec a, Vec b) { return lanes(a > b); }
inline uint32_t not_less(Vec a, Vec b) { return lanes(~(a < b)); }
// Where v is greater than `top`, it becomes `top`, and `start` becomes `starts`.
inline void keep_greater(Vec v, int32_t start, Vec& top, IntVec& starts) {
  IntVec m = v > top;
  top = choose(m, v, top);
  starts = choose(m, IntVec{start, start, start, start}, starts);
}

inline IntVec load_ints(const int32_t* p) { return (IntVec)load(reinterpret_cast<const float*>(p)); }
inline void store_ints(int32_t* p, IntVec v) { std::memcpy(p, &v, sizeof(v)); }
inline IntVec zero_ints() { return IntVec{}; }
inline IntVec add(IntVec a, IntVec b) { return a + b; }
inline IntVec subtract(IntVec a, IntVec b) { return a - b; }
inline Vec to_floats(IntVec v) { return Vec{(float)v[0], (float)v[1], (float)v[2], (float)v[3]}; }

// Transposes a matrix of 16 x 16 numbers of four bytes.
inline void transpose(uint32_t (&words)[kLanes][kLanes]) {
  for (int i = 0; i < kLanes; i++)
    for (int j = 0; j < i; j++) {
      uint32_t word = words[i][j];
      words[i][j] = words[j][i];
      words[j][i] = word;
    }
}

// What an activation is rounded to. A set may add `kShift` to make levels unsigned.
using Level = int8_t;
constexpr int kGroup = 4, kShift = 0;  // inputs of a group, see Kernels
// Whether all sums of a row lack the same number, and this number of a row of n levels.
constexpr bool kHasOffsets = false;
inline int32_t offset_of(const Level*, int) { return 0; }
constexpr int kMaxInt8Rows = kMaxTileRows, kInt8Tiles = 1;  // rows, and tiles of weights, that are multiplied together
constexpr int kInt8Cost = 64;  // see Kernels

// Rounds 16 numbers. What is no number becomes -128.
inline void store_levels(Level* levels, const Vec (&v)[kParts]) {
  for (int i = 0; i < kLanes; i++) {
    float x = v[i / kVecLanes][i % kVecLanes];
    float rounded = x == x ? nearest(broadcast(x < 127.f ? x : 127.f))[0] : -128.f;
    levels[i] = (Level)(rounded > -128.f ? rounded : -128.f);
  }
}

// Sums of `NumRows` rows of levels times one tile of weights.
template <int NumRows>
inline void add_int8_products(const Level* x, int stride, const int8_t* w, int num_groups,
                              IntVec (&sums)[NumRows][kTileVectors]) {
  constexpr int kOutputs = kTileVectors * kVecLanes;
  for (int r = 0; r < NumRows; r++) {
    int32_t row[kOutputs] = {};
    const int8_t* next = w;
    for (int i = 0; i < num_groups; i++, next += kOutputs * kGroup) {
      const Level* group = x + (size_t)r * stride + i * kGroup;
      for (int c = 0; c < kOutputs; c++)
        for (int k = 0; k < kGroup; k++) row[c] += group[k] * next[c * kGroup + k];
    }
    std::memcpy(sums[r], row, sizeof(row));
  }
}

}  // namespace

#include "widened_pairs.h"
