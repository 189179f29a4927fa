"""The choice of a model for each text of a request, and the detection of languages.

If ``source`` is ``auto``, languages are detected first; otherwise texts that are certainly in another language than the
stated one are marked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from app.errors import DetectedPairNotServed, LanguageNotDetected
from app.models.registry import Leg, ModelT, Registry
from app.serving.detection import Detection, LanguageDetector, has_letters, other_than, words_of
from app.serving.identification import MAX_CHARACTERS
from model.errors import EmptySource, InputError, UnsupportedPair
from model.languages import closest
from model.translation.memory import MemoryMatch, MemoryUse
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from model.translation.results import Translation

DETECT = "auto"
"""The value of ``source`` that requests language detection."""

NO_LANGUAGE = "zxx"
"""The ISO 639 code of texts without letters ("no linguistic content")."""

MANY_TEXTS = 50
"""The most texts for whose languages the event loop waits; each takes 50 us at most."""

_NUM_REMEMBERED = 1_000
"""The most beginnings of texts whose language is remembered; together they take 2 MB at most."""

_T = TypeVar("_T")


class OffLoop(Protocol):
    """Runs a slow function on another thread."""

    def __call__(self, run: Callable[[], _T]) -> Awaitable[_T]:
        """The function's result."""
        ...


@dataclass(frozen=True)
class ModelChoice(Generic[ModelT]):
    """The model and the language pair for a text, or two models that translate one after the other.

    Args:
        legs: One or two legs; the second one translates what the first one wrote.
        detected: The result of language detection; if the language was given, None unless the text is almost certainly
            in another one.
    """

    legs: tuple[Leg[ModelT], ...]
    detected: Detection | None = None

    @property
    def model(self) -> ModelT:
        """The model that writes the translation."""
        return self.legs[-1].model

    @property
    def source(self) -> str:
        """The text's language, in the spelling of the model that reads it."""
        return self.legs[0].source

    @property
    def target(self) -> str:
        """The target language, in the model's spelling."""
        return self.legs[-1].target


@dataclass(frozen=True)
class Unchanged:
    """A text that is returned unchanged, because it has no letters or is already in the target language.

    Args:
        source: Its language.
        target: The target language.
        detected: The result of language detection; None for a text without letters.
    """

    source: str
    target: str
    detected: Detection | None

    def translation(self, text: str, options: TranslationOptions) -> Translation:
        """The text as its own translation."""
        from model.translation.confidence import NOTHING_TRANSLATED
        from model.translation.results import Translation

        return Translation(
            text,
            self.source,
            self.target,
            "stop",
            None,
            (),
            () if options.return_alignment else None,
            0,
            0,
            confidence=NOTHING_TRANSLATED if options.return_confidence else None,
            glossary=() if options.glossary else None,
        )


@dataclass(frozen=True)
class Remembered:
    """A text whose translation is stored in a translation memory.

    Args:
        source: Its language.
        target: The target language.
        detected: The result of language detection, as for :class:`ModelChoice`.
        match: The stored translation.
    """

    source: str
    target: str
    detected: Detection | None
    match: MemoryMatch

    def translation(self, text: str, options: TranslationOptions) -> Translation:
        """The stored translation, between the whitespace at the ends of the text."""
        inner = text.strip()
        begin = text.index(inner)
        nothing = Unchanged(self.source, self.target, self.detected).translation(text, options)
        return replace(
            nothing,
            text=f"{text[:begin]}{self.match.target.strip()}{text[begin + len(inner) :]}",
            memory=(MemoryUse((begin, begin + len(inner)), self.match, "exact"),),
        )


