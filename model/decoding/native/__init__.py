"""Decoding with the vector instructions of the processor, compiled from C++ where a compiler is at hand."""
