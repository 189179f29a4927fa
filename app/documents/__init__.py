"""Documents as jobs: a file in, the same file translated, with progress, and kept for a day."""
