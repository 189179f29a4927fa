// The reverse of Linear::pack(): torch's copy of the weights is made from the packed ones when something needs it, so that
// they are in memory once.

#pragma once

#include <cstdint>

#include "products.h"

// weights: [outputs][inputs], int8 or float32 as they were packed; scales, bias: one for each output. Those that are null are
// left out; a float32 product has no scales.
inline void unpack(const Linear& linear, void* weights, float* scales, float* bias) {
  if (scales && linear.is_int8) std::copy_n(linear.scale.data(), linear.num_outputs, scales);
  if (bias) std::copy_n(linear.bias.data(), linear.num_outputs, bias);
  if (!weights) return;
  for (int b = 0; b < linear.num_blocks; b++) {
    const void* block = linear.block(b).weights;
    int first = b * kBlockOutputs, columns = std::min(kBlockOutputs, linear.num_outputs - first);
    for (int i = 0; i < linear.num_inputs; i++)
      for (int c = 0; c < columns; c++) {
        size_t at = (size_t)(first + c) * linear.num_inputs + i;
        if (linear.is_int8) {
          size_t group = (size_t)(i / kGroup) * kBlockOutputs + c;
          static_cast<int8_t*>(weights)[at] = static_cast<const int8_t*>(block)[group * kGroup + i % kGroup];
        } else {
          static_cast<float*>(weights)[at] = static_cast<const float*>(block)[(size_t)i * kBlockOutputs + c];
        }
      }
  }
}
