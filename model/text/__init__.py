"""Text to token ids and back: tokenizers, sentence segmentation, case folding."""
