"""Which sentences decode when: admission, the thread that owns the models, and the event loop's side of it."""
