// Vectors of 128 bits, for the sets with NEON.

#pragma once

#include <arm_neon.h>

#include <cstring>

#include "../../kernels.h"

namespace {

using Vec = float32x4_t;
using IntVec = int32x4_t;
typedef uint32_t Words __attribute__((vector_size(sizeof(Vec))));  // the bits of a vector of numbers
constexpr int kVecLanes = 4, kParts = 4;

// 6 rows of 4 vectors are 24 accumulators, and the processor has 32 registers.
constexpr int kTileVectors = 4, kMaxTileRows = 6, kQueriesAtOnce = 4;

inline Vec choose(uint32x4_t m, Vec a, Vec b) { return vbslq_f32(m, a, b); }
// Bit i is set where lane i of a comparison is true. Seldom any is.
inline uint32_t lanes(uint32x4_t m) {
  if (!vget_lane_u64(vreinterpret_u64_u16(vmovn_u32(m)), 0)) return 0;
  constexpr uint32_t kBits[kVecLanes] = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(m, vld1q_u32(kBits)));
}
// All bits set in the first n lanes; n may be beyond the bounds.
inline uint32x4_t first_lanes(int n) {
  constexpr int32_t kNumbers[kVecLanes] = {0, 1, 2, 3};
  return vcgtq_s32(vdupq_n_s32(n), vld1q_s32(kNumbers));
}

