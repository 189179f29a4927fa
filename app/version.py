"""The version of Verso that is installed."""

from __future__ import annotations

DISTRIBUTION = "verso-translate"
"""The name this project is installed under; ``verso`` alone is another project's."""


def installed_version() -> str:
    """The version installed, or 0 where the source is run without being installed."""
    import importlib.metadata  # takes as long as the rest of "verso --help"

    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "0"
