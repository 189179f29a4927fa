// A thread pool for work of microseconds: its helpers spin instead of sleeping.

#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

// Tells the processor that the thread waits for another.
inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// One thread, the leader, cuts its products into pieces; helpers take pieces until the leader dismisses them. The leader
// never waits for a helper that the system does not run: it takes every piece that no helper has begun.
class SpinningPool {
 public:
  // Runs piece(0) ... piece(n - 1) on the leader's thread and on the helpers'. Only the leader calls it.
  template <typename Piece>
  void share(int n, const Piece& piece) {
    run_ = [](const void* what, int i) { (*static_cast<const Piece*>(what))(i); };
    piece_ = &piece;
    num_done_.store(0, std::memory_order_relaxed);
    uint64_t round = (left_.load(std::memory_order_relaxed) >> kPieceBits) + 1;
    left_.store(round << kPieceBits | (uint64_t)n, std::memory_order_release);
    while (take(round)) {
    }
    while (num_done_.load(std::memory_order_acquire) < n) pause_processor();
  }

  // The loop of a helper. It returns when the leader dismisses the helpers.
  void serve() {
    for (int idle = 0;;) {
      uint64_t round = left_.load(std::memory_order_acquire) >> kPieceBits;
      if (round == kDismissed) return;
      if (take(round)) {
        idle = 0;
      } else if (++idle < kSpinsBeforeYield) {
        pause_processor();
      } else {
        std::this_thread::yield();
      }
    }
  }
  void dismiss() { left_.store(kDismissed << kPieceBits, std::memory_order_release); }

 private:
  // Runs one piece of a round and returns true; returns false if none is left or the round is over. A round does not end
  // before its pieces are done, so run_ and piece_ stay valid while a piece runs.
  bool take(uint64_t round) {
    uint64_t left = left_.load(std::memory_order_acquire);
    do {
      if (left >> kPieceBits != round || !(left & kPieceMask)) return false;
    } while (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel));
    run_(piece_, (int)(left & kPieceMask) - 1);
    num_done_.fetch_add(1, std::memory_order_acq_rel);
    return true;
  }

  static constexpr int kPieceBits = 32;
  static constexpr uint64_t kPieceMask = (1ull << kPieceBits) - 1;
  static constexpr uint64_t kDismissed = 0xffffffff;  // a round number that is never reached
  static constexpr int kSpinsBeforeYield = 2000;
  // Number of the round (high bits) and of its pieces that nobody took yet (low bits). They are one number: a helper that is
  // late and saw the round before together with the pieces of the next one would take a piece twice.
  std::atomic<uint64_t> left_{0};
  std::atomic<int> num_done_{0};
  void (*run_)(const void*, int) = nullptr;
  const void* piece_ = nullptr;
};
