// The bytes of one run, read as small numbers: what FuzzedDataProvider of libFuzzer does, for every compiler.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Reads numbers from the bytes that the fuzzer chose. Behind the last byte every number is the lowest that is allowed.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : next_(data), end_(data + size) {}

  bool empty() const { return next_ == end_; }
  uint8_t byte() { return empty() ? 0 : *next_++; }
  // A number from low to high, both included; two bytes are read where one is not enough.
  int between(int low, int high) {
    if (high <= low) return low;
    unsigned range = (unsigned)(high - low) + 1, value = byte();
    if (range > 256) value = value << 8 | byte();
    return low + (int)(value % range);
  }
  bool flag() { return byte() & 1; }
  // True for one value in 16, so that most inputs go on to what comes behind.
  bool rarely() { return byte() % 16 == 15; }
  template <typename T, size_t N>
  T one_of(const T (&choices)[N]) {
    return choices[between(0, (int)N - 1)];
  }

 private:
  const uint8_t *next_, *end_;
};

// Numbers that look random and follow from a seed: a model has more weights than an input has bytes.
class Sequence {
 public:
  explicit Sequence(uint64_t seed) : state_(seed) {}
  uint32_t next() {  // SplitMix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)(z >> 32);
  }
  int below(int bound) { return (int)(next() % (uint32_t)bound); }

 private:
  uint64_t state_;
};

// A promise of the library. Where it is broken the run ends as a crash, which the fuzzer keeps the input of.
#define PROMISE(condition)                                                                       \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);       \
      std::abort();                                                                              \
    }                                                                                            \
  } while (false)
