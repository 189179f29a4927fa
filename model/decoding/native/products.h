// Products with weight matrices, in int8, bfloat16 and float32, and how threads share them.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "spinning_pool.h"

inline int weight_bytes(Precision precision) {
  return precision == INT8 ? sizeof(int8_t) : precision == BFLOAT16 ? sizeof(Bfloat16) : sizeof(float);
}

// What a product is packed from: weights, [outputs][inputs], in int8 with a scale for each output; biases, null if there are
// none. library.py has the same fields.
struct LinearSource {
  const void* weights;
  const float *scales, *biases;
  int32_t outputs, inputs;
  Precision precision;
};

// A product with a weight matrix, packed in blocks of 64 outputs as the kernels need it. The last block may have outputs beyond
// num_outputs; their value is the padding_bias that was given to pack().
struct Linear {
  const Kernels* kernels = nullptr;
  Precision precision = FLOAT32;
  int num_outputs = 0, num_inputs = 0, num_blocks = 0, num_groups = 0;
  AlignedBuffer<char> weights;
  AlignedBuffer<float> scale, bias;
  AlignedBuffer<int32_t> compensation;  // of the levels' shift: the shift times the sum of an output's weights

  // Inputs that are multiplied together (Kernels).
  int group_inputs() const { return precision == INT8 ? kernels->int8_group : precision == BFLOAT16 ? 2 : 1; }
  // Outputs and inputs including those that fill up the last block and the last group.
  int num_padded_outputs() const { return num_blocks * kBlockOutputs; }
  int num_padded_inputs() const { return num_groups * group_inputs(); }
  // Bytes of one output's weights before they are packed, and of a packed block.
  size_t row_bytes() const { return (size_t)num_inputs * weight_bytes(precision); }
  size_t block_bytes() const { return (size_t)kBlockOutputs * num_padded_inputs() * weight_bytes(precision); }

  Columns block(int b) const {
    size_t first = (size_t)b * kBlockOutputs;
    const char* packed = weights.data() + b * block_bytes();
    if (precision != INT8) return {packed, nullptr, bias.data() + first, nullptr};
    return {packed, scale.data() + first, bias.data() + first, compensation.data() + first};
  }

  void pack(const Kernels& k, const LinearSource& source, float padding_bias) {
    kernels = &k;
    precision = source.precision;
    num_outputs = source.outputs;
    num_inputs = source.inputs;
    num_blocks = (num_outputs + kBlockOutputs - 1) / kBlockOutputs;
    num_groups = (num_inputs + group_inputs() - 1) / group_inputs();
    bias.resize(num_padded_outputs());
    std::fill_n(bias.data(), num_padded_outputs(), padding_bias);
    if (source.biases) std::copy_n(source.biases, num_outputs, bias.data());
    else std::fill_n(bias.data(), num_outputs, 0.f);
    if (precision == INT8) set_scales(source);
    pack_rows(static_cast<const char*>(source.weights));
  }

 private:
  void set_scales(const LinearSource& source) {
    const auto* rounded = static_cast<const int8_t*>(source.weights);
    scale.resize(num_padded_outputs());
    compensation.resize(num_padded_outputs());
    std::fill_n(scale.data(), num_padded_outputs(), 0.f);
    std::fill_n(compensation.data(), num_padded_outputs(), 0);
    for (int j = 0; j < num_outputs; j++) {
      int32_t sum = 0;
      for (int i = 0; i < num_inputs; i++) sum += rounded[(size_t)j * num_inputs + i];
      scale.data()[j] = source.scales[j];
      compensation.data()[j] = sum * kernels->shift;
    }
  }
  void pack_rows(const char* rows) {
    weights.resize(num_blocks * block_bytes());
    const char* row[kBlockOutputs];
    for (int b = 0; b < num_blocks; b++) {
      int n = std::min(kBlockOutputs, num_outputs - b * kBlockOutputs);
      for (int j = 0; j < n; j++) row[j] = rows + ((size_t)b * kBlockOutputs + j) * row_bytes();
      kernels->pack(row, n, num_inputs, precision, weights.data() + b * block_bytes());
    }
  }
};

// The rows that a product takes: float32 numbers, `stride` apart.
struct InputRows {
  const float* x;
  int stride, count;
};

// Buffers that one thread needs for its products, and the pool it shares them with.
struct ProductWorkspace {
  AlignedBuffer<char> rounded;  // the rows of a product's input, unless it is a float32 product
  AlignedBuffer<RowLevels> row_levels;
  AlignedBuffer<float> outputs;
  SpinningPool* pool = nullptr;  // null: the thread computes alone

