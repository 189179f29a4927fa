// Products with weight matrices, in int8 and in float32, and the element-wise operations that follow them.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "memory.h"
#include "simd.h"
#include "spinning_pool.h"

// Outputs of one block of packed weights; a tile computes one block for some rows.
constexpr int kBlockOutputs = 64;
constexpr int kBlockVectors = kBlockOutputs / kLanes;
// Rows of a tile: 6 rows of 4 vectors are 24 accumulators, and the processor has 32 registers.
constexpr int kMaxTileRows = 6;

// int8: VNNI multiplies groups of four unsigned activations with four signed weights. Activations are rounded to
// -127 ... 127 and shifted by 128 to become unsigned.
constexpr int kGroup = 4;
constexpr int kGroupBytes = kBlockOutputs * kGroup;  // of packed weights: one group of inputs for a whole block
constexpr float kLevels = 127.f;
constexpr int kShift = 128;

enum Activation { NONE = 0, RELU = 1, SILU = 2 };

// The weights of 64 outputs in packed form, and the numbers that are applied to their sums.
struct Columns {
  const void* weights;
  const float *scale, *bias;
  const int32_t* compensation;
};

// A product with a weight matrix, packed in blocks of 64 outputs: in float32 as [block][input][64], in int8 as
// [block][group][64][4], which is what one VNNI instruction reads. The last block may have outputs beyond num_outputs; their
// value is the padding_bias that was given to pack().
struct Linear {
  int num_outputs = 0, num_inputs = 0, num_blocks = 0, num_groups = 0;
  bool is_int8 = false;
  AlignedBuffer<int8_t> int8_weights;
  AlignedBuffer<float> float_weights, scale, bias;
  AlignedBuffer<int32_t> compensation;  // of the shift: 128 times the sum of an output's weights

  // Outputs including those that fill up the last block.
  int num_padded_outputs() const { return num_blocks * kBlockOutputs; }
  int num_padded_inputs() const { return num_groups * kGroup; }

  Columns block(int b) const {
    size_t first = (size_t)b * kBlockOutputs;
    if (!is_int8) return {float_weights.data() + first * num_inputs, nullptr, bias.data() + first, nullptr};
    return {int8_weights.data() + (size_t)b * num_groups * kGroupBytes, scale.data() + first, bias.data() + first,
            compensation.data() + first};
  }

  // weights: [outputs][inputs]; biases: null if there are none.
  void pack(const float* weights, const float* biases, int outputs, int inputs, float padding_bias) {
    set_shape(outputs, inputs, biases, padding_bias);
    size_t size = (size_t)num_padded_outputs() * inputs;
    float_weights.resize(size);
    std::fill_n(float_weights.data(), size, 0.f);
    for (int j = 0; j < outputs; j++)
      for (int i = 0; i < inputs; i++) {
        size_t block = j / kBlockOutputs, column = j % kBlockOutputs;
        float_weights.data()[(block * inputs + i) * kBlockOutputs + column] = weights[(size_t)j * inputs + i];
      }
  }
  void pack(const int8_t* weights, const float* scales, const float* biases, int outputs, int inputs,
            float padding_bias) {
    set_shape(outputs, inputs, biases, padding_bias);
    is_int8 = true;
    scale.resize(num_padded_outputs());
    compensation.resize(num_padded_outputs());
    std::fill_n(scale.data(), num_padded_outputs(), 0.f);
    std::fill_n(compensation.data(), num_padded_outputs(), 0);
    size_t size = (size_t)num_blocks * num_groups * kGroupBytes;
    int8_weights.resize(size);
    std::fill_n(int8_weights.data(), size, int8_t{0});
    for (int j = 0; j < outputs; j++) {
      size_t block = j / kBlockOutputs, column = j % kBlockOutputs;
      int32_t sum = 0;
      for (int i = 0; i < inputs; i++) {
        int8_t weight = weights[(size_t)j * inputs + i];
        sum += weight;
        size_t group = block * num_groups + i / kGroup;
        int8_weights.data()[(group * kBlockOutputs + column) * kGroup + i % kGroup] = weight;
      }
      scale.data()[j] = scales[j];
      compensation.data()[j] = sum * kShift;
    }
  }

 private:
  void set_shape(int outputs, int inputs, const float* biases, float padding_bias) {
    num_outputs = outputs;
    num_inputs = inputs;
    num_blocks = (outputs + kBlockOutputs - 1) / kBlockOutputs;
    num_groups = (inputs + kGroup - 1) / kGroup;
    bias.resize(num_padded_outputs());
    std::fill_n(bias.data(), num_padded_outputs(), padding_bias);
    if (biases) std::copy_n(biases, outputs, bias.data());
    else std::fill_n(bias.data(), outputs, 0.f);
  }
};

