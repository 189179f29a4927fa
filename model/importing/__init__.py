"""Other people's checkpoints: a folder of Hugging Face files in, a bundle out."""
