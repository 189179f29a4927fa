// Products with packed weights, in int8, bfloat16 and float32, and the element-wise operations that follow them.

#pragma once

#include "vectors.h"

namespace {

constexpr int kTileOutputs = kTileVectors * kVecLanes;
constexpr int kInt8Vectors = kInt8Tiles * kTileVectors, kInt8Outputs = kInt8Tiles * kTileOutputs;  // multiplied together
constexpr float kLevels = 127.f;  // activations are rounded to -127 ... 127
static_assert(kBlockOutputs % kInt8Outputs == 0 && kTileOutputs % kLanes == 0 &&
              kMaxInt8Rows <= kMaxTileRows);

// Rounds one row of n activations to levels, and fills up to `padded`. Returns the value of one level; NaN if the row holds NaN,
// so that the product is NaN, too.
inline float round_row(const float* x, int n, int padded, Level* levels) {
  const int whole = n / kLanes * kLanes;
  // Magnitudes are in the order of their bits, and NaN comes last; a maximum of numbers would lose it.
  Floats maxima = load_first(x + whole, n - whole);
  for (int i = 0; i < whole; i += kLanes) {
    Floats v = load16(x + i);
    maxima = for_parts([&](int p) { return larger_magnitude(maxima.part[p], v.part[p]); });
  }
  maxima = for_parts([&](int p) { return larger_magnitude(maxima.part[p], broadcast(0.f)); });
  alignas(kCacheLine) int32_t bits[kLanes];
  std::memcpy(bits, maxima.part, sizeof(bits));
  int32_t most = 0;
  for (int32_t one : bits) most = one > most ? one : most;
  float maximum;
  std::memcpy(&maximum, &most, sizeof(maximum));
  if (maximum < 1e-12f) maximum = 1e-12f;  // a row of zeros has a scale, too
  Vec steps = broadcast(kLevels / maximum);
  for (int i = 0; i < whole; i += kLanes) {
    Floats v = load16(x + i);
    store_levels(levels + i, for_parts([&](int p) { return v.part[p] * steps; }).part);
  }
  if (padded > whole) {
    Floats v = load_first(x + whole, n - whole);
    Level rest[kLanes];
    store_levels(rest, for_parts([&](int p) { return v.part[p] * steps; }).part);
    std::memcpy(levels + whole, rest, (padded - whole) * sizeof(Level));
  }
  return maximum / kLevels;
}

void round_to_levels(const float* x, int stride, int num_rows, int n, int padded, void* levels,
                     RowLevels* row_levels) {
  for (int r = 0; r < num_rows; r++) {
    Level* row = static_cast<Level*>(levels) + (size_t)r * padded;
    row_levels[r].step = round_row(x + (size_t)r * stride, n, padded, row);
    row_levels[r].offset = offset_of(row, padded);
  }
}

// Rounds to the nearest number of 16 bits, the even one of two, whose bits are the upper halves. As the instructions for
// bfloat16 see them, numbers that are not normal are 0.
inline Floats to_bfloat16(const Floats& v) {
  constexpr uint32_t kUpper = 0xffff0000, kExponent = 0x7f800000, kNan = 0x7fc00000;
  return for_parts([&](int p) {
    Words bits = (Words)v.part[p], magnitude = bits & 0x7fffffff, nan = (Words)(magnitude > kExponent);
    Words rounded = (bits + 0x7fff + (bits >> 16 & 1)) & kUpper;
    rounded &= ~(Words)((rounded & kExponent) == 0);
    return (Vec)((nan & kNan) | (~nan & rounded));
  });
}

void round_to_bfloat16(const float* x, int stride, int num_rows, int n, int padded, void* rounded) {
  const int whole = n / kLanes * kLanes;
  for (int r = 0; r < num_rows; r++, x += stride) {
    RoundedInput* row = static_cast<RoundedInput*>(rounded) + (size_t)r * padded;
    for (int i = 0; i < whole; i += kLanes) store_rounded(row + i, to_bfloat16(load16(x + i)).part);
    if (padded == whole) continue;
    RoundedInput rest[kLanes];
    store_rounded(rest, to_bfloat16(load_first(x + whole, n - whole)).part);
    std::memcpy(row + whole, rest, (padded - whole) * sizeof(RoundedInput));
  }
}

// Adds the residual, if there is one, and stores the first n numbers of v.
inline void store_output(float* out, const float* residual, Vec v, int n) {
  if (n >= kVecLanes) {
    if (residual) v = v + load(residual);
    store(out, v);
  } else if (n > 0) {
    alignas(kCacheLine) float padded[kVecLanes] = {};
    if (residual) {
      std::memcpy(padded, residual, n * sizeof(float));
      v = v + load(padded);
    }
    store(padded, v);
    std::memcpy(out, padded, n * sizeof(float));
  }
}

// Applies the activation to a tile, adds the residual, if there is one, and stores the first `columns` numbers of each row.
template <int NumRows, int NumVectors>
inline void store_tile(Vec (&v)[NumRows][NumVectors], float* out, int stride, int columns, int activation,
                       const float* residual) {
  if (columns < NumVectors * kVecLanes || activation > RELU) {
    // Seldom, or expensive in any case: not unrolled, so that the code of the other tiles stays short.
    alignas(kCacheLine) float values[NumRows * NumVectors * kVecLanes];
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
      for (int c = 0; c < NumVectors; c++) store(values + (r * NumVectors + c) * kVecLanes, v[r][c]);
#pragma GCC unroll 1
    for (int i = 0; i < NumRows * NumVectors; i++) {
      int at = i % NumVectors * kVecLanes;
      size_t place = (size_t)(i / NumVectors) * stride + at;
      store_output(out + place, residual ? residual + place : nullptr, activate(load(values + i * kVecLanes), activation),
                   columns - at);
    }
    return;
  }
  const Vec least = broadcast(activation == RELU ? 0.f : -__builtin_inff());  // without an activation: anything
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < NumVectors; c++) {
      size_t place = (size_t)r * stride + c * kVecLanes;
      Vec value = maximum(least, v[r][c]);  // this order keeps NaN
      store(out + place, residual ? value + load(residual + place) : value);
    }
}