// Rounds one row of n activations to bytes, and fills up to num_padded. Returns the value of one step between levels; NaN if the
// row holds NaN, so that the product is NaN, too.
inline float quantise(const float* x, int n, uint8_t* bytes, int num_padded) {
  const int whole = n / kLanes * kLanes;
  const __mmask16 rest = first_lanes(n - whole);
  // Magnitudes are in the order of their bits, and NaN comes last; _mm512_max_ps would lose it.
  auto magnitudes = [](__m512 v) { return _mm512_castps_si512(_mm512_abs_ps(v)); };
  __m512i maxima = magnitudes(_mm512_maskz_loadu_ps(rest, x + whole));
  for (int i = 0; i < whole; i += kLanes) maxima = _mm512_max_epi32(maxima, magnitudes(_mm512_loadu_ps(x + i)));
  int32_t bits = _mm512_reduce_max_epi32(maxima);
  float maximum;
  std::memcpy(&maximum, &bits, sizeof(maximum));
  maximum = std::max(maximum, 1e-12f);  // a row of zeros has a scale, too; the order of the operands keeps NaN
  __m512 steps = _mm512_set1_ps(kLevels / maximum);
  // Flipping the highest bit of a signed byte adds 128.
  auto rounded = [&](__m512 v) {
    __m128i levels = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(v, steps)));
    return _mm_xor_si128(levels, _mm_set1_epi8((char)kShift));
  };
  for (int i = 0; i < whole; i += kLanes) _mm_storeu_si128((__m128i*)(bytes + i), rounded(_mm512_loadu_ps(x + i)));
  _mm_mask_storeu_epi8(bytes + whole, rest, rounded(_mm512_maskz_loadu_ps(rest, x + whole)));
  for (int i = n; i < num_padded; i++) bytes[i] = kShift;
  return maximum / kLevels;
}

// e to the power of x, correct to the last digit but one (polynomial of the Cephes library, after subtracting the nearest
// multiple of ln 2, which is given in two parts).
inline __m512 exp512(__m512 x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kSmallest = -87.f, kLargest = 88.f;  // beyond these the result is no normal float32
  constexpr int kNearest = 8;                          // round to the nearest integer, and report no inexact result
  x = _mm512_max_ps(_mm512_set1_ps(kSmallest), _mm512_min_ps(_mm512_set1_ps(kLargest), x));  // this order keeps NaN
  __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(kLog2E));
  __m512 r = _mm512_roundscale_ps(t, kNearest);
  __m512 f = _mm512_fnmadd_ps(r, _mm512_set1_ps(kLn2High), x);
  f = _mm512_fnmadd_ps(r, _mm512_set1_ps(kLn2Low), f);
  __m512 p = _mm512_set1_ps(1.9875691500E-4f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.3981999507E-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(8.3334519073E-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(4.1665795894E-2f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.6666665459E-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.0000001201E-1f));
  p = _mm512_fmadd_ps(_mm512_mul_ps(f, f), p, _mm512_add_ps(f, _mm512_set1_ps(1.f)));
  return _mm512_scalef_ps(p, r);
}

inline __m512 activate(__m512 v, int activation) {
  if (activation == RELU) return _mm512_max_ps(_mm512_setzero_ps(), v);  // this order keeps NaN
  if (activation == SILU)
    return _mm512_div_ps(v, _mm512_add_ps(_mm512_set1_ps(1.f), exp512(_mm512_sub_ps(_mm512_setzero_ps(), v))));
  return v;
}

// Four activations as one 32-bit number, which VNNI multiplies with each of 16 outputs' weights.
inline __m512i broadcast_group(const uint8_t* activations) {
  int32_t group;
  std::memcpy(&group, activations, sizeof(group));
  return _mm512_set1_epi32(group);
}

