"""The commands of ``python -m model``, one file each: ``add_arguments`` describes one, ``run`` does it."""

import os

# Before torch is imported: loading int8 weights makes it write a deprecation notice among our messages.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
