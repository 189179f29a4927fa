"""The Transformer itself: its numbers, its layers, and its int8 form; nothing of text, files or search."""
