"""The loaded bundles: where their files are, which serves which pair, and the requests in flight on each."""
