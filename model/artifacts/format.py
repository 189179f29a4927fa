"""Which files are bundles that this release reads. Importable without torch."""

FORMAT = "verso-bundle"
FORMAT_VERSION = 2
"""Version 2 added the tokenizers and decoding rules of other model families."""

DATA_FORMAT_VERSION = 3
"""Version of bundles in data form (:mod:`model.artifacts.data_form`), which releases before it cannot read."""

READABLE_VERSIONS = (1, 2, 3)