// `NumRows` rows of levels times kInt8Tiles tiles of int8 outputs. The sums are in accumulators; then the shift is undone
// (compensation), the rows' offsets are added, and scale, bias, activation and residual are applied. columns: outputs to
// store.
//
// The tiles take numbers and pointers one by one: GCC 12 keeps those in registers, and members of a structure in memory.
template <int NumRows>
inline void int8_tile(const Level* x, int stride, const int8_t* w, int num_groups, const RowLevels* row_levels,
                      const float* scale, const int32_t* compensation, const float* bias, float* out, int out_stride,
                      int columns, int activation, const float* residual) {
  IntVec sums[NumRows][kInt8Vectors];
  add_int8_products<NumRows>(x, stride, w, num_groups, sums);
  Vec v[NumRows][kInt8Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kInt8Vectors; c++) {
      int at = c * kVecLanes;
      IntVec whole = kShift ? subtract(sums[r][c], load_ints(compensation + at)) : sums[r][c];
      if (kHasOffsets) whole = add(whole, (IntVec)(Words{} + (uint32_t)row_levels[r].offset));
      v[r][c] = fmadd(to_floats(whole), broadcast(row_levels[r].step) * load(scale + at), load(bias + at));
    }
  store_tile(v, out, out_stride, columns, activation, residual);
}

// Fetches the weights one page ahead. The processor prefetches only within a page, and weights of larger models come from
// memory. (In int8 this costs more than it gains.)
inline void prefetch_next_page(const void* w) {
  constexpr int kPage = 4096;
#pragma GCC unroll 4
  for (size_t i = 0; i < kTileOutputs * sizeof(float); i += kCacheLine)
    __builtin_prefetch(static_cast<const char*>(w) + kPage + i);
}

