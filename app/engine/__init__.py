"""Scheduling and decoding: the queue, the thread that runs the models, and the interface for the event loop."""
