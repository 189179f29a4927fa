"""The options of a translation: those of decoding, and those of reading and writing texts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, get_args

from model.decoding.options import DecodingOptions
from model.errors import InvalidOptions
from model.text.glossary import Glossary
from model.text.protection import MAX_PATTERNS, Protect, check_patterns

Formality = Literal["formal", "informal"]
TextFormat = Literal["text", "html", "xml"]

MAX_TERMS = 100
"""The most terms of a glossary."""

MAX_TAGS = 100
"""The most names of elements in a list."""

MAX_TERM_CHARACTERS = 200
"""The most characters of one side of a term."""

MAX_PREFIX_CHARACTERS = 2000
"""The most characters of a given beginning of a translation."""

STEERING_OPTIONS = ("target_prefix", "return_search")
"""The options that need a text of a single sentence."""


@dataclass(frozen=True)
class TranslationOptions(DecodingOptions):
    """How a text is translated. Contradictions are refused here and nowhere else.

    Args:
        formality: The form of address of the translation, for models that support it.
        glossary: Terms with their translations.
        lexicon: Whether the model reads the translations of rare words from the lexicon of its bundle, if it has one.
        protect: Which spans come back unchanged (:func:`model.text.protection.find_spans`).
        format: The format of the texts: ``text``, ``html`` or ``xml`` (:mod:`model.text.markup`).
        ignore_tags: Names of elements that are not translated; needs a format with elements.
        splitting_tags: Names of elements that separate texts.
        non_splitting_tags: Names of elements that never do.
        outline_detection: Whether elements of XML separate texts by their position, or only those of
            ``splitting_tags``.
        is_lenient: Whether XML that is not well-formed is read by HTML's rules; otherwise it is refused.
        target_prefix: The given beginning of the translation of a single sentence, in plain text.
        return_alignment: Whether translations carry their alignment.
        return_confidence: Whether translations carry their confidence.
        return_sentences: Whether translations carry the positions of their sentences.

    Raises:
        InvalidOptions: A value is out of bounds or two contradict each other.
        InvalidPattern: A pattern of ``protect`` is invalid.
    """

    formality: Formality | None = None
    glossary: Glossary = ()
    lexicon: bool = True
    protect: Protect = "auto"
    format: TextFormat = "text"
    ignore_tags: tuple[str, ...] = ()
    splitting_tags: tuple[str, ...] = ()
    non_splitting_tags: tuple[str, ...] = ()
    outline_detection: bool = True
    is_lenient: bool = False
    target_prefix: str = ""
    return_alignment: bool = False
    return_confidence: bool = False
    return_sentences: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.formality is not None and self.formality not in get_args(Formality):
            raise InvalidOptions(f"formality is {self.formality!r}; it must be {' or '.join(get_args(Formality))}.")
        if self.glossary:
            self._check_glossary()
        if self.format not in get_args(TextFormat):
            raise InvalidOptions(f"format is {self.format!r}; it must be one of {', '.join(get_args(TextFormat))}.")
        self._check_markup()
        self._check_steering()
        if isinstance(self.protect, tuple):
            if "none" in self.protect:
                raise InvalidOptions("protect has 'none' among its patterns; 'none' stands alone.")
            if len(self.protect) > MAX_PATTERNS:
                raise InvalidOptions(f"protect has {len(self.protect)} patterns; it may have {MAX_PATTERNS}.")
            check_patterns(self.protect)
        elif self.protect not in ("auto", "none"):
            raise InvalidOptions(f"protect is {self.protect!r}; it must be 'auto', 'none' or a tuple of patterns.")

    def _check_markup(self) -> None:
        for name in ("ignore_tags", "splitting_tags", "non_splitting_tags"):
            tags = getattr(self, name)
            if tags and self.format == "text":
                raise InvalidOptions(f"{name} needs format 'html' or 'xml'; the format is 'text'.")
            if len(tags) > MAX_TAGS:
                raise InvalidOptions(f"{name} has {len(tags)} names; it may have {MAX_TAGS}.")

    def _check_steering(self) -> None:
        for name in self.steering:
            if self.format != "text":
                raise InvalidOptions(f"{name} needs format 'text'; the format is {self.format!r}.")
        if len(self.target_prefix) > MAX_PREFIX_CHARACTERS:
            raise InvalidOptions(
                f"target_prefix has {len(self.target_prefix)} characters; it may have {MAX_PREFIX_CHARACTERS}."
            )
        if self.target_prefix != self.target_prefix.strip():
            raise InvalidOptions("target_prefix has whitespace at its ends; leave it out, the model writes its own.")

    def _check_glossary(self) -> None:
        if len(self.glossary) > MAX_TERMS:
            raise InvalidOptions(f"glossary has {len(self.glossary)} terms; it may have {MAX_TERMS}.")
        for number, term in enumerate(self.glossary):
            for side, text in (("source", term.source), ("target", term.target)):
                if not 1 <= len(text) <= MAX_TERM_CHARACTERS or text != text.strip() or len(text.splitlines()) > 1:
                    raise InvalidOptions(
                        f"{side} of glossary term {number} is {text[:MAX_TERM_CHARACTERS]!r}; it must have 1 to "
                        f"{MAX_TERM_CHARACTERS} characters, no line break and no whitespace at its ends."
                    )

    __hash__ = DecodingOptions.__hash__  # else the decorator makes one of all fields

    @property
    def steering(self) -> tuple[str, ...]:
        """The names of the options in use that need a text of a single sentence."""
        return tuple(name for name in STEERING_OPTIONS if getattr(self, name))

    @cached_property
    def for_decoding(self) -> DecodingOptions:
        """The options that decoding uses, so that equal sentences of different requests share work."""
        return DecodingOptions(**{field.name: getattr(self, field.name) for field in fields(DecodingOptions)})