// `NumRows` rows of rounded activations times one block of int8 outputs, in 4 * NumRows accumulators. Then the shift is undone
// (compensation), and scale, bias, activation and residual are applied. steps: value of one step of each row's activations;
// columns: outputs to store; residual: null, or laid out as `out`.
//
// The tiles take numbers and pointers one by one: GCC 12 keeps those in registers, and members of a structure in memory.
template <int NumRows>
inline void int8_tile(const uint8_t* x, int stride, const int8_t* w, int num_groups, const float* steps,
                      const float* scale, const int32_t* compensation, const float* bias, float* out, int out_stride,
                      int columns, int activation, const float* residual) {
  __m512i sums[NumRows][kBlockVectors];
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kBlockVectors; c++) sums[r][c] = _mm512_setzero_si512();
  for (int i = 0; i < num_groups; i++, w += kGroupBytes) {
    __m512i w0 = _mm512_load_si512(w), w1 = _mm512_load_si512(w + 64), w2 = _mm512_load_si512(w + 128),
            w3 = _mm512_load_si512(w + 192);
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      __m512i group = broadcast_group(x + (size_t)r * stride + i * kGroup);
      // With the intrinsic GCC 12 keeps the accumulators in memory.
      asm("vpdpbusd %1,%2,%0" : "+v"(sums[r][0]) : "v"(w0), "v"(group));
      asm("vpdpbusd %1,%2,%0" : "+v"(sums[r][1]) : "v"(w1), "v"(group));
      asm("vpdpbusd %1,%2,%0" : "+v"(sums[r][2]) : "v"(w2), "v"(group));
      asm("vpdpbusd %1,%2,%0" : "+v"(sums[r][3]) : "v"(w3), "v"(group));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kBlockVectors; c++) {
      __mmask16 mask = first_lanes(columns - c * kLanes);
      __m512 v = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r][c], _mm512_load_si512(compensation + c * kLanes)));
      v = _mm512_fmadd_ps(v, _mm512_mul_ps(_mm512_set1_ps(steps[r]), _mm512_load_ps(scale + c * kLanes)),
                          _mm512_load_ps(bias + c * kLanes));
      v = activate(v, activation);
      size_t at = (size_t)r * out_stride + c * kLanes;
      if (residual) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, residual + at));
      _mm512_mask_storeu_ps(out + at, mask, v);
    }
}

// Fetches the 256 bytes one page ahead. The processor prefetches only within a page, and float32 weights of larger models come
// from memory. (In int8 this costs more than it gains.)
inline void prefetch_next_page(const float* w) {
  constexpr int kPage = 4096;
#pragma GCC unroll 4
  for (int i = 0; i < kBlockVectors; i++)
    _mm_prefetch(reinterpret_cast<const char*>(w) + kPage + i * kCacheLine, _MM_HINT_T0);
}

// As int8_tile, in float32. Rows of x are `stride` apart.
template <int NumRows>
inline void float_tile(const float* x, int stride, const float* w, int num_inputs, const float* bias, float* out,
                       int out_stride, int columns, int activation, const float* residual) {
  __m512 sums[NumRows][kBlockVectors];
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kBlockVectors; c++) sums[r][c] = _mm512_load_ps(bias + c * kLanes);
  for (int i = 0; i < num_inputs; i++, w += kBlockOutputs) {
    prefetch_next_page(w);
    __m512 w0 = _mm512_load_ps(w), w1 = _mm512_load_ps(w + 16), w2 = _mm512_load_ps(w + 32),
           w3 = _mm512_load_ps(w + 48);
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      __m512 input = _mm512_set1_ps(x[(size_t)r * stride + i]);
      sums[r][0] = _mm512_fmadd_ps(input, w0, sums[r][0]);
      sums[r][1] = _mm512_fmadd_ps(input, w1, sums[r][1]);
      sums[r][2] = _mm512_fmadd_ps(input, w2, sums[r][2]);
      sums[r][3] = _mm512_fmadd_ps(input, w3, sums[r][3]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kBlockVectors; c++) {
      __mmask16 mask = first_lanes(columns - c * kLanes);
      __m512 v = activate(sums[r][c], activation);
      size_t at = (size_t)r * out_stride + c * kLanes;
      if (residual) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, residual + at));
      _mm512_mask_storeu_ps(out + at, mask, v);
    }
}

// Where a tile goes: rows are `stride` apart and `columns` of its 64 outputs are stored. residual: null, or laid out as `out`
// and added to it; may be `out`.
struct TileOutput {
  float* out;
  int stride, columns, activation;
  const float* residual;
};

// The input of a product: float32 rows that are `stride` apart.
struct InputRows {
  const float* x;
  int stride, count;
};

// The input of an int8 product, rounded.
struct RoundedRows {
  AlignedBuffer<uint8_t> bytes;
  AlignedBuffer<float> steps;  // value of one step, for each row

  void round(const Linear& linear, const InputRows& rows) {
    int width = linear.num_padded_inputs();
    bytes.resize((size_t)rows.count * width);
    steps.resize(rows.count);
    for (int r = 0; r < rows.count; r++)
      steps.data()[r] = quantise(rows.x + (size_t)r * rows.stride, linear.num_inputs,
                                 bytes.data() + (size_t)r * width, width);
  }
};

