"""Import of checkpoints from Hugging Face: a folder of files in, a bundle out."""