inline Vec load(const float* p) { return vld1q_f32(p); }
inline Vec load(const Half* p) {
  float16x4_t halves;
  std::memcpy(&halves, p, sizeof(halves));
  return vcvt_f32_f16(halves);
}
inline void store(float* p, Vec v) { vst1q_f32(p, v); }
inline Vec broadcast(float x) { return vdupq_n_f32(x); }
inline Vec fmadd(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
inline Vec fnmadd(Vec a, Vec b, Vec c) { return vfmsq_f32(c, a, b); }
inline Vec accumulate(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
// NEON's own maximum is NaN if one of the numbers is.
inline Vec maximum(Vec a, Vec b) { return choose(vcgtq_f32(a, b), a, b); }
inline Vec minimum(Vec a, Vec b) { return choose(vcltq_f32(a, b), a, b); }
inline Vec nearest(Vec v) { return vrndnq_f32(v); }
// v times 2 to the power of r, a whole number for which the power is a normal float32.
inline Vec times_power_of_two(Vec v, Vec r) {
  constexpr int kBias = 127, kMantissaBits = 23;
  int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(r), vdupq_n_s32(kBias));
  return v * vreinterpretq_f32_s32(vshlq_n_s32(exponent, kMantissaBits));
}
inline Vec choose_first(int n, Vec v, Vec other) { return choose(first_lanes(n), v, other); }
inline Vec larger_magnitude(Vec a, Vec b) {
  int32x4_t magnitude = vdupq_n_s32(0x7fffffff);
  return vreinterpretq_f32_s32(vmaxq_s32(vandq_s32(vreinterpretq_s32_f32(a), magnitude),
                                         vandq_s32(vreinterpretq_s32_f32(b), magnitude)));
}
inline void store(Half* p, Vec v) {
  constexpr float kLargest = 65504.f;  // of float16; the order of the operands below keeps NaN
  float16x4_t halves = vcvt_f16_f32(maximum(broadcast(-kLargest), minimum(broadcast(kLargest), v)));
  std::memcpy(p, &halves, sizeof(halves));
}

inline float sum(Vec v) {
  float32x2_t two = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float largest(Vec v) {
  float32x2_t low = vget_low_f32(v), high = vget_high_f32(v), two = vbsl_f32(vcgt_f32(low, high), low, high);
  float even = vget_lane_f32(two, 0), odd = vget_lane_f32(two, 1);
  return even > odd ? even : odd;
}
// The sum of each of 16 vectors: of four numbers as sum() has it, and then of these in pairs.
inline void sum_each(const Vec (*v)[kParts], Vec (&sums)[kParts]) {
#pragma GCC unroll 4
  for (int four = 0; four < kParts; four++, v += kVecLanes) {
    Vec quarters[kParts];
#pragma GCC unroll 4
    for (int p = 0; p < kParts; p++) {
      Vec halves[2];
#pragma GCC unroll 2
      for (int i = 0; i < 2; i++) {
        float64x2_t a = vreinterpretq_f64_f32(v[2 * i][p]), b = vreinterpretq_f64_f32(v[2 * i + 1][p]);
        halves[i] = vreinterpretq_f32_f64(vzip1q_f64(a, b)) + vreinterpretq_f32_f64(vzip2q_f64(a, b));
      }
      quarters[p] = vpaddq_f32(halves[0], halves[1]);
    }
    sums[four] = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
  }
}

inline uint32_t greater(Vec a, Vec b) { return lanes(vcgtq_f32(a, b)); }
inline uint32_t not_less(Vec a, Vec b) { return lanes(vmvnq_u32(vcltq_f32(a, b))); }
inline void keep_greater(Vec v, int32_t start, Vec& top, IntVec& starts) {
  uint32x4_t m = vcgtq_f32(v, top);
  top = choose(m, v, top);
  starts = vbslq_s32(m, vdupq_n_s32(start), starts);
}

inline IntVec load_ints(const int32_t* p) { return vld1q_s32(p); }
inline void store_ints(int32_t* p, IntVec v) { vst1q_s32(p, v); }
inline IntVec zero_ints() { return vdupq_n_s32(0); }
inline IntVec add(IntVec a, IntVec b) { return vaddq_s32(a, b); }
inline IntVec subtract(IntVec a, IntVec b) { return vsubq_s32(a, b); }
inline Vec to_floats(IntVec v) { return vcvtq_f32_s32(v); }

// Transposes a matrix of 16 x 16 numbers of four bytes, by its sixteen parts of 4 x 4.
inline void transpose(uint32_t (&words)[kLanes][kLanes]) {
  uint32_t result[kLanes][kLanes];
  for (int top = 0; top < kLanes; top += 4)
    for (int left = 0; left < kLanes; left += 4) {
      uint32x4_t r0 = vld1q_u32(words[top] + left), r1 = vld1q_u32(words[top + 1] + left);
      uint32x4_t r2 = vld1q_u32(words[top + 2] + left), r3 = vld1q_u32(words[top + 3] + left);
      uint64x2_t low01 = vreinterpretq_u64_u32(vzip1q_u32(r0, r1)), high01 = vreinterpretq_u64_u32(vzip2q_u32(r0, r1));
      uint64x2_t low23 = vreinterpretq_u64_u32(vzip1q_u32(r2, r3)), high23 = vreinterpretq_u64_u32(vzip2q_u32(r2, r3));
      vst1q_u32(result[left] + top, vreinterpretq_u32_u64(vzip1q_u64(low01, low23)));
      vst1q_u32(result[left + 1] + top, vreinterpretq_u32_u64(vzip2q_u64(low01, low23)));
      vst1q_u32(result[left + 2] + top, vreinterpretq_u32_u64(vzip1q_u64(high01, high23)));
      vst1q_u32(result[left + 3] + top, vreinterpretq_u32_u64(vzip2q_u64(high01, high23)));
    }
  std::memcpy(words, result, sizeof(result));
}

// Both sets multiply signed levels with signed weights.
using Level = int8_t;
constexpr int kShift = 0;
constexpr bool kHasOffsets = false;
inline int32_t offset_of(const Level*, int) { return 0; }

// Rounds 16 numbers. What is no number becomes -128, as with VNNI.
inline void store_levels(Level* levels, const Vec (&v)[kParts]) {
  int16x4_t words[kParts];
#pragma GCC unroll 4
  for (int p = 0; p < kParts; p++) {
    int32x4_t rounded = vcvtnq_s32_f32(v[p]);  // 0 where it is no number
    words[p] = vqmovn_s32(vbslq_s32(vceqq_f32(v[p], v[p]), rounded, vdupq_n_s32(-128)));
  }
  vst1q_s8(levels, vcombine_s8(vqmovn_s16(vcombine_s16(words[0], words[1])),
                               vqmovn_s16(vcombine_s16(words[2], words[3]))));
}

}  // namespace