// Rows [first, first + num_rows) times one block of 64 outputs; num_rows is 1 to 6. The block is one of `linear` or packed
// like it.
inline void tile(const Linear& linear, const Columns& block, const InputRows& rows, const RoundedRows& rounded, int first,
                 int num_rows, const TileOutput& output) {
  const auto [out, out_stride, columns, activation, residual] = output;
  if (linear.is_int8) {
    int stride = linear.num_padded_inputs();
    const uint8_t* x = rounded.bytes.data() + (size_t)first * stride;
    const int8_t* w = static_cast<const int8_t*>(block.weights);
    const float* steps = rounded.steps.data() + first;
#define INT8_TILE(n)                                                                                                \
  case n:                                                                                                           \
    int8_tile<n>(x, stride, w, linear.num_groups, steps, block.scale, block.compensation, block.bias, out,          \
                 out_stride, columns, activation, residual);                                                        \
    break;
    switch (num_rows) { INT8_TILE(1) INT8_TILE(2) INT8_TILE(3) INT8_TILE(4) INT8_TILE(5) INT8_TILE(6) }
#undef INT8_TILE
  } else {
    const float* x = rows.x + (size_t)first * rows.stride;
    const float* w = static_cast<const float*>(block.weights);
#define FLOAT_TILE(n)                                                                                               \
  case n:                                                                                                           \
    float_tile<n>(x, rows.stride, w, linear.num_inputs, block.bias, out, out_stride, columns, activation, residual); \
    break;
    switch (num_rows) { FLOAT_TILE(1) FLOAT_TILE(2) FLOAT_TILE(3) FLOAT_TILE(4) FLOAT_TILE(5) FLOAT_TILE(6) }
#undef FLOAT_TILE
  }
}

// Rows of the next tile if `left` rows are left: as few tiles as possible, of about equal size.
inline int tile_rows(int left) {
  int tiles = (left + kMaxTileRows - 1) / kMaxTileRows;
  return (left + tiles - 1) / tiles;
}

// Buffers that one thread needs for its products, and the pool it shares them with.
struct ProductWorkspace {
  RoundedRows rounded;
  AlignedBuffer<float> outputs;
  SpinningPool* pool = nullptr;  // null: the thread computes alone
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
  each_block(linear, rows.count, workspace.pool, [&](int b) {
    int columns = std::min(kBlockOutputs, linear.num_outputs - b * kBlockOutputs);
    for (int r = 0, n; r < rows.count; r += n) {
      n = tile_rows(rows.count - r);
      size_t at = (size_t)r * stride + b * kBlockOutputs;
      tile(linear, linear.block(b), rows, workspace.rounded, r, n,
           {out + at, stride, columns, activation, residual ? residual + at : nullptr});
    }
  });
}

// Calls read(row, values, first) with 64 outputs of a row at a time, in ascending order for each row, while they are in the
// cache. Outputs beyond num_outputs are the padding_bias.
template <typename Read>
inline void multiply_and_read(const Linear& linear, const InputRows& rows, ProductWorkspace& workspace, Read read) {
  if (linear.is_int8) workspace.rounded.round(linear, rows);
  if (workspace.pool) {
    int width = linear.num_padded_outputs();
    workspace.outputs.resize((size_t)rows.count * width);
    float* out = workspace.outputs.data();
    each_block(linear, rows.count, workspace.pool, [&](int b) {
      for (int r = 0, n; r < rows.count; r += n) {
        n = tile_rows(rows.count - r);
        tile(linear, linear.block(b), rows, workspace.rounded, r, n,
             {out + (size_t)r * width + b * kBlockOutputs, width, kBlockOutputs, NONE, nullptr});
      }
    });
    for (int r = 0; r < rows.count; r++)
      for (int b = 0; b < linear.num_blocks; b++)
        read(r, out + (size_t)r * width + b * kBlockOutputs, b * kBlockOutputs);
    return;
  }
  alignas(kCacheLine) float values[kMaxTileRows * kBlockOutputs];
  for (int b = 0; b < linear.num_blocks; b++)
    for (int r = 0, n; r < rows.count; r += n) {
      n = tile_rows(rows.count - r);
      tile(linear, linear.block(b), rows, workspace.rounded, r, n,
           {values, kBlockOutputs, kBlockOutputs, NONE, nullptr});
      for (int i = 0; i < n; i++) read(r + i, values + i * kBlockOutputs, b * kBlockOutputs);
    }
}

// Multiplies rows [first, first + num_rows) of the input of the last product with another block of 64 outputs that is packed
// like those of `linear`, and calls read(row, values).
template <typename Read>
inline void read_more(const Linear& linear, const Columns& block, const InputRows& rows, int first, int num_rows,
                      const ProductWorkspace& workspace, Read read) {
  alignas(kCacheLine) float values[kMaxTileRows * kBlockOutputs];
  for (int r = first, n; r < first + num_rows; r += n) {
    n = tile_rows(first + num_rows - r);
    tile(linear, block, rows, workspace.rounded, r, n, {values, kBlockOutputs, kBlockOutputs, NONE, nullptr});
    for (int i = 0; i < n; i++) read(r + i, values + i * kBlockOutputs);
  }
}
