// Memory on cache lines, and chunks of one size that are used again and again.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

// Grows as needed; growing forgets what was in it.
template <typename T>
struct Aligned {
  T* p = nullptr;
  size_t n = 0;
  Aligned() = default;
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  Aligned(Aligned&& other) noexcept : p(other.p), n(other.n) {
    other.p = nullptr;
    other.n = 0;
  }
  void resize(size_t m) {
    if (m <= n) return;
    std::free(p);
    n = 0;
    p = static_cast<T*>(std::aligned_alloc(64, (m * sizeof(T) + 127) / 64 * 64));
    if (p == nullptr) throw std::bad_alloc();
    n = m;
  }
  ~Aligned() { std::free(p); }
  T* data() const { return p; }
};

// Chunks of one size. What was given back is handed out again, so that memory is bounded by the fullest moment and does
// not crumble; it returns to the system with the model.
class Chunks {
 public:
  void set_size(size_t bytes) { size_ = (bytes + 63) / 64 * 64; }
  ~Chunks() {
    for (void* slab : slabs_) std::free(slab);
  }
  // Moves up to n chunks to a list of the caller's, who thus locks once for many; at least one.
  void take(std::vector<void*>& out, size_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) {
      size_t count = size_ >= kSlab ? 1 : kSlab / size_;
      char* slab = static_cast<char*>(std::aligned_alloc(64, size_ * count));
      if (slab == nullptr) throw std::bad_alloc();
      slabs_.push_back(slab);
      num_chunks_ += count;
      if (free_.capacity() < num_chunks_) free_.reserve(2 * num_chunks_);  // giving back must not need memory
      for (size_t i = 0; i < count; i++) free_.push_back(slab + i * size_);
    }
    for (; n && !free_.empty(); n--) {
      out.push_back(free_.back());
      free_.pop_back();
    }
  }
  void give(std::vector<void*>& chunks) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.insert(free_.end(), chunks.begin(), chunks.end());
    chunks.clear();
  }

 private:
  static constexpr size_t kSlab = 1 << 20;
  size_t size_ = 64, num_chunks_ = 0;
  std::mutex mutex_;
  std::vector<void*> free_, slabs_;
};

// One worker's hand in them.
class Handful {
 public:
  explicit Handful(Chunks& chunks) : chunks_(chunks) {}
  ~Handful() { chunks_.give(held_); }
  Handful(const Handful&) = delete;
  Handful& operator=(const Handful&) = delete;
  void* take() {
    if (held_.empty()) chunks_.take(held_, 32);
    void* chunk = held_.back();
    held_.pop_back();
    return chunk;
  }
  void give(void* chunk) { held_.push_back(chunk); }

 private:
  Chunks& chunks_;
  std::vector<void*> held_;
};
