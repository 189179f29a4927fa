// Vector instructions of the processor (AVX-512), and what several files need around them.

#pragma once

// GCC's header starts some results from an undefined register on purpose, and GCC warns of it wherever the function is
// inlined (GCC bug 105593). The warning stays on for this project's own code.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// float32 numbers in one vector.
constexpr int kLanes = 16;

// The first n lanes of a vector; all of them if n is larger, none if it is not positive.
inline __mmask16 first_lanes(int n) { return n >= kLanes ? 0xffff : n <= 0 ? 0 : (1 << n) - 1; }
