// NEON with dot product (ARMv8.2): one instruction multiplies 4 groups of four levels with four weights each, and adds them up
// in 32 bits.

#pragma once

#include "neon_vectors.h"

namespace {

inline IntVec load_weights(const int8_t* p) { return vreinterpretq_s32_s8(vld1q_s8(p)); }
// The four bytes at p, in the first lane: the instruction takes them from there for all outputs. With intrinsics GCC 12 takes
// two or three instructions for it.
inline IntVec broadcast_bytes(const void* p) {
  IntVec bytes;
  asm("ldr %s0, %1" : "=w"(bytes) : "m"(*static_cast<const uint8_t(*)[4]>(p)));
  return bytes;
}
// In assembler, because compilers do not agree on the flag that the intrinsic needs: without a flag all of them compile this.
inline void add_products(IntVec& sums, IntVec weights, IntVec levels) {
  asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sums) : "w"(weights), "w"(levels));
}

}  // namespace

#include "byte_products.h"
#include "widened_pairs.h"
