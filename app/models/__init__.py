"""The loaded models: their bundles, the language pairs they serve, and the requests that use them."""
