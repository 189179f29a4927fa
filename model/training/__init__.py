"""Training: parallel text in, checkpoints out."""
