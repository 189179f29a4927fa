// Threads that sleep until there is work. They live as long as the process.
//
// Work is never refused for lack of threads: what has no thread is done by the caller.

#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

class ThreadPool {
 public:
  // Runs task(0) ... task(n - 1), and returns when all are done: task(0) on the caller's thread, the others each on its own.
  // If the system starts no more threads, or the pool is busy for another caller, the caller runs those that have no thread,
  // in order. An exception of a task is thrown again here.
  void run(int n, const std::function<void(int)>& task) {
    std::unique_lock<std::mutex> one_run_at_a_time(runs_, std::defer_lock);
    if (n <= 1 || !one_run_at_a_time.try_lock()) {
      for (int i = 0; i < n; i++) task(i);
      return;
    }
    int num_shared;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      start_threads(n - 1);
      num_shared = std::min(n, 1 + (int)threads_.size());
      failure_ = nullptr;
      task_ = &task;
      num_tasks_ = num_shared;
      num_unfinished_ = num_shared - 1;
      run_number_++;
    }
    wake_.notify_all();
    run_task(task, 0);
    for (int i = num_shared; i < n; i++) run_task(task, i);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return num_unfinished_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Starts threads until there are this many, or the system starts no more.
  void start_threads(int num_threads) {
    threads_.reserve(num_threads);
    while ((int)threads_.size() < num_threads) {
      int index = (int)threads_.size() + 1;
      try {
        threads_.emplace_back([this, index] { wait_for_tasks(index); });
      } catch (const std::system_error&) {
        return;
      }
      threads_.back().detach();
    }
  }

  void run_task(const std::function<void(int)>& task, int index) {
    try {
      task(index);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  // The loop of a thread: it runs the task of its own index in every run that has one.
  void wait_for_tasks(int index) {
    uint64_t last_run = 0;
    for (;;) {
      const std::function<void(int)>* task;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return run_number_ != last_run; });
        last_run = run_number_;
        if (index >= num_tasks_) continue;
        task = task_;
      }
      run_task(*task, index);
      std::lock_guard<std::mutex> lock(mutex_);
      if (--num_unfinished_ == 0) done_.notify_one();
    }
  }

  std::mutex runs_, mutex_;  // mutex_ protects everything below
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* task_ = nullptr;
  int num_tasks_ = 0, num_unfinished_ = 0;
  std::exception_ptr failure_;
  uint64_t run_number_ = 0;
};

// The thread pool of the process.
inline ThreadPool& thread_pool() {
  static ThreadPool* pool = new ThreadPool();  // never destroyed: its threads may outlive main
  return *pool;
}