// Adds the products of rows, `stride` apart, with one tile of float32 weights.
template <int NumRows>
inline void add_float_products(const float* x, int stride, const float* w, int num_inputs,
                               Vec (&sums)[NumRows][kTileVectors]) {
  for (int i = 0; i < num_inputs; i++, w += kTileOutputs) {
    prefetch_next_page(w);
    Vec weights[kTileVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) weights[c] = load(w + c * kVecLanes);
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; r++) {
      Vec input = broadcast(x[(size_t)r * stride + i]);
#pragma GCC unroll 4
      for (int c = 0; c < kTileVectors; c++) sums[r][c] = accumulate(input, weights[c], sums[r][c]);
    }
  }
}

// The same with pairs of bfloat16 inputs and weights. The instruction for them takes both at once; other sets take a step for
// each.
template <int NumRows>
inline void add_float_products(const RoundedInput* x, int stride, const Bfloat16Pair* w, int num_pairs,
                               Vec (&sums)[NumRows][kTileVectors]) {
  for (int i = 0; i < num_pairs; i++, x += 2, w += kTileOutputs) {
    prefetch_next_page(w);
#pragma GCC unroll 2
    for (int step = 0; step < kPairSteps; step++) {
      decltype(pair_weights(w, step)) weights[kTileVectors];
#pragma GCC unroll 4
      for (int c = 0; c < kTileVectors; c++) weights[c] = pair_weights(w + c * kVecLanes, step);
#pragma GCC unroll 8
      for (int r = 0; r < NumRows; r++) {
        auto inputs = pair_inputs(x + (size_t)r * stride, step);
#pragma GCC unroll 4
        for (int c = 0; c < kTileVectors; c++) add_pair(sums[r][c], weights[c], inputs);
      }
    }
  }
}

// As int8_tile, in float32 or, with rounded inputs and pairs of weights, in bfloat16.
template <int NumRows, typename Input, typename Weight>
inline void float_tile(const Input* x, int stride, const Weight* w, int num_groups, const float* bias, float* out,
                       int out_stride, int columns, int activation, const float* residual) {
  Vec sums[NumRows][kTileVectors];
#pragma GCC unroll 8
  for (int r = 0; r < NumRows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < kTileVectors; c++) sums[r][c] = load(bias + c * kVecLanes);
  add_float_products<NumRows>(x, stride, w, num_groups, sums);
  store_tile(sums, out, out_stride, columns, activation, residual);
}

// Rows [first, first + num_rows) times one block, tile by tile; num_rows is 1 to kMaxTileRows.
template <int NumRows>
void multiply_rows(const ProductInput& input, const Columns& block, int first, const ProductOutput& output) {
  const int columns = output.columns, step = input.precision == INT8 ? kInt8Outputs : kTileOutputs;
  for (int at = 0; at < columns; at += step) {
    float* out = output.out + at;
    const float* residual = output.residual ? output.residual + at : nullptr;
    if (input.precision == INT8) {
      int stride = input.num_groups * kGroup;
      if constexpr (NumRows <= kMaxInt8Rows)  // tile_rows() gives no more
        int8_tile<NumRows>(static_cast<const Level*>(input.rounded) + (size_t)first * stride, stride,
                           static_cast<const int8_t*>(block.weights) + (size_t)at * stride, input.num_groups,
                           input.row_levels + first, block.scale + at, block.compensation + at, block.bias + at, out,
                           output.stride, columns - at, output.activation, residual);
    } else if (input.precision == BFLOAT16) {
      int stride = input.num_groups * 2;
      float_tile<NumRows>(static_cast<const RoundedInput*>(input.rounded) + (size_t)first * stride, stride,
                          static_cast<const Bfloat16Pair*>(block.weights) + (size_t)at * input.num_groups,
                          input.num_groups, block.bias + at, out, output.stride, columns - at, output.activation,
                          residual);
    } else {
      float_tile<NumRows>(input.x + (size_t)first * input.stride, input.stride,
                          static_cast<const float*>(block.weights) + (size_t)at * input.num_inputs, input.num_inputs,
                          block.bias + at, out, output.stride, columns - at, output.activation, residual);
    }
  }
}

