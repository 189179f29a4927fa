"""Decoding in fixed slots, for GPUs: tensors keep their sizes and addresses, so that a step is one CUDA graph."""
