"""Serving a request: choose models, split texts into sentences, decode them in the engine, and join the results."""
