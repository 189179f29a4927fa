// Products with weight matrices, in int8 and in float32, and how threads share them.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "spinning_pool.h"

// A product with a weight matrix, packed in blocks of 64 outputs as the kernels need it. The last block may have outputs beyond
// num_outputs; their value is the padding_bias that was given to pack().
struct Linear {
  const Kernels* kernels = nullptr;
  int num_outputs = 0, num_inputs = 0, num_blocks = 0, num_groups = 0;
  bool is_int8 = false;
  AlignedBuffer<char> weights;
  AlignedBuffer<float> scale, bias;
  AlignedBuffer<int32_t> compensation;  // of the levels' shift: the shift times the sum of an output's weights

  // Outputs including those that fill up the last block.
  int num_padded_outputs() const { return num_blocks * kBlockOutputs; }
  int num_padded_inputs() const { return num_groups * kernels->group_inputs; }
  // Bytes of one output's weights before they are packed, and of a packed block.
  size_t row_bytes() const { return is_int8 ? num_inputs : num_inputs * sizeof(float); }
  size_t block_bytes() const {
    return kBlockOutputs * (is_int8 ? (size_t)num_padded_inputs() : num_inputs * sizeof(float));
  }

  Columns block(int b) const {
    size_t first = (size_t)b * kBlockOutputs;
    const char* packed = weights.data() + b * block_bytes();
    if (!is_int8) return {packed, nullptr, bias.data() + first, nullptr};
    return {packed, scale.data() + first, bias.data() + first, compensation.data() + first};
  }

  // float_weights: [outputs][inputs]; biases: null if there are none.
  void pack(const Kernels& k, const float* float_weights, const float* biases, int outputs, int inputs,
            float padding_bias) {
    is_int8 = false;
    set_shape(k, outputs, inputs, biases, padding_bias);
    pack_rows(reinterpret_cast<const char*>(float_weights));
  }
  void pack(const Kernels& k, const int8_t* int8_weights, const float* scales, const float* biases, int outputs, int inputs,
            float padding_bias) {
    is_int8 = true;
    set_shape(k, outputs, inputs, biases, padding_bias);
    scale.resize(num_padded_outputs());
    compensation.resize(num_padded_outputs());
    std::fill_n(scale.data(), num_padded_outputs(), 0.f);
    std::fill_n(compensation.data(), num_padded_outputs(), 0);
    for (int j = 0; j < outputs; j++) {
      int32_t sum = 0;
      for (int i = 0; i < inputs; i++) sum += int8_weights[(size_t)j * inputs + i];
      scale.data()[j] = scales[j];
      compensation.data()[j] = sum * k.shift;
    }
    pack_rows(reinterpret_cast<const char*>(int8_weights));
  }

 private:
  void set_shape(const Kernels& k, int outputs, int inputs, const float* biases, float padding_bias) {
    kernels = &k;
    num_outputs = outputs;
    num_inputs = inputs;
    num_blocks = (outputs + kBlockOutputs - 1) / kBlockOutputs;
    num_groups = (inputs + k.group_inputs - 1) / k.group_inputs;
    bias.resize(num_padded_outputs());
    std::fill_n(bias.data(), num_padded_outputs(), padding_bias);
    if (biases) std::copy_n(biases, outputs, bias.data());
    else std::fill_n(bias.data(), outputs, 0.f);
  }
  void pack_rows(const char* rows) {
    weights.resize(num_blocks * block_bytes());
    const char* row[kBlockOutputs];
    for (int b = 0; b < num_blocks; b++) {
      int n = std::min(kBlockOutputs, num_outputs - b * kBlockOutputs);
      for (int j = 0; j < n; j++) row[j] = rows + ((size_t)b * kBlockOutputs + j) * row_bytes();
      kernels->pack(row, n, num_inputs, is_int8, weights.data() + b * block_bytes());
    }
  }
};

// The rows that a product takes: float32 numbers, `stride` apart.
struct InputRows {
  const float* x;
  int stride, count;
};

// The same rows for an int8 product, rounded.
struct RoundedRows {
  AlignedBuffer<char> levels;
  AlignedBuffer<float> steps;  // value of one level, for each row

  void round(const Linear& linear, const InputRows& rows) {
    int width = linear.num_padded_inputs();
    levels.resize((size_t)rows.count * width * linear.kernels->level_bytes);
    steps.resize(rows.count);
    linear.kernels->round(rows.x, rows.stride, rows.count, linear.num_inputs, width, levels.data(), steps.data());
  }
};

// Buffers that one thread needs for its products, and the pool it shares them with.
struct ProductWorkspace {
  RoundedRows rounded;
  AlignedBuffer<float> outputs;
  SpinningPool* pool = nullptr;  // null: the thread computes alone

  // What the kernels take; in int8 the rows have been rounded.
  ProductInput input(const Linear& linear, const InputRows& rows) const {
    if (!linear.is_int8) return {rows.x, rows.stride, linear.num_inputs, nullptr, nullptr, 0};
    return {rows.x, rows.stride, linear.num_inputs, rounded.levels.data(), rounded.steps.data(), linear.num_groups};
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
  if (linear.is_int8) workspace.rounded.round(linear, rows);
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
  if (linear.is_int8) workspace.rounded.round(linear, rows);
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
