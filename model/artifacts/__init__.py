"""Models as files: checkpoints, bundles, and the export from one to the other, compared with the eager model."""
