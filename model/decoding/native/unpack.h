// The reverse of Linear::pack(): torch's copy of the weights is made from the packed ones when something needs it, so that
// they are in memory once.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "products.h"

// weights: [outputs][inputs], as they were packed; scales, bias: one for each output. Those that are null are left out; only an
// int8 product has scales. Kernels says how the weights lie.
inline void unpack(const Linear& linear, void* weights, float* scales, float* bias) {
  if (scales && linear.precision == INT8) std::copy_n(linear.scale.data(), linear.num_outputs, scales);
  if (bias) std::copy_n(linear.bias.data(), linear.num_outputs, bias);
  if (!weights) return;
  const int tile = linear.kernels->tile_outputs, group = linear.group_inputs(), num_groups = linear.num_groups;
  const size_t size = weight_bytes(linear.precision);
  auto* out = static_cast<char*>(weights);
  for (int j = 0; j < linear.num_outputs; j++) {
    const auto* block = static_cast<const char*>(linear.block(j / kBlockOutputs).weights);
    const int column = j % kBlockOutputs;
    for (int g = 0; g < num_groups; g++) {
      size_t from = (((size_t)(column / tile) * num_groups + g) * tile + column % tile) * group;
      int n = std::min(group, linear.num_inputs - g * group);
      std::memcpy(out + ((size_t)j * linear.num_inputs + (size_t)g * group) * size, block + from * size, n * size);
    }
  }
}
