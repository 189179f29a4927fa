"""Decoding in fixed slots, for GPUs: tensors whose size and place do not change, so that a step is one CUDA graph."""
