// bfloat16 products for sets without an instruction for them: a pair of weights is widened to two float32 numbers, one after the
// other. The product of two bfloat16 numbers is exact in float32, so a sum has the same bits as with the instruction, which adds
// the second product of a pair first.

#pragma once

namespace {

using RoundedInput = float;
constexpr int kPairSteps = 2;
// One less than in float32, where there are several: a mask needs a register, too.
constexpr int kMaxPairRows = kMaxTileRows > 2 ? kMaxTileRows - 1 : kMaxTileRows;

// Stores 16 numbers, given by their bits.
inline void store_rounded(RoundedInput* to, const Vec (&v)[kParts]) {
#pragma GCC unroll 4
  for (int p = 0; p < kParts; p++) store(to + p * kVecLanes, v[p]);
}
// What the weights of kVecLanes outputs are multiplied with in a step.
inline Vec pair_weights(const Bfloat16Pair* w, int step) {
  Words pairs;
  std::memcpy(&pairs, w, sizeof(pairs));
  return (Vec)(step == 0 ? pairs & 0xffff0000 : pairs << 16);
}
inline Vec pair_inputs(const RoundedInput* pair, int step) { return broadcast(pair[1 - step]); }
inline void add_pair(Vec& sums, Vec weights, Vec inputs) { sums = accumulate(inputs, weights, sums); }

}  // namespace
