"""Decoding on x86 processors with 512-bit vectors, compiled from C++ where a compiler is at hand."""
