"""What a model reads of a sentence: characters and symbols, with their positions in the sentence."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from model.text.placeholders import original_spans
from model.text.symbols import Part, Replacement, Span, Symbol, placeholder, with_replacements


@dataclass(frozen=True)
class ModelInput:
    """The characters of a sentence or prefix that a model reads, and the symbols among them.

    Args:
        text: The original characters without those that were cut out.
        origins: The original index of each character of the text; None if nothing was cut out.
        replacements: The symbols and texts that the model reads instead of characters of the text.
        ends: The original index after each character of the text; None if each stands for one character.
    """

    text: str
    origins: Sequence[int] | None
    replacements: Sequence[Replacement] = ()
    ends: Sequence[int] | None = None

    @property
    def parts(self) -> list[tuple[Part, Span]]:
        """Texts and symbols in order, each with the characters of the text that it covers."""
        return with_replacements(self.text, self.replacements)

    def with_placeholders(self, spans: Mapping[int, Span]) -> ModelInput:
        """The same input with placeholders.

        Args:
            spans: By number of the placeholder, the original characters that it replaces.
        """
        symbols = [Replacement(*self.moved(span), (Symbol(placeholder(number)),)) for number, span in spans.items()]
        return replace(self, replacements=[*self.replacements, *symbols])

    def moved(self, span: Span) -> Span:
        """Map a span of original characters to the text. None of its characters was cut out."""
        if self.origins is None:
            return span
        return bisect_left(self.origins, span[0]), bisect_left(self.origins, span[1])

    def original(self, spans: Sequence[Span], num_characters: int) -> list[Span]:
        """Map spans of the text to the original characters.

        Args:
            spans: Spans of the text.
            num_characters: Number of original characters.
        """
        if self.origins is None:
            return list(spans)
        return original_spans(spans, self.origins, num_characters, self.ends)
