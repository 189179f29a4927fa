"""Which model translates each text of a request; languages are detected where ``source`` is ``auto``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.errors import DetectedPairNotServed, LanguageNotDetected
from app.models.registry import LoadedModel, Registry
from app.serving.detection import Detection, LanguageDetector, has_letters
from model.errors import UnsupportedPair
from model.languages import closest

if TYPE_CHECKING:
    from model.text_pipeline import Translation

DETECT = "auto"
"""As a source: whichever language the text is in."""

NO_LANGUAGE = "zxx"
"""What a text without letters is in, as ISO 639 calls that."""


@dataclass(frozen=True)
class ModelChoice:
    """What a text is translated by.

    Args:
        model: The model.
        source: Its language, as the model spells it.
        target: The language wanted, likewise.
        detected: How its language was detected, where it was not given.
    """

    model: LoadedModel
    source: str
    target: str
    detected: Detection | None = None


@dataclass(frozen=True)
class Unchanged:
    """A text that is its own translation: without letters, or in the language wanted already.

    Args:
        source: Its language.
        target: The language wanted.
        detected: How its language was detected; None where it has none.
    """

    source: str
    target: str
    detected: Detection | None

    def translation(self, text: str, return_alignment: bool) -> Translation:
        """The text as an answer."""
        from model.text_pipeline import Translation

        return Translation(text, self.source, self.target, "stop", None, (), () if return_alignment else None, 0, 0)


class ModelChooser:
    """Decides for each text which model translates it.

    Args:
        registry: What is loaded.
        detector: Detects languages.
        off_loop: Runs something that takes long on another thread.
    """

    def __init__(
        self,
        registry: Registry,
        detector: LanguageDetector,
        off_loop: Callable[[Callable[[], list[Detection | None]]], Awaitable[list[Detection | None]]],
    ) -> None:
        self._registry = registry
        self._detector = detector
        self._off_loop = off_loop

    async def choose(
        self, texts: Sequence[str], source: str | None, target: str | None
    ) -> list[ModelChoice | Unchanged | Exception]:
        """The choice for each text; a text that cannot be translated has an exception at its index.

        Where ``source`` is ``auto``, the language of each text is detected on its own, among the languages loaded:

        - a text without letters, a blank one for instance, is answered as it is;
        - so is one that is in the target language already;
        - one whose language cannot be detected, or has no pair with the target, is refused, and the others are not;
        - ``target`` may be left out where the language leaves a single pair.

        Args:
            texts: The texts.
            source: Their language, ``auto`` (in any case), or None.
            target: The language wanted, or None.

        Raises:
            UnsupportedPair: No loaded pair fits, whatever the texts are.
        """
        if source is None or source.lower() != DETECT:
            model, pair = self._registry.find(source, target)
            return [ModelChoice(model, *pair)] * len(texts)
        if target is not None and closest(target, self._registry.pairs.targets) is None:
            raise UnsupportedPair(source, target, self._registry.pairs)
        languages = self._registry.pairs.languages
        spoken = [text for text in texts if has_letters(text)]
        found = iter(await self._off_loop(lambda: self._detector.detect(spoken, languages)) if spoken else ())
        # From here on nothing is awaited: models may have been loaded or unloaded, and those chosen now are loaded.
        return [
            self._choose_detected(next(found), target) if has_letters(text) else self._without_language(target)
            for text in texts
        ]

    def _without_language(self, target: str | None) -> Unchanged:
        code = None if target is None else closest(target, self._registry.pairs.targets)
        return Unchanged(NO_LANGUAGE, code or NO_LANGUAGE, None)

    def _choose_detected(self, detected: Detection | None, target: str | None) -> ModelChoice | Unchanged | Exception:
        pairs = self._registry.pairs
        if detected is None:
            return LanguageNotDetected(pairs)
        wanted = None if target is None else closest(target, pairs.targets)
        if wanted is not None and wanted in detected.alike:
            return Unchanged(wanted, wanted, replace(detected, language=wanted))
        for code in detected.alike:
            try:
                model, pair = self._registry.find(code, target)
            except UnsupportedPair:
                continue
            return ModelChoice(model, *pair, replace(detected, language=pair[0]))
        return DetectedPairNotServed(detected.language, detected.confidence, target, pairs)