class ModelChooser(Generic[ModelT]):
    """Chooses the model for each text.

    Args:
        registry: The loaded models.
        detector: Detects languages.
        off_loop: Runs a slow function on another thread.
        remembers: Whether it is remembered which texts are in another language than the stated one.
    """

    def __init__(
        self,
        registry: Registry[ModelT],
        detector: LanguageDetector,
        off_loop: OffLoop,
        *,
        remembers: bool = False,
    ) -> None:
        self._registry = registry
        self._detector = detector
        self._off_loop = off_loop
        self._other_than = lru_cache(_NUM_REMEMBERED)(other_than) if remembers else other_than

    async def pair_of(self, text: str, source: str | None, target: str | None) -> tuple[str, str]:
        """The language pair of a text; both are equal if the text would come back unchanged.

        Args:
            text: The text.
            source: Its language, ``auto``, or None.
            target: The target language, or None.

        Raises:
            Exception: As :meth:`choose` returns it for the text.
        """
        (choice,) = await self.choose([text], source, target, TranslationOptions())
        if isinstance(choice, Exception):
            raise choice
        return (choice.source, choice.target) if isinstance(choice, ModelChoice) else (choice.target, choice.target)

    async def choose(
        self, texts: Sequence[str], source: str | None, target: str | None, options: TranslationOptions
    ) -> list[ModelChoice[ModelT] | Unchanged | Exception]:
        """The choice for each text; for a text that cannot be translated, the exception.

        If ``source`` is ``auto``, the language of each text is detected separately, among the loaded languages:

        - a text without letters, for example a blank text, is returned unchanged, as is a document without letters to
          translate;
        - a text that is already in the target language is returned unchanged;
        - a text is refused if its language cannot be detected or has no pair with the target; other texts are not;
        - ``target`` may be omitted if the detected language is the source of a single pair;
        - a text that would be returned unchanged is refused if ``options.steering`` needs its decoding.

        Args:
            texts: The texts.
            source: Their language, ``auto`` (upper or lower case), or None.
            target: The target language, or None.
            options: The options of the request, with the format of the texts.

        Raises:
            UnsupportedPair: No loaded pair fits the request.
        """
        if source is None or source.lower() != DETECT:
            code = self._registry.route(source, target)[0].source
            others = await self._others(texts, code)
            legs = self._registry.route(source, target)  # models may have been unloaded meanwhile
            return [ModelChoice(legs, other) for other in others]
        if target is not None and closest(target, self._registry.pairs.targets) is None:
            raise UnsupportedPair(source, target, self._registry.pairs)
        words: list[str | InputError] = list(texts)
        if options.format != "text":
            words = await self._off_loop(lambda: [_words_or_error(text, options) for text in texts])
        detected = await self.detect(["" if isinstance(text, InputError) else text for text in words])
        # Models may have been loaded or unloaded during detection. There is no await from here on, so the chosen models
        # are loaded.
        choices: list[ModelChoice[ModelT] | Unchanged | Exception] = []
        for text_words, language in zip(words, detected, strict=True):
            if isinstance(text_words, InputError):
                choices.append(text_words)
            elif has_letters(text_words):
                choices.append(self._choose_detected(language, target))
            else:
                choices.append(self._without_language(target))
        if options.steering:
            # Without decoding there is no prefix and are no candidates.
            return [
                self.refused(text, target, choice) if isinstance(choice, Unchanged) else choice
                for text, choice in zip(texts, choices, strict=True)
            ]
        return choices

    async def _others(self, texts: Sequence[str], source: str) -> list[Detection | None]:
        """The languages of texts that are almost certainly not in the stated one."""
        if len(texts) <= MANY_TEXTS:
            return [self._other_than(text[:MAX_CHARACTERS], source) for text in texts]
        return await self._off_loop(lambda: [other_than(text, source) for text in texts])

    def refused(self, text: str, target: str | None, choice: Unchanged) -> Exception:
        """The error for a text that needs no model, in a request for something that needs one.

        Args:
            text: The text.
            target: The target language, or None.
            choice: Its choice.
        """
        if choice.detected is None:
            return LanguageNotDetected(self._registry.pairs) if text.strip() else EmptySource()
        detected = choice.detected
        return DetectedPairNotServed(detected.language, detected.confidence, target, self._registry.pairs)

    async def detect(self, texts: Sequence[str]) -> list[Detection | None]:
        """Detect the languages of texts among the loaded ones.

        Args:
            texts: The texts.

        Returns:
            For each text its language, or None if it has no letters or letters of no loaded language.
        """
        languages = self._registry.pairs.languages
        with_letters = [text for text in texts if has_letters(text)]
        detections = iter(
            await self._off_loop(lambda: self._detector.detect(with_letters, languages)) if with_letters else ()
        )
        return [next(detections) if has_letters(text) else None for text in texts]

    def _without_language(self, target: str | None) -> Unchanged:
        code = None if target is None else closest(target, self._registry.pairs.targets)
        return Unchanged(NO_LANGUAGE, code or NO_LANGUAGE, None)

    def _choose_detected(
        self, detected: Detection | None, target: str | None
    ) -> ModelChoice[ModelT] | Unchanged | Exception:
        pairs = self._registry.pairs
        if detected is None:
            return LanguageNotDetected(pairs)
        served_target = None if target is None else closest(target, pairs.targets)
        if served_target is not None and served_target in detected.alike:
            return Unchanged(served_target, served_target, replace(detected, language=served_target))
        for code in detected.alike:
            try:
                legs = self._registry.route(code, target)
            except UnsupportedPair:
                continue
            return ModelChoice(legs, replace(detected, language=legs[0].source))
        return DetectedPairNotServed(detected.language, detected.confidence, target, pairs)


def _words_or_error(text: str, options: TranslationOptions) -> str | InputError:
    """The words of a document, or the error that it cannot be read."""
    try:
        return words_of(text, options)
    except InputError as error:
        return error
