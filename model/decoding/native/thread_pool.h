// Threads that sleep until there is work. They live as long as the process.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class ThreadPool {
 public:
  // Runs task(0) ... task(n - 1), each on its own thread, task(0) on the caller's, and returns when all are done. An
  // exception of a task is thrown again here.
  void run(int n, const std::function<void(int)>& task) {
    if (n <= 1) {
      task(0);
      return;
    }
    std::lock_guard<std::mutex> one_run_at_a_time(runs_);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      start_threads(n - 1);
      failure_ = nullptr;
      task_ = &task;
      num_tasks_ = n;
      num_unfinished_ = n - 1;
      run_number_++;
    }
    wake_.notify_all();
    run_task(task, 0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return num_unfinished_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void start_threads(int num_threads) {
    while ((int)threads_.size() < num_threads) {
      int index = (int)threads_.size() + 1;
      threads_.emplace_back([this, index] { wait_for_tasks(index); });
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
