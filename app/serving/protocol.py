"""What routes and documents need of a translation service, whether its models run in this process or in others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

from app.engine.caller import UNKNOWN_CALLER, Caller
from app.errors import NotReady
from app.models.registry import ServedModel
from app.serving.detection import Detection
from app.serving.text_job import AttentionResult, TranslateResult
from app.serving.text_stream import StreamedSentence, StreamedText
from model.languages import LanguagePairs
from model.network.heads import AttentionHead
from model.translation.options import TranslationOptions

State = Literal["loading", "ready", "empty", "draining", "failed", "stopped"]


class Translations(Protocol):
    """A translation service; :class:`app.serving.service.TranslationService` describes the methods."""

    @property
    def state(self) -> State:
        """The service's state; requests are accepted only in ``ready``."""
        ...

    @property
    def models(self) -> Sequence[ServedModel]:
        """The loaded models, in the order they serve."""
        ...

    async def start(self) -> None:
        """Start loading the models; returns immediately."""
        ...

    async def wait_loaded(self) -> None:
        """Wait until the models are loaded, or have failed to load."""
        ...

    async def stop(self) -> None:
        """End; requests that still wait are refused."""
        ...

    def not_ready(self) -> NotReady:
        """The error of requests that are refused in the current state."""
        ...

    async def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None,
        target: str | None,
        options: TranslationOptions,
        caller: Caller = UNKNOWN_CALLER,
        waits: bool = False,
        within_s: float | None = None,
    ) -> TranslateResult:
        """Translate texts."""
        ...

    def stream(
        self,
        texts: Sequence[str],
        *,
        source: str | None,
        target: str | None,
        options: TranslationOptions,
        caller: Caller = UNKNOWN_CALLER,
        within_s: float | None = None,
    ) -> AsyncGenerator[StreamedSentence | StreamedText | TranslateResult, None]:
        """Translate texts, sentence by sentence."""
        ...

    async def language_pairs(self) -> LanguagePairs:
        """The pairs of the loaded models."""
        ...

    async def detect(self, texts: Sequence[str]) -> list[Detection | None]:
        """Detect the languages of texts among the loaded ones."""
        ...

    async def pair_of(self, text: str, source: str | None, target: str | None) -> tuple[str, str]:
        """The language pair that a text would be translated with."""
        ...

    async def attention(
        self,
        text: str,
        *,
        source: str | None,
        target: str | None,
        options: TranslationOptions,
        target_text: str | None,
        steps: AttentionHead | None = None,
        within_s: float | None = None,
    ) -> AttentionResult:
        """All attention weights of a sentence and its translation."""
        ...