inline void multiply_rows(const ProductInput& input, const Columns& block, int first, int num_rows,
                          const ProductOutput& output) {
  static_assert(kMaxTileRows <= 6);
  switch (num_rows) {
    case 1: return multiply_rows<1>(input, block, first, output);
    case 2: return multiply_rows<2>(input, block, first, output);
    case 3: return multiply_rows<kMaxTileRows < 3 ? 1 : 3>(input, block, first, output);
    case 4: return multiply_rows<kMaxTileRows < 4 ? 1 : 4>(input, block, first, output);
    case 5: return multiply_rows<kMaxTileRows < 5 ? 1 : 5>(input, block, first, output);
    case 6: return multiply_rows<kMaxTileRows < 6 ? 1 : 6>(input, block, first, output);
  }
}

// Rows of the next tile if `left` rows are left: as few tiles as possible, of about equal size.
inline int tile_rows(const ProductInput& input, int left) {
  const int most = input.precision == INT8 ? kMaxInt8Rows : input.precision == BFLOAT16 ? kMaxPairRows : kMaxTileRows;
  const int tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

void multiply_block(const ProductInput& input, const Columns& block, int first, int num_rows,
                    const ProductOutput& output) {
  ProductOutput rest = output;
  for (int r = 0, n; r < num_rows; r += n) {
    n = tile_rows(input, num_rows - r);
    size_t at = (size_t)r * output.stride;
    rest.out = output.out + at;
    rest.residual = output.residual ? output.residual + at : nullptr;
    multiply_rows(input, block, first + r, n, rest);
  }
}

// See Kernels::pack. Words are groups of weights; the words of 16 outputs are transposed together.
void pack_block(const char* const* rows, int n, int num_inputs, Precision precision, void* block) {
  const size_t word = precision == INT8 ? kGroup : sizeof(float);
  const size_t weight = precision == INT8 ? sizeof(int8_t) : precision == BFLOAT16 ? sizeof(Bfloat16) : sizeof(float);
  const size_t row_bytes = num_inputs * weight;
  const int num_words = (int)((row_bytes + word - 1) / word);
  auto* out = static_cast<char*>(block);
  auto place = [&](int column, int i) {
    return out + (((size_t)(column / kTileOutputs) * num_words + i) * kTileOutputs + column % kTileOutputs) * word;
  };
  if (word != sizeof(uint32_t)) {
    std::memset(out, 0, (size_t)num_words * kBlockOutputs * word);
    for (int j = 0; j < n; j++)
      for (size_t i = 0; i < row_bytes; i += word)
        std::memcpy(place(j, (int)(i / word)), rows[j] + i, row_bytes - i < word ? row_bytes - i : word);
    return;
  }
  for (int j = 0; j < kBlockOutputs; j += kLanes)
    for (int i = 0; i < num_words; i += kLanes) {
      alignas(kCacheLine) uint32_t words[kLanes][kLanes];
      size_t begin = i * word, bytes = row_bytes - begin < sizeof(words[0]) ? row_bytes - begin : sizeof(words[0]);
      for (int k = 0; k < kLanes; k++) {
        if (j + k >= n || bytes < sizeof(words[0])) std::memset(words[k], 0, sizeof(words[0]));
        if (j + k >= n) continue;
        if (bytes == sizeof(words[0])) std::memcpy(words[k], rows[j + k] + begin, sizeof(words[0]));
        else std::memcpy(words[k], rows[j + k] + begin, bytes);
      }
      transpose(words);
      for (int k = 0; k < kLanes && i + k < num_words; k++) std::memcpy(place(j, i + k), words[k], sizeof(words[0]));
    }
}

}  // namespace
