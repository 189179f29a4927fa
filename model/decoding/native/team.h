// A second pair of hands for whoever computes alone: products are cut into pieces that several threads take as they can.

#pragma once

#include <immintrin.h>

#include <atomic>
#include <cstdint>
#include <thread>

// One thread leads and shares its products out; the others serve until it dismisses them. They watch for work without
// sleeping, because a product takes microseconds. A helper that is not running, because other programs are, is not
// waited for: the leader takes all pieces that nobody else has begun.
class Team {
 public:
  // Do piece(0) ... piece(n - 1), some of them here.
  template <typename Piece>
  void share(int n, const Piece& piece) {
    run_ = [](const void* what, int i) { (*static_cast<const Piece*>(what))(i); };
    what_ = &piece;
    done_.store(0, std::memory_order_relaxed);
    size_.store(n, std::memory_order_relaxed);
    uint64_t turn = (next_.load(std::memory_order_relaxed) >> 32) + 1;
    next_.store(turn << 32, std::memory_order_release);
    while (take(turn)) {
    }
    while (done_.load(std::memory_order_acquire) < n) _mm_pause();
  }

  void serve() {
    for (int idle = 0;;) {
      uint64_t turn = next_.load(std::memory_order_acquire) >> 32;
      if (turn == kOver) return;
      if (take(turn)) {
        idle = 0;
      } else if (++idle < 2000) {
        _mm_pause();
      } else {
        std::this_thread::yield();
      }
    }
  }
  void dismiss() { next_.store(kOver << 32, std::memory_order_release); }

 private:
  // Do one piece of a turn, unless all are taken or it is over. Whoever holds a piece keeps the turn from ending, so that
  // what the leader wrote stands until the piece is done.
  bool take(uint64_t turn) {
    uint64_t next = next_.load(std::memory_order_acquire);
    do {
      if (next >> 32 != turn || (int)(next & 0xffffffff) >= size_.load(std::memory_order_relaxed)) return false;
    } while (!next_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel));
    run_(what_, (int)(next & 0xffffffff));
    done_.fetch_add(1, std::memory_order_acq_rel);
    return true;
  }

  static constexpr uint64_t kOver = 0xffffffff;
  std::atomic<uint64_t> next_{0};  // the turn, and the piece of it to be taken next
  std::atomic<int> size_{0}, done_{0};
  void (*run_)(const void*, int) = nullptr;
  const void* what_ = nullptr;
};
