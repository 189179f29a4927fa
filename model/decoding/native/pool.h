// Threads that wait for work; they live as long as the process.

#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class Pool {
 public:
  // Run part(0) ... part(n - 1), the first of them here.
  void run(int n, const std::function<void(int)>& part) {
    if (n <= 1) {
      part(0);
      return;
    }
    std::lock_guard<std::mutex> one_at_a_time(callers_);
    failure_ = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while ((int)threads_.size() < n - 1) {
        int number = (int)threads_.size() + 1;
        threads_.emplace_back([this, number] { serve(number); });
        threads_.back().detach();
      }
      part_ = &part;
      wanted_ = n;
      left_ = n - 1;
      turn_++;
    }
    wake_.notify_all();
    attempt(part, 0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void attempt(const std::function<void(int)>& part, int number) {
    try {
      part(number);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  void serve(int number) {
    uint64_t seen = 0;
    for (;;) {
      const std::function<void(int)>* part;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return turn_ != seen; });
        seen = turn_;
        if (number >= wanted_) continue;
        part = part_;
      }
      attempt(*part, number);
      std::lock_guard<std::mutex> lock(mutex_);
      if (--left_ == 0) done_.notify_one();
    }
  }
  std::mutex callers_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* part_ = nullptr;
  int wanted_ = 0, left_ = 0;
  std::exception_ptr failure_;
  uint64_t turn_ = 0;
};

inline Pool& pool() {
  static Pool* one = new Pool();  // never destroyed: its threads may outlive main
  return *one;
}
