"""A soak: every kind of request at once for a long time, each answer compared, each count checked, memory watched."""
