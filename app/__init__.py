"""The service: HTTP in, HTTP out; translation itself is in :mod:`model`."""

import os

# Before torch is imported: loading int8 weights makes it write a deprecation notice, which is no JSON, into the log.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
