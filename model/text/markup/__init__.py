"""HTML and XML: the texts of a document are translated, and everything else is kept byte for byte.

::

    document = MarkedUp(source, "html")
    placed = []
    for marked in document.texts:
        translation, links = translate(marked.text)  # with marked.protected unchanged
        placed.append(place_marks(marked, translation, links))
    document.render(placed)
"""

from model.text.markup.document import MarkedUp
from model.text.markup.items import ElementRules, MarkupFormat
from model.text.markup.marked_text import Mark, MarkedText, MarkKind, PlacedText, unchanged
from model.text.markup.offsets import OffsetMap
from model.text.markup.placement import place_marks
from model.text.markup.word_links import words

__all__ = [
    "ElementRules",
    "Mark",
    "MarkKind",
    "MarkedText",
    "MarkedUp",
    "MarkupFormat",
    "OffsetMap",
    "PlacedText",
    "place_marks",
    "unchanged",
    "words",
]
