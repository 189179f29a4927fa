// Counts what one shared library allocates with C++'s operator new, and lets one of these allocations fail.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<const char*> begin{nullptr};  // the code of the library; null while nothing is watched
std::atomic<const char*> end{nullptr};
std::atomic<long> num_allocations{0};
std::atomic<long> failing{0};  // the allocation that fails, counted from 1; 0 for none

bool fails(const void* caller) {
  const char* address = static_cast<const char*>(caller);
  if (begin == nullptr || address < begin || address >= end) return false;
  return ++num_allocations == failing;
}

void* allocate(size_t size, size_t alignment, const void* caller) {
  void* memory = nullptr;
  if (!fails(caller)) {
    memory = alignment <= alignof(std::max_align_t) ? malloc(size ? size : 1)
                                                     : aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#define CALLER __builtin_return_address(0)

void* operator new(size_t size) { return allocate(size, 1, CALLER); }
void* operator new[](size_t size) { return allocate(size, 1, CALLER); }
void* operator new(size_t size, std::align_val_t alignment) { return allocate(size, size_t(alignment), CALLER); }
void* operator new[](size_t size, std::align_val_t alignment) { return allocate(size, size_t(alignment), CALLER); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }

extern "C" {

// Watches the allocations of code between two addresses; the one with this number (counted from 1) fails.
void faults_allocations(const char* first, const char* last, long number) {
  begin = nullptr;
  num_allocations = 0;
  failing = number;
  end = last;
  begin = first;
}

// The number of allocations since then.
long faults_num_allocations() { return num_allocations; }

}  // extern "C"