  // Rounds the input of a product.
  void round(const Linear& linear, const InputRows& rows) {
    if (linear.precision == FLOAT32) return;
    const Kernels& k = *linear.kernels;
    const bool is_int8 = linear.precision == INT8;
    const int width = linear.num_padded_inputs();
    rounded.resize((size_t)rows.count * width * (is_int8 ? k.level_bytes : k.bfloat16_bytes));
    if (!is_int8) return k.round_to_bfloat16(rows.x, rows.stride, rows.count, linear.num_inputs, width, rounded.data());
    row_levels.resize(rows.count);
    k.round_to_levels(rows.x, rows.stride, rows.count, linear.num_inputs, width, rounded.data(), row_levels.data());
  }
  // What the kernels take; round() has been called.
  ProductInput input(const Linear& linear, const InputRows& rows) const {
    return {linear.precision,  rows.x,         rows.stride, linear.num_inputs,
            linear.num_groups, rounded.data(), row_levels.data()};
  }
};

// Calls block(b) for all blocks of a product; a large product is shared with the pool's helpers, if there is a pool.
template <typename Block>
inline void each_block(const Linear& linear, int num_rows, SpinningPool* pool, const Block& block) {
  constexpr double kMinSharedWork = 1e5;  // multiply-adds; sharing smaller products takes longer than computing them
  constexpr int kMaxPieces = 8;
  bool shared = pool && (double)num_rows * linear.num_outputs * linear.num_inputs >= kMinSharedWork;
  int num_pieces = shared ? std::min(kMaxPieces, linear.num_blocks) : 1;
  auto piece = [&](int i) {
    int end = linear.num_blocks * (i + 1) / num_pieces;
    for (int b = linear.num_blocks * i / num_pieces; b < end; b++) block(b);
  };
  if (num_pieces > 1) pool->share(num_pieces, piece);
  else piece(0);
}

// out = activation(x W^T + bias) + residual. Rows of `out` and of `residual` are `stride` apart; residual may be null or
// `out`.
inline void multiply(const Linear& linear, const InputRows& rows, float* out, int stride, int activation,
                     const float* residual, ProductWorkspace& workspace) {
  workspace.round(linear, rows);
  const ProductInput input = workspace.input(linear, rows);
  each_block(linear, rows.count, workspace.pool, [&](int b) {
    int columns = std::min(kBlockOutputs, linear.num_outputs - b * kBlockOutputs), at = b * kBlockOutputs;
    linear.kernels->multiply(input, linear.block(b), 0, rows.count,
                             {out + at, stride, columns, activation, residual ? residual + at : nullptr});
  });
}

// Hands each row's logits to its state, 64 at a time, in ascending order for each row, while they are in the cache. Outputs
// beyond num_outputs are the padding_bias.
inline void multiply_and_read(const Linear& linear, const InputRows& rows, ProductWorkspace& workspace,
                              LogitState* const* states) {
  workspace.round(linear, rows);
  const ProductInput input = workspace.input(linear, rows);
  const Kernels& kernels = *linear.kernels;
  if (!workspace.pool) {
    for (int b = 0; b < linear.num_blocks; b++)
      kernels.multiply_and_read(input, linear.block(b), 0, rows.count, states, b * kBlockOutputs);
    return;
  }
  int width = linear.num_padded_outputs();
  workspace.outputs.resize((size_t)rows.count * width);
  float* out = workspace.outputs.data();
  each_block(linear, rows.count, workspace.pool, [&](int b) {
    kernels.multiply(input, linear.block(b), 0, rows.count,
                     {out + b * kBlockOutputs, width, kBlockOutputs, NONE, nullptr});
  });
  for (int r = 0; r < rows.count; r++)
    for (int at = 0; at < width; at += kBlockOutputs) kernels.read(*states[r], out + (size_t)r * width + at, at);
}

// Multiplies rows [first, first + num_rows) of the input of the last product with another block of 64 outputs that is packed
// like those of `linear`, and hands the logits to the rows' states.
inline void read_more(const Linear& linear, const Columns& block, const InputRows& rows, int first, int num_rows,
                      const ProductWorkspace& workspace, LogitState* const* states, int position) {
  linear.kernels->multiply_and_read(workspace.input(linear, rows), block, first, num_rows, states + first, position);
}
