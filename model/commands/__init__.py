"""The commands of ``python -m model``, one module each, and the table that lists them.

A module has ``EPILOG`` (the end of its help, with examples), ``add_arguments`` and ``run``. The table is in
:mod:`model.commands.table`; ``verso`` offers the same commands.
"""

import os

# Before torch is imported: loading int8 weights makes it write a deprecation notice among our messages.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
