// Memory aligned to cache lines: arrays that grow, and a pool of chunks of one size.

#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

#include "kernels.h"

// AddressSanitizer reports accesses to chunks that are not in use (scripts/test_sanitized.py). GCC defines the macro.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

constexpr size_t round_to_cache_lines(size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

inline void* allocate_aligned(size_t bytes) { return ::operator new(bytes, std::align_val_t{kCacheLine}); }
inline void free_aligned(void* memory) { ::operator delete(memory, std::align_val_t{kCacheLine}); }

// An array that grows if it is too small. Growing discards its content.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  AlignedBuffer(AlignedBuffer&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
    other.size_ = 0;
  }
  ~AlignedBuffer() { free_aligned(data_); }

  void resize(size_t size) {
    if (size <= size_) return;
    free_aligned(data_);
    data_ = nullptr;
    size_ = 0;
    data_ = static_cast<T*>(allocate_aligned(size * sizeof(T)));
    size_ = size;
  }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// Chunks of one size. A chunk that is given back is handed out again: the pool holds as much memory as was ever in use at
// once, is not fragmented, and returns its memory to the system when it is destroyed. Any thread may use it.
class ChunkPool {
 public:
  ChunkPool() = default;
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;
  ~ChunkPool() {
    for (void* slab : slabs_) free_aligned(slab);
  }

  void set_chunk_size(size_t bytes) { chunk_size_ = round_to_cache_lines(bytes); }
  size_t chunk_size() const { return chunk_size_; }

  // Moves up to n chunks, at least one, to `out`: the pool is locked once for all of them.
  void take(std::vector<void*>& out, size_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) add_slab();
    for (; n && !free_.empty(); n--) {
      out.push_back(free_.back());
      free_.pop_back();
    }
  }
  // Gives chunks back to the pool.
  void give(void* const* begin, void* const* end) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.insert(free_.end(), begin, end);
  }

 private:
  void add_slab() {
    size_t count = chunk_size_ >= kSlabSize ? 1 : kSlabSize / chunk_size_;
    if (free_.capacity() < num_chunks_ + count) free_.reserve(2 * (num_chunks_ + count));  // give() never needs memory
    slabs_.push_back(nullptr);
    char* slab = static_cast<char*>(allocate_aligned(chunk_size_ * count));
    slabs_.back() = slab;
    num_chunks_ += count;
    ASAN_POISON_MEMORY_REGION(slab, chunk_size_ * count);
    for (size_t i = 0; i < count; i++) free_.push_back(slab + i * chunk_size_);
  }

  static constexpr size_t kSlabSize = 1 << 20;
  size_t chunk_size_ = kCacheLine, num_chunks_ = 0;
  std::mutex mutex_;
  std::vector<void*> free_, slabs_;
};

// Chunks that one thread has taken from a pool ahead of their use, so that it seldom locks the pool.
class ChunkCache {
 public:
  explicit ChunkCache(ChunkPool& pool) : pool_(pool) {}
  ~ChunkCache() { pool_.give(free_.data(), free_.data() + free_.size()); }
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  void* take() {
    if (free_.empty()) pool_.take(free_, kTakenAtOnce);
    void* chunk = free_.back();
    free_.pop_back();
    ASAN_UNPOISON_MEMORY_REGION(chunk, pool_.chunk_size());
    return chunk;
  }
  // Does not throw: destructors call it, above all when there is no memory.
  void give(void* chunk) noexcept {
    ASAN_POISON_MEMORY_REGION(chunk, pool_.chunk_size());
    if (free_.size() == free_.capacity()) {
      try {
        free_.reserve(2 * free_.size() + kTakenAtOnce);
      } catch (const std::bad_alloc&) {
        pool_.give(&chunk, &chunk + 1);
        return;
      }
    }
    free_.push_back(chunk);
  }

 private:
  static constexpr size_t kTakenAtOnce = 32;
  ChunkPool& pool_;
  std::vector<void*> free_;
};
