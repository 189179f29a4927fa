// Encoder, decoder and search of this package for x86 processors with AVX-512, as a library without dependencies.
//
// What it does differently from torch, and why it is faster:
// - Several steps are one call: no operator is dispatched, nothing is allocated for each (cohort.h).
// - int8 products use VNNI with weights packed in blocks of 64 outputs; a row's scale comes from the row itself (products.h).
// - Logits are read while they are warm and never stored (search.h).
// - Where a shortlist is given, only the logits a sentence can need are computed (shortlist.h).
// - Rows do not know of each other: every row has its own keys and values, page by page, and as many as it needs.
//   Nothing is padded; joining, leaving and reordering a beam move pointers (layers.h, memory.h).
// - Threads share sentences, not products, so that they never wait for each other within a step (pool.h).
// A row's sums are taken in the same order however many rows there are: answers do not depend on the company.

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>

#include "cohort.h"

namespace {

template <typename F>
int guarded(F run) {
  try {
    run();
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  } catch (const std::out_of_range&) {
    return 2;
  } catch (...) {
    return 3;
  }
}

}  // namespace

// Only these are visible to others: torch has classes of the same names.
#pragma GCC visibility push(default)
extern "C" {

// What a product is made of: float32 weights, or int8 weights with a scale for each output.
struct LinearSource {
  const float* weight;
  const int8_t* rounded;
  const float* scales;
  const float* bias;
  int32_t outputs, inputs;
};

// numbers: C, V, activation (1 relu, 2 silu), encoder heads, width, layers, decoder heads, width, layers, pre-norm,
// source vocabulary, rows of the position tables.
// tables: embedding and positions of source and target, which must outlive the model.
// norms: gain and bias of each, in the order of the layers; then those after the stacks, where they are pre-norm.
void* verso_model(const int32_t* numbers, const float* factors, const float* const* tables, const LinearSource* linears,
                  const float* const* norms) {
  auto m = std::make_unique<Model>();
  const int32_t* n = numbers;
  m->C = n[0];
  m->V = n[1];
  m->act = n[2];
  m->EH = n[3];
  m->EF = n[4];
  m->E = n[5];
  m->H = n[6];
  m->F = n[7];
  m->L = n[8];
  m->pre = n[9];
  m->source_vocab = n[10];
  m->positions = n[11];
  m->source_scale = factors[0];
  m->target_scale = factors[1];
  m->eps = factors[2];
  m->src_emb = tables[0];
  m->src_pos = tables[1];
  m->tgt_emb = tables[2];
  m->tgt_pos = tables[3];
  auto linear = [&](Linear& l, float beyond = 0) {
    const LinearSource& s = *linears++;
    if (s.rounded) l.pack(s.rounded, s.scales, s.bias, s.outputs, s.inputs, beyond);
    else l.pack(s.weight, s.bias, s.outputs, s.inputs, beyond);
  };
  auto norm = [&](Norm& x) {
    x.g.assign(norms[0], norms[0] + m->C);
    x.b.assign(norms[1], norms[1] + m->C);
    norms += 2;
  };
  int code = guarded([&] {
    m->encoder.resize(m->E);
    m->decoder.resize(m->L);
    for (auto& l : m->encoder) {
      linear(l.qkv);
      linear(l.o);
      linear(l.wide);
      linear(l.narrow);
      norm(l.n1);
      norm(l.n2);
    }
    for (auto& l : m->decoder) {
      linear(l.qkv);
      linear(l.o);
      linear(l.q);
      linear(l.kv);
      linear(l.co);
      linear(l.wide);
      linear(l.narrow);
      norm(l.n1);
      norm(l.n2);
      norm(l.n3);
    }
    if (m->pre) {
      norm(m->en);
      norm(m->dn);
    }
    linear(m->out, -std::numeric_limits<float>::infinity());
    m->count();
  });
  return code ? nullptr : m.release();
}
// From now on sentences choose among their candidates only: `always` and the lists of their tokens. All tokens of a list
// ascend. output: the last of the model's products, whose weights must outlive it.
int32_t verso_shorten(void* model, const LinearSource* output, const int32_t* offsets, const int32_t* ids,
                      const int32_t* always, int32_t num_always) {
  return guarded([&] {
    auto* m = static_cast<Model*>(model);
    const void* rows = output->rounded ? (const void*)output->rounded : output->weight;
    m->shortlist = std::make_unique<Shortlist>(
        m->out, rows, std::vector<int32_t>(offsets, offsets + m->source_vocab + 1),
        std::vector<int32_t>(ids, ids + offsets[m->source_vocab]), std::vector<int32_t>(always, always + num_always));
    m->count();
  });
}
void verso_model_free(void* model) { delete static_cast<Model*>(model); }

// never: tokens that are never generated, in ascending order.
void* verso_cohort(const void* model, int32_t width, int32_t end, int32_t renormalise, const int32_t* never,
                   int32_t num_never) {
  void* made = nullptr;
  guarded([&] {
    made = new Cohort(*static_cast<const Model*>(model),
                      Search{width, end, renormalise != 0, std::vector<int32_t>(never, never + num_never),
                             static_cast<const Model*>(model)->shortlist.get()});
  });
  return made;
}
void verso_cohort_free(void* cohort) { delete static_cast<Cohort*>(cohort); }

// Each returns 0; 1 where there was no memory; 2 for a token or length the model does not have; 3 for anything else.
// After 1 or 3 the cohort is of no use; after 2 it is as it was.
int32_t verso_join(void* cohort, const Request* requests, int32_t n, const int32_t* tokens) {
  return guarded([&] { static_cast<Cohort*>(cohort)->join(requests, n, tokens); });
}
// outcomes, scores: where what finished can be read until the next call; see Cohort::outcomes.
int32_t verso_run(void* cohort, double seconds, int32_t threads, const int32_t** outcomes, int32_t* num_outcomes,
                  const double** scores) {
  return guarded([&] {
    auto* c = static_cast<Cohort*>(cohort);
    c->run(seconds, threads);
    *outcomes = c->outcomes().data();
    *num_outcomes = (int32_t)c->outcomes().size();
    *scores = c->scores().data();
  });
}
int32_t verso_leave(void* cohort, const int64_t* keys, int32_t n) {
  return guarded([&] { static_cast<Cohort*>(cohort)->leave(keys, n); });
}

// Logits after each of n target tokens, [n][V].
int32_t verso_logits(const void* model, const int32_t* source, int32_t num_source, const int32_t* target, int32_t n,
                     float* logits) {
  return guarded([&] { logits_of(*static_cast<const Model*>(model), source, num_source, target, n, logits); });
}

}  // extern "C"
#pragma GCC visibility pop
