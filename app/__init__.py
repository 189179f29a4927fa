"""The service: HTTP in, HTTP out; translation itself is in :mod:`model`."""
