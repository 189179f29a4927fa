// The kernels: what is computed with vector instructions. There is one table of them for each instruction set, compiled from
// kernels/kernels.cpp with the flags of that set. Everything else calls them through a table and is compiled once, for any
// processor of the architecture.
//
// This file is compiled with the flags of every set, so it holds no functions: the linker keeps one copy of an inline
// function, which might be one with instructions that the processor lacks.
//
// All sets give the same bits for int8 and bfloat16 models, and all but the portable one for float32 models: sums over the
// numbers of a row are taken in 16 lanes, whose sums are added in one order, and multiplications and additions are fused in the
// same places.

#pragma once

#include <cstddef>
#include <cstdint>

// Numbers that are summed in lanes of their own.
constexpr int kLanes = 16;
// Outputs of one block of packed weights. Logits are read in such blocks.
constexpr int kBlockOutputs = 64;
// Positions of one block of keys.
constexpr int kBlockPositions = kLanes;
// Queries that are multiplied with a block of keys at a time, at most.
constexpr int kMaxQueriesAtOnce = 4;
constexpr size_t kCacheLine = 64;

enum Activation { NONE = 0, RELU = 1, SILU = 2, GELU = 3 };

// What the weights of a product are, and its input is rounded to. Sums are float32, or exact in int8. library.py has the same
// numbers.
enum Precision : int32_t { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2 };

// The upper half of a float32.
struct Bfloat16 {
  uint16_t bits;
};
struct Bfloat16Pair {
  Bfloat16 first, second;
};

// Keys and values are kept as float by float32 models, and as float16 by others: the error is far smaller than that of
// rounded weights, and they are read in half the time.
struct Half {
  uint16_t bits;
};

// The weights of 64 outputs in packed form, and the numbers that are applied to their sums.
struct Columns {
  const void* weights;
  const float *scale, *bias;
  const int32_t* compensation;
};

// What the levels of a row stand for: the value of one level, and what is added to each of the row's sums of products.
struct RowLevels {
  float step;
  int32_t offset;
};

// The input of a product: float32 rows that are `stride` apart, and but in float32 the same rows rounded, in groups of inputs.
struct ProductInput {
  Precision precision;
  const float* x;
  int stride, num_inputs, num_groups;
  const void* rounded;
  const RowLevels* row_levels;  // in int8, of each row
};

// Where a product goes: rows are `stride` apart and `columns` of a block's 64 outputs are stored. residual: null, or laid out
// as `out` and added to it; may be `out`.
struct ProductOutput {
  float* out;
  int stride, columns, activation;
  const float* residual;
};

// One position of a hypothesis: the token that was fed and, one cache line further, its keys and values, [layer][2][width]. In a
// recurrent decoder it has instead the states behind it, [layer][C], until those of the next position are computed.
// Hypotheses with a common beginning share its pages.
struct Page {
  int refs;
  int32_t token;
  float* states;  // null: none
};

// The heads of an attention. width: of one head, a multiple of 16.
struct Heads {
  int num_heads, width;
  float scale;  // of scores
};

// Room for the scores of 4 queries, and pointers for as many queries as attend together.
struct AttentionScratch {
  float* scores;
  const float** queries;
  float** mixed;
};

// Where the attention weights of each query are added, multiplied by `factor`; no rows: nowhere. head: the only one that is
// added; below 0: all.
struct WeightSums {
  float* const* rows;
  float factor;
  int head;
};

struct Candidate {
  float value;    // a logit; after the choice of candidates a sum of log-probabilities
  int32_t token;  // its position among the logits; after the choice of candidates its id
  int row;
};

