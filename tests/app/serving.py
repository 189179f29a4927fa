"""An application around a service with predefined answers, and a client that needs no socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import torch
from fastapi import FastAPI
from torch import Tensor

from app.documents.document import Document, DocumentResult, Sender
from app.documents.editing import SentencePage
from app.documents.stored_sentence import SentenceChange, StoredSentence
from app.engine.caller import Caller
from app.errors import NotReady
from app.main import create_app
from app.memories.service import Imported
from app.memories.store import Added, MemoryInfo
from app.memories.unit import StoredUnit, Unit
from app.serving.detection import Detection
from app.serving.request import MemoryChoice, TranslationRequest
from app.serving.text_job import AttentionResult, Via
from app.settings import Settings
from model.artifacts.manifest import Manifest
from model.attention import Attention
from model.languages import LanguagePairs
from model.network.heads import AttentionHead
from model.text.glossary import Glossary
from model.translation.confidence import Confidence, WordConfidence
from model.translation.memory import MemoryMatch, MemoryUse
from model.translation.options import TranslationOptions
from model.translation.quantities import NumberUse
from model.translation.results import SpanUse
from model.translation.search_trace import WrittenCandidate, WrittenSearch
from model.translation.terms import TermUse
from tests.app.fakes import FakeBundles

MANIFEST = Manifest(
    name="rote",
    pairs=(("en", "de"), ("de", "en")),
    architecture={"d_model": 8},
    precision="float32",
    max_source_tokens=64,
    max_target_tokens=64,
    licence="Apache-2.0",
    languages=("en", "de", "fr"),
    decoding={"scoring": "marian"},
    attribution=("Nobody",),
)


@dataclass(frozen=True)
class RoteLink:
    source: tuple[int, int]
    target: tuple[int, int]
    weight: float


@dataclass(frozen=True)
class RoteAlternative:
    text: str
    score: float | None
    finish_reason: Literal["stop", "length"] = "stop"


@dataclass(frozen=True)
class RoteTranslation:
    text: str
    source: str
    target: str
    score: float | None = None
    alternatives: tuple[RoteAlternative, ...] = ()
    alignment: list[RoteLink] | None = None
    finish_reason: Literal["stop", "length"] = "stop"
    confidence: Confidence | None = None
    integrity: tuple[SpanUse, ...] | None = None
    glossary: tuple[TermUse, ...] | None = None
    search: WrittenSearch | None = None
    memory: tuple[MemoryUse, ...] | None = None
    sentences: tuple[tuple[tuple[int, int], tuple[int, int]], ...] | None = None
    num_untranslated: int = 0
    numbers: tuple[NumberUse, ...] = ()
    lexicon: tuple[TermUse, ...] = ()


@dataclass(frozen=True)
class RoteText:
    result: RoteTranslation | Exception
    model: str | None
    detected: Detection | None
    via: Via | None = None


@dataclass(frozen=True)
class RoteResult:
    texts: list[RoteText]
    model: str = "rote"
    num_source_tokens: int = 5
    num_target_tokens: int = 4
    queue_ms: float = 0.25
    decode_ms: float = 2.0
    total_ms: float = 3.0

    @property
    def results(self) -> list[RoteTranslation | Exception]:
        return [text.result for text in self.texts]


@dataclass(frozen=True)
class RoteModel:
    manifest: Manifest = MANIFEST
    device: str = "cpu"
    num_bytes: int = 1_000_000
    in_memory: bool = True

    @property
    def name(self) -> str:
        return self.manifest.name


SEARCH: WrittenSearch = (
    (
        WrittenCandidate(1, 0, "▁Gu", "Gu", -0.5, kept=True, finished=False),
        WrittenCandidate(2, 0, "▁Ha", "Ha", -1.5, kept=False, finished=False),
    ),
    (WrittenCandidate(3, 1, "</s>", "", -0.75, kept=True, finished=True),),
)


def random_weights(layers: int, heads: int, rows: int, columns: int) -> Tensor:
    """Attention weights: non-negative, rows summing to 1."""
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    return torch.rand(layers, heads, rows, columns, generator=generator).softmax(dim=-1)


def rote_steps(rows: int, columns: int) -> dict[str, Tensor]:
    """Steps of a pre-norm model with vectors of 8 and heads of 4; the last column is masked."""
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    shapes = {
        **dict.fromkeys(("embedding", "position", "input", "normed"), (rows, 8)),
        "query": (rows, 4),
        **dict.fromkeys(("key", "value"), (columns, 4)),
        **dict.fromkeys(("scores", "masked", "weights"), (rows, columns)),
        "mixed": (rows, 4),
        **dict.fromkeys(("output", "residual", "result", "feed_forward"), (rows, 8)),
    }
    steps = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    steps["masked"][:, -1] = float("-inf")
    return steps


@dataclass
class RoteService:
    """Translates into upper case; the text ``untranslatable`` counts as untranslated, and ``forever`` never finishes.

    ``errors`` maps a text to its error.
    """

    state: str = "ready"
    errors: dict[str, Exception] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    waits: list[bool] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    request_error: Exception | None = None
    detected: Detection | None = None
    decoder_heads: int = 4

    @property
    def models(self) -> list[RoteModel]:
        return [] if self.state in ("loading", "empty") else [RoteModel()]

    def not_ready(self) -> NotReady:
        return NotReady(5.0, self.state)

    async def translate(self, request: TranslationRequest) -> RoteResult:
        texts, options = request.texts, request.options
        self.waits.append(request.waits)
        self.callers.append(request.caller)
        self.calls.append(
            {"texts": list(texts), "source": request.source, "target": request.target, "options": options}
        )
        self.started.set()
        if self.request_error is not None:
            raise self.request_error
        if "forever" in texts:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        results = [self._translation(text, options) for text in texts]
        return RoteResult(
            [RoteText(result, None if isinstance(result, Exception) else "rote", self.detected) for result in results]
        )

    def _translation(self, text: str, options: TranslationOptions) -> RoteTranslation | Exception:
        if text in self.errors:
            return self.errors[text]
        score = -0.5 if options.return_scores else None
        others = tuple(RoteAlternative(f"{text} {k}", score) for k in range(1, options.num_hypotheses))
        links = [RoteLink((0, 1), (0, 1), 1.0)] if options.return_alignment else None
        words = (WordConfidence((0, len(text)), 0.25),)
        return RoteTranslation(
            text.upper(),
            "en",
            "de",
            score,
            others,
            links,
            confidence=Confidence(0.5, words, ((0, 1),)) if options.return_confidence else None,
            integrity=(SpanUse((0, 1), (0, 1), restored=True),) if options.protect != "auto" else None,
            glossary=tuple(TermUse((0, 1), (0, 1), "used") for _ in options.glossary) if options.glossary else None,
            search=SEARCH if options.return_search else None,
            num_untranslated=int(text == "untranslatable"),
            lexicon=(TermUse((0, 4), (0, 4), "used"),) if text == "rare" and options.lexicon else (),
        )

    @property
    def pivoted(self) -> LanguagePairs:
        return LanguagePairs()

    async def language_pairs(self) -> LanguagePairs:
        if self.request_error is not None:
            raise self.request_error
        return LanguagePairs(MANIFEST.pairs)

    async def detect(self, texts: Sequence[str]) -> list[Detection | None]:
        self.calls.append({"texts": list(texts)})
        if self.request_error is not None:
            raise self.request_error
        return [self.detected for _ in texts]

    async def attention(
        self, request: TranslationRequest, target_text: str | None = None, steps: AttentionHead | None = None
    ) -> AttentionResult:
        (text,), options = request.texts, request.options
        self.calls.append({"text": text, "target_text": target_text, "options": options, "steps": steps})
        if self.request_error is not None:
            raise self.request_error
        words = text.split()
        answer = (target_text or text.upper()).split()
        size, length = len(words), len(answer)
        attention = Attention(
            source_tokens=words,
            target_tokens=answer,
            decoder_input_tokens=["<s>", *answer[:-1]],
            translation=" ".join(answer),
            encoder=random_weights(6, 4, size, size),
            decoder=random_weights(2, self.decoder_heads, length, length),
            cross=random_weights(2, 4, length, size),
            steps=None if steps is None else rote_steps(length, size),
            search=SEARCH if options.return_search else None,
        )
        return AttentionResult(attention, "rote", self.detected)

    async def load_model(self, file: str, sha256: str | None) -> RoteModel:
        self.calls.append({"file": file, "sha256": sha256})
        if self.request_error is not None:
            raise self.request_error
        return RoteModel()

    async def unload_model(self, name: str) -> float:
        self.calls.append({"unload": name})
        if self.request_error is not None:
            raise self.request_error
        return 0.25


DOCUMENT = Document(
    id="0f3c9d5e8a7b4c21b6d0e9f8a7c6b5d4",
    filename="document.txt",
    source="en",
    target="de",
    options="{}",
    status="queued",
    num_characters=14,
    created_at=0.0,
    expires_at=86_400.0,
)


@dataclass
class RoteDocuments:
    """Documents of a rote service: every file becomes the same document, which is done at once."""

    service: RoteService

    async def add(
        self,
        content: bytes,
        filename: str,
        source: str | None,
        target: str | None,
        options: TranslationOptions,
        sender: Sender,
        terms: Callable[[Sequence[str]], Awaitable[Glossary]] | None = None,
        memory: MemoryChoice | None = None,
    ) -> Document:
        self.service.calls.append({"content": content, "filename": filename, "source": source, "options": options})
        return self._found()

    async def get(self, id: str, owner: str | None = None) -> Document:
        return self._found()

    async def newest(self, owner: str, limit: int, after: str | None = None) -> Sequence[Document]:
        return [self._found()]

    async def result(self, id: str, partial_result: bool = False, owner: str | None = None) -> DocumentResult:
        self._found()
        return DocumentResult("document.de.txt", "text/plain", b"Guten Morgen.\n")

    async def sentences(self, id: str, owner: str | None = None, **page: Any) -> SentencePage:
        sentence = StoredSentence(0, 0, "Good morning.", "Guten Morgen.", None, is_confirmed=False)
        return SentencePage(self._found(), [sentence], 1, 0, 0)

    async def change_sentences(
        self, id: str, changes: Sequence[SentenceChange], owner: str | None = None
    ) -> SentencePage:
        self.service.calls.append({"changes": changes})
        return await self.sentences(id, owner)

    async def cancel(self, id: str, owner: str | None = None) -> Document:
        return self._found()

    def _found(self) -> Document:
        if self.service.request_error is not None:
            raise self.service.request_error
        return DOCUMENT


MEMORY = MemoryInfo("8c6f1c0e-30d5-4a0e-8a48-4f0a4c1f7b11", "Manuals", "en", "", {"de": 2}, 0.0, 0.0)
UNIT = StoredUnit(17, "Close the valve.", "Schließen Sie das Ventil.", "de", 0.0, 0.0, None)


@dataclass
class RoteMemories:
    """Translation memories of a rote service: one memory with one unit."""

    service: RoteService
    has_any: bool = True

    async def all(self, owner: str | None) -> list[MemoryInfo]:
        return [self._found()]

    async def create(self, owner: str | None, name: str, source: str) -> MemoryInfo:
        return self._found()

    async def add_corrections(self, owner: str | None, source: str, units: Sequence[Unit]) -> tuple[MemoryInfo, Added]:
        return self._found(), Added(len(units))

    async def get(self, owner: str | None, id: str) -> MemoryInfo:
        return self._found()

    async def delete(self, owner: str | None, id: str) -> MemoryInfo:
        return self._found()

    async def delete_all(self, owner: str | None) -> int:
        self._found()
        return 1

    async def add(self, owner: str | None, id: str, units: Sequence[Unit]) -> Added:
        self._found()
        return Added(len(units))

    async def units(self, *arguments: object) -> list[StoredUnit]:
        self._found()
        return [UNIT]

    async def pages(self, owner: str | None, id: str) -> AsyncIterator[list[StoredUnit]]:
        yield [UNIT]

    async def delete_unit(self, owner: str | None, id: str, unit: int) -> StoredUnit:
        self._found()
        return UNIT

    async def import_tmx(self, owner: str | None, chunks: object, id: str) -> Imported:
        return Imported(self._found(), Added(1), 0)

    async def look_up(self, search: object) -> list[MemoryMatch]:
        self._found()
        return [MemoryMatch(UNIT.source, UNIT.target, 0.9, MEMORY.id, UNIT.id)]

    async def check(self, owner: str | None, choice: MemoryChoice) -> None:
        self._found()

    def chosen(self, owner: str | None, choice: MemoryChoice) -> None:
        return None

    def _found(self) -> MemoryInfo:
        if self.service.request_error is not None:
            raise self.service.request_error
        return MEMORY


def rote_app(service: RoteService, **settings: Any) -> FastAPI:
    """The application with its service replaced; nothing is loaded and no thread started."""
    app = create_app(Settings(**settings), FakeBundles(_never_called))
    app.state.service = service
    app.state.documents = RoteDocuments(service)
    return app


def _never_called() -> Any:
    raise AssertionError("the lifespan was not run, so nothing may be loaded")


@asynccontextmanager
async def client_of(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application, without a socket and without its lifespan."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client
