// The compiler's vector instructions for x86.

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
