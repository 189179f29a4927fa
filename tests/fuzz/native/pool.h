// The sharing of products alone, without a model.

#pragma once

#include <atomic>

#include "bytes.h"
#include "model/decoding/native/spinning_pool.h"
#include "model/decoding/native/thread_pool.h"

// Shares rounds of two numbers of pieces in turn: every piece of each runs once, before the round is over.
inline void fuzz_pool(Bytes& in) {
  constexpr int kMost = 8;
  int helpers = in.between(1, 2);
  SpinningPool pool;
  thread_pool().run(1 + helpers, [&](int part) {
    if (part) return pool.serve();
    while (!in.empty()) {
      int rounds = in.one_of({1, 20, 400}), numbers[] = {in.between(1, kMost), in.between(1, kMost)};
      for (int round = 0; round < rounds; round++) {
        int n = numbers[round % 2];
        std::atomic<int> counts[kMost] = {};
        pool.share(n, [&](int i) { counts[i].fetch_add(1); });
        for (int i = 0; i < n; i++) PROMISE(counts[i] == 1);
      }
    }
    pool.dismiss();
  });
}
