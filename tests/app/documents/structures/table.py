"""All structures, in the order of the documentation."""

from __future__ import annotations

from tests.app.documents.structures.catalogues import CATALOGUES
from tests.app.documents.structures.markdown import MARKDOWN
from tests.app.documents.structures.office import OFFICE
from tests.app.documents.structures.text import TEXT

STRUCTURES = (*TEXT, *MARKDOWN, *CATALOGUES, *OFFICE)
"""The structures of each format."""