// What one row's logits are read into (LogitReader in search.h).
struct LogitState {
  alignas(kCacheLine) float sum[kLanes];  // of exponentials of logits less `reference`
  alignas(kCacheLine) float top[kLanes];  // for num_best = 1: the best logit of each lane,
  alignas(kCacheLine) int32_t top_starts[kLanes];  // and the position at which its vector of 16 starts
  int num_best, num_found;
  bool with_total, renormalise, begun, broken;
  float reference, threshold;
  const int32_t *never, *never_end;          // forbidden positions of all rows that are still to come, in ascending order
  const int32_t *forbidden, *forbidden_end;  // and those of this row
  Candidate* best;                           // for num_best > 1: the best so far, best first
};

// One set's kernels. An argument that the comments do not explain is explained where a layer or a product calls the kernel.
struct Kernels {
  const char* name;

  // How weights are packed. A block of 64 outputs consists of tiles of `tile_outputs`, and a tile is
  // [group][tile_outputs][inputs of a group]. A group has one input in float32, two in bfloat16, and `int8_group` in int8.
  int tile_outputs, int8_group;
  // Bytes of a rounded input in bfloat16 and in int8. An int8 level is `shift` larger than the number it stands for.
  int bfloat16_bytes, level_bytes, shift;
  // How long int8 products take, about: 1 with an instruction that multiplies and adds bytes.
  int int8_cost;

  // Rounds rows of n activations to levels, `padded` for each row.
  void (*round_to_levels)(const float* x, int stride, int num_rows, int n, int padded, void* levels,
                          RowLevels* row_levels);
  // Rounds rows of n activations to bfloat16, `padded` for each row.
  void (*round_to_bfloat16)(const float* x, int stride, int num_rows, int n, int padded, void* rounded);
  // Rows [first, first + num_rows) times one block. The output's pointers are those of row `first`.
  void (*multiply)(const ProductInput& input, const Columns& block, int first, int num_rows, const ProductOutput& output);
  // The same for 64 logits that begin at a position, which each row's state reads.
  void (*multiply_and_read)(const ProductInput& input, const Columns& block, int first, int num_rows,
                            LogitState* const* states, int position);
  // 64 logits, aligned to cache lines, that begin at a position; forbidden ones are overwritten.
  void (*read)(LogitState& state, float* values, int position);
  // Packs the weights of n outputs, at most 64, as one block. rows: the weights of each.
  void (*pack)(const char* const* rows, int n, int num_inputs, Precision precision, void* block);

  // Rows of x to rows of `out`, which may be x; C numbers each.
  void (*layer_norm)(const float* gain, const float* bias, const float* x, float* out, int num_rows, int C, float eps);
  // A token's vector times `scale`, plus a position's.
  void (*embed)(const float* token, const float* position, float scale, int C, float* x);
  // One step of a recurrent unit (SSRU in model/network/recurrence.py), whose output is added to x. projected: the forget gate
  // before the logistic function, and the projected input. before: the state before, which may be null for zeros; `state`
  // becomes the new one.
  void (*recur)(const float* projected, const float* before, int C, float* state, float* x);

  // Self-attention of a source of some length. projected: queries, keys and values, each `heads` wide, of each position.
  void (*attend_source)(const Heads& heads, const float* projected, int length, float* keys, float* context,
                        const AttentionScratch& scratch);

  // What depends on how keys and values are kept.
  struct ForNumbers {
    // n positions' keys and values, 2 * width numbers `stride` apart, to a block: keys [width][16], then values [16][width].
    void (*store_block)(const float* projected, int stride, int n, int width, void* block);
    // Attention of one row over its own n pages. projected: its query, key and value; the latter two go to the last page.
    // keys: where a layer's begin in a page, in numbers.
    void (*attend_pages)(const Heads& heads, const float* projected, Page* const* pages, int n, size_t keys,
                         float* context, float* scores);
    // Attention of rows, projected to queries, over a source of some length. blocks: its blocks of positions. keys: where a
    // layer's begin in a block, in numbers.
    void (*attend_memory)(const Heads& heads, const float* projected, int num_rows, void* const* blocks, int length,
                          size_t keys, float* context, const AttentionScratch& scratch, const WeightSums& added);
  };
  ForNumbers as_float, as_half;
};
