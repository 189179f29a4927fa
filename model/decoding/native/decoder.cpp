// Encoder, decoder and search of this package, as a library with a C interface and without dependencies.
//
// Where it differs from torch, and why it is faster:
// - One call takes several steps: no operator is dispatched and nothing is allocated for each (cohort.h).
// - What takes time is computed with the vector instructions of the processor it runs on (kernels.h); weights are packed as
//   these need them, and each row of an int8 product has its own scale (products.h).
// - Logits are read while they are in the cache and never stored (search.h).
// - With a shortlist, only the logits that a sentence can need are computed (shortlist.h).
// - Rows are independent: each has its own keys and values, in as many pages as it needs. Nothing is padded; joining, leaving
//   and reordering a beam move pointers (layers.h, memory.h).
// - Threads share sentences, not products, and do not wait for one another within a step (thread_pool.h).
// The sums of a row are taken in the same order for any number of rows: an answer does not depend on the other sentences.

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>

#include "forced.h"
#include "instruction_sets.h"
#include "unpack.h"

namespace {

// What the functions of the interface return; library.py has the same numbers.
enum Result { kDone = 0, kNoMemory = 1, kOutOfRange = 2, kFailed = 3 };

// Runs a function and returns the result: no exception may leave a C function.
template <typename F>
int guarded(F run) {
  try {
    run();
    return kDone;
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (const std::out_of_range&) {
    return kOutOfRange;
  } catch (...) {
    return kFailed;
  }
}

// Packs a model's weights one after the other, in the order in which packed.py collects them.
class Packer {
 public:
  Packer(const Kernels& kernels, const LinearSource* linears, const float* const* norms,
         Model& model)
      : kernels_(kernels), linears_(linears), norms_(norms), width_(model.C), packed_(model.linears) {}

  void pack(Linear& linear, float padding_bias = 0) {
    linear.pack(kernels_, *linears_++, padding_bias);
    packed_.push_back(&linear);
  }
  void pack(Norm& norm) {
    norm.gain.assign(norms_[0], norms_[0] + width_);
    norm.bias.assign(norms_[1], norms_[1] + width_);
    norms_ += 2;
  }
  void pack(SelfAttention& layer) {
    pack(layer.query_key_value);
    pack(layer.output);
    pack(layer.norm);
  }
  void pack(Recurrence& layer) {
    pack(layer.gate_input);
    pack(layer.norm);
  }
  void pack(CrossAttention& layer) {
    pack(layer.query);
    pack(layer.key_value);
    pack(layer.output);
    pack(layer.norm);
  }
  void pack(FeedForward& layer) {
    pack(layer.wide);
    pack(layer.narrow);
    pack(layer.norm);
  }

 private:
  const Kernels& kernels_;
  const LinearSource* linears_;
  const float* const* norms_;
  int width_;
  std::vector<const Linear*>& packed_;
};

}  // namespace

// Only these are visible to others: torch has classes of the same names.
#pragma GCC visibility push(default)
extern "C" {

// The name of instruction set number `set`, the fastest first; null if there is none of that number.
const char* verso_set_name(int32_t set) {
  const Kernels* kernels = instruction_set(set).kernels;
  return kernels ? kernels->name : nullptr;
}
// Which instructions this processor lacks to run it; null if it lacks none.
const char* verso_set_lacks(int32_t set) { return instruction_set(set).lacking; }

// set: the instruction set to compute with, one that this processor can run. linears: in the order of the layers, the output
// last; attention is projected to heads that are a multiple of 16 wide, filled up with zeros. norms: gain and bias of each, in
// the order of the layers; then those after the stacks, if norms come first. Returns null if there is no memory. The tables
// must outlive the model.
void* verso_model(int32_t set, const Architecture* architecture, const EmbeddingTables* tables,
                  const LinearSource* linears, const float* const* norms) {
  std::unique_ptr<Model> m;
  int result = guarded([&] {
    const Kernels& kernels = *instruction_set(set).kernels;
    m = std::make_unique<Model>(kernels, *architecture, *tables);
    Packer packer(kernels, linears, norms, *m);
    for (EncoderLayer& layer : m->encoder) {
      packer.pack(layer.self_attention);
      packer.pack(layer.feed_forward);
    }
    for (DecoderLayer& layer : m->decoder) {
      if (architecture->recurrent) packer.pack(layer.recurrence);
      else packer.pack(layer.self_attention);
      packer.pack(layer.cross_attention);
      packer.pack(layer.feed_forward);
    }
    if (architecture->pre_norm) {
      packer.pack(m->encoder_norm);
      packer.pack(m->decoder_norm);
    }
    packer.pack(m->out, -std::numeric_limits<float>::infinity());  // outputs that fill up a block are never chosen
    m->count();
  });
  return result == kDone ? m.release() : nullptr;
}
// From now on sentences choose among their candidates only: `always` and the lists of their tokens. All tokens of a list
// ascend. output: the last of the model's products, whose weights must outlive the model.
int32_t verso_shorten(void* model, const LinearSource* output, const int32_t* offsets, const int32_t* ids,
                      const int32_t* always, int32_t num_always) {
  return guarded([&] {
    auto* m = static_cast<Model*>(model);
    m->shortlist = std::make_unique<Shortlist>(
        m->out, output->weights, std::vector<int32_t>(offsets, offsets + m->source_vocab + 1),
        std::vector<int32_t>(ids, ids + offsets[m->source_vocab]), std::vector<int32_t>(always, always + num_always));
    m->count();
  });
}
void verso_model_free(void* model) { delete static_cast<Model*>(model); }

// What a product was packed from; index: among `linears` of verso_model(). weights, scales, bias: see unpack().
int32_t verso_unpack(const void* model, int32_t index, void* weights, float* scales, float* bias) {
  return guarded([&] { unpack(*static_cast<const Model*>(model)->linears.at(index), weights, scales, bias); });
}

// never: tokens that are never generated, in ascending order.
void* verso_cohort(const void* model, int32_t width, int32_t end, int32_t renormalise, const int32_t* never,
                   int32_t num_never) {
  void* made = nullptr;
  guarded([&] {
    made = new Cohort(*static_cast<const Model*>(model),
                      Search{width, end, static_cast<const Model*>(model)->V, renormalise != 0,
                             std::vector<int32_t>(never, never + num_never),
                             static_cast<const Model*>(model)->shortlist.get()});
  });
  return made;
}
void verso_cohort_free(void* cohort) { delete static_cast<Cohort*>(cohort); }

// The functions below return a Result: kOutOfRange for a token or a length that the model does not have. After kNoMemory and
// kFailed the cohort cannot be used any more; after kOutOfRange it is unchanged.
int32_t verso_join(void* cohort, const Request* requests, int32_t n, const int32_t* tokens) {
  return guarded([&] { static_cast<Cohort*>(cohort)->join(requests, n, tokens); });
}
// outcomes, scores, candidates: what finished; it can be read until the next call. See Cohort::outcomes.
int32_t verso_run(void* cohort, double seconds, int32_t threads, const int32_t** outcomes, int32_t* num_outcomes,
                  const double** scores, const TracedCandidate** candidates) {
  return guarded([&] {
    auto* c = static_cast<Cohort*>(cohort);
    c->run(seconds, threads);
    *outcomes = c->outcomes().data();
    *num_outcomes = (int32_t)c->outcomes().size();
    *scores = c->scores().data();
    *candidates = c->candidates().data();
  });
}
int32_t verso_leave(void* cohort, const int64_t* keys, int32_t n) {
  return guarded([&] { static_cast<Cohort*>(cohort)->leave(keys, n); });
}

// Given sources and targets; lengths, tokens: see checked_pairs() in forced.h. weights: see attention_of().
int32_t verso_attention(const void* model, const int32_t* lengths, int32_t n, const int32_t* tokens, int32_t threads,
                        float* weights) {
  return guarded([&] {
    const Model& m = *static_cast<const Model*>(model);
    attention_of(m, checked_pairs(m, lengths, n, tokens), threads, weights);
  });
}
// The same for one pair. logits: see logits_of().
int32_t verso_logits(const void* model, const int32_t* lengths, const int32_t* tokens, float* logits) {
  return guarded([&] {
    const Model& m = *static_cast<const Model*>(model);
    logits_of(m, checked_pairs(m, lengths, 1, tokens).front(), logits);
  });
}

}  // extern "C"
#pragma GCC visibility pop
