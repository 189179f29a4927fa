"""Which files are bundles that this release reads. Importable without torch."""

FORMAT = "verso-bundle"
FORMAT_VERSION = 2
"""Version 2 added the tokenizers and decoding rules of other model families."""

READABLE_VERSIONS = (1, 2)
