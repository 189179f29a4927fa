"""Decoding step by step in torch, on any device and with any model: caches, filters, greedy and beam search."""
