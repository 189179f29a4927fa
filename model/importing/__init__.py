"""Import of checkpoints of other projects: a folder of files in, a bundle out."""
