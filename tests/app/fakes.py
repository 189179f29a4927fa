"""A translator without a model: it converts texts to upper case, one character per step.

Some texts cause failures: ``boom`` in a text makes every step of its cohort raise, ``nan`` makes its own
sentence fail, and the output for a text with ``loop`` is a repetition loop unless there is a guard.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from app.errors import BundleNotFound
from app.models.bundles import StoredBundle
from app.serving.detection import Detection, LanguageDetector
from model.artifacts.bundle import Bundle
from model.artifacts.loaded_network import LoadedNetwork
from model.artifacts.manifest import Manifest
from model.attention import Attention
from model.decoding.options import Hypothesis
from model.decoding.repetition_guard import LOOP_REPEATS
from model.decoding.sentence import DecodingRequest, Finished
from model.errors import DecodingError
from model.network.heads import AttentionHead
from model.text.known_characters import KnownCharacters
from model.text.symbols import Span
from model.translation.confidence import Evidence
from model.translation.options import TranslationOptions
from model.translation.plan import Plan
from model.translation.results import AttendedSentence
from model.translator import Translator

GATE_S = 30.0
"""Maximal time a step waits for its gate, so that a test that never opens it fails instead of hanging."""

MANIFEST = Manifest(
    name="fake",
    pairs=(("en", "de"), ("de", "en")),
    architecture={"d_model": 8},
    precision="float32",
    max_source_tokens=200,
    max_target_tokens=200,
    licence="Apache-2.0",
)

SHAPED = replace(MANIFEST, architecture={"d_model": 64, "decoder_layers": 2, "target_vocab_size": 1000})
"""The manifest of a model whose memory can be computed."""


class FakeTokenizer:
    """Characters are tokens."""

    known_characters = KnownCharacters(map(chr, range(0x2500)), str)

    def encode(self, text: str, target: str, source: str) -> list[int]:
        return [2, *map(ord, text), 3]

    def encode_with_offsets(self, text: str, target: str, source: str) -> tuple[list[int], list[Span]]:
        spans = [(position, position + 1) for position in range(len(text))]
        return self.encode(text, target, source), [(0, 0), *spans, (len(text), len(text))]

    def forced_ids(self, target: str) -> tuple[int, ...]:
        return (ord(target[0]),)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids)).upper()

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        return self.decode(ids), [(position, position + 1) for position in range(len(ids))]


@dataclass
class Log:
    """Calls of the cohorts."""

    joins: list[int] = field(default_factory=list)
    forced_ids: list[tuple[int, ...]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)


class CohortOfRequests:
    """What cohorts of tests say about their sentences."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._requests: dict[int, DecodingRequest] = {}

    @property
    def num_sentences(self) -> int:
        return len(self._requests)

    @property
    def num_rows(self) -> int:
        return self.width * len(self._requests)

    @property
    def keys(self) -> list[int]:
        return list(self._requests)

    @property
    def longest_source(self) -> int:
        return max((len(request.source_ids) for request in self._requests.values()), default=0)


class FakeCohort(CohortOfRequests):
    def __init__(self, width: int, translator: FakeTranslator) -> None:
        super().__init__(width)
        self._translator = translator
        self._done: dict[int, int] = {}

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        self._translator.log.joins.append(len(requests))
        for request in requests:
            self._translator.log.forced_ids.append(request.forced_ids)
            self._requests[request.key] = request
            self._done[request.key] = 0
        return self._advance([request.key for request in requests])

    def step(self) -> list[Finished]:
        self._translator.stepping.set()
        self._translator.step_gate.wait(GATE_S)
        time.sleep(self._translator.step_s)
        self._translator.log.steps.append(self.num_sentences)
        return self._advance(list(self._requests))

    def leave(self, keys: Collection[int]) -> None:
        for key in keys:
            if self._requests.pop(key, None) is not None:
                self._translator.log.left.append(key)

    def _advance(self, keys: list[int]) -> list[Finished]:
        texts = {key: self._translator.text_of(self._requests[key]) for key in keys}
        if any("boom" in text for text in texts.values()):
            raise RuntimeError("a tensor of the wrong shape, and secret words")
        finished = []
        for key, text in texts.items():
            self._done[key] += 1
            if "loop" in text and self._requests[key].options.no_repeat_ngram_size:
                if self._translator.second == "never ends":
                    continue
                if self._translator.second == "fails":
                    finished.append(Finished(key, None, DecodingError("NaN")))
                    continue
            if "nan" in text:
                finished.append(Finished(key, None, DecodingError("NaN")))
            elif self._done[key] >= len(text):
                finished.append(Finished(key, self._answer(self._requests[key], text)))
        for outcome in finished:
            del self._requests[outcome.key]
        return finished

    def _answer(self, request: DecodingRequest, text: str) -> Hypothesis:
        score = -0.5 if request.options.return_scores else None
        if "loop" in text and not request.options.no_repeat_ngram_size:
            text = " ".join([text] * LOOP_REPEATS)
        ids = list(map(ord, text))
        others = tuple(Hypothesis(ids, score, "stop") for _ in range(request.options.num_hypotheses - 1))
        return Hypothesis(ids, score, "stop", others)


class FakeTranslator(Translator):
    """The real text pipeline around a cohort that needs no model.

    Args:
        step_s: Duration of a step, in seconds.
        manifest: The manifest of its bundle.
        sha256: Digest of its bundle.
    """

    tokenizer_type: type[FakeTokenizer] = FakeTokenizer

    def __init__(self, step_s: float = 0.0, manifest: Manifest = MANIFEST, sha256: str = "0" * 64) -> None:
        no_model: Any = object()
        tokenizer: Any = self.tokenizer_type()
        super().__init__(
            Bundle(LoadedNetwork(no_model), tokenizer, manifest, torch.device("cpu"), sha256), native=False
        )
        self.step_s = step_s
        self.step_gate = threading.Event()
        self.step_gate.set()
        self.stepping = threading.Event()  # set by the first step, before it waits for the gate
        self.log = Log()
        self.warmed_up: list[int] = []
        self.second: Literal["answers", "fails", "never ends"] = "answers"  # what a loop that is decoded again does

    def text_of(self, request: DecodingRequest) -> str:
        return "".join(map(chr, request.source_ids[1:-1]))

    def cohort(self, width: int) -> Any:
        return FakeCohort(width, self)

    def warm_up(self, widths: Sequence[int]) -> None:
        self.warmed_up = list(widths)

    def align(self, sentences: Sequence[AttendedSentence]) -> list[Tensor]:
        """Each character attends to the one it was made of, after the language marker."""
        return [torch.eye(len(sentence.source_ids))[1 : len(sentence.answer_ids) + 1] for sentence in sentences]

    def confidence(self, plan: Plan, begin: int = 0, end: int | None = None) -> list[Evidence]:
        """Each token has probability one half; the translation covers all source tokens but the letter z."""
        return [
            Evidence(
                torch.full((len(hypothesis.token_ids) + 1,), 0.5).log(),
                torch.tensor([-9.0 if token_id == ord("z") else 1.0 for token_id in sentence.token_ids]),
                len(sentence.token_ids),
                len(hypothesis.token_ids),
                (math.log(0.5),),
            )
            for sentence, hypothesis in zip(plan.sentences[begin:end], plan.hypotheses[begin:end], strict=True)
        ]

    def prepare_attention(self) -> None:
        """It needs nothing."""

    def attention(
        self,
        text: str,
        options: TranslationOptions = TranslationOptions(),  # noqa: B008
        source: str | None = None,
        target: str | None = None,
        target_text: str | None = None,
        steps: AttentionHead | None = None,
    ) -> Attention:
        if "boom" in text:
            raise RuntimeError("secret words")
        words = text.split()
        uniform = torch.full((1, 2, len(words), len(words)), 1.0 / len(words))
        result = None if steps is None else {"weights": uniform[0, steps.head]}
        return Attention(words, words, words, target_text or text.upper(), uniform, uniform, uniform, result)


def manifest_of(name: str, *pairs: str, languages: tuple[str, ...] = ()) -> Manifest:
    """A manifest with a name and pairs such as ``en-de``."""
    split = [pair.partition("-") for pair in pairs]
    return replace(MANIFEST, name=name, pairs=tuple((a, b) for a, _, b in split), languages=languages)


def held_translator(manifest: Manifest = MANIFEST) -> FakeTranslator:
    """A translator whose steps wait until its ``step_gate`` is set."""
    translator = FakeTranslator(manifest=manifest)
    translator.step_gate.clear()
    return translator


BUDGET: dict[str, Any] = {"max_batch_rows": 256, "max_batch_tokens": 16_384}
"""Settings that skip the probe, which would wait for the gate of a fake."""


NUM_BYTES = 10_000_000
"""The memory that the bundle of a fake states."""


class FakeBundles:
    """Bundles that need no file.

    Args:
        configured: Translators loaded at start, or functions that return them.
        files: Translators that may be loaded later, or functions that return them, by file.
    """

    def __init__(
        self,
        *configured: FakeTranslator | Callable[[], FakeTranslator],
        files: dict[str, FakeTranslator | Callable[[], FakeTranslator]] | None = None,
    ) -> None:
        self.configured = configured
        self.files = files or {}
        self.loads: list[tuple[str, str | None]] = []

    def load_configured(self) -> list[FakeTranslator]:
        return [_made(item) for item in self.configured]

    def describe_configured(self) -> list[StoredBundle]:
        return [StoredBundle(Path(file), _manifest(file, item), num_bytes=NUM_BYTES) for file, item in self._listed()]

    def describe(self, file: str, sha256: str | None) -> StoredBundle:
        if file not in self.files:
            raise BundleNotFound(file, list(self.files))
        return StoredBundle(Path(file), _manifest(file, self.files[file]), num_bytes=NUM_BYTES, sha256=sha256)

    def load(self, bundle: StoredBundle) -> FakeTranslator:
        file = str(bundle.path)
        self.loads.append((file, bundle.sha256))
        return _made({**dict(self._listed()), **self.files}[file])

    def _listed(self) -> list[tuple[str, FakeTranslator | Callable[[], FakeTranslator]]]:
        return [(f"configured-{number}.pt", item) for number, item in enumerate(self.configured)]


def _manifest(file: str, item: FakeTranslator | Callable[[], FakeTranslator]) -> Manifest:
    return item.manifest if isinstance(item, FakeTranslator) else manifest_of(file.removesuffix(".pt"), "fr-en")


def _made(item: FakeTranslator | Callable[[], FakeTranslator]) -> FakeTranslator:
    return item if isinstance(item, FakeTranslator) else item()


class WordDetector(LanguageDetector):
    """Detects languages by their article, among the requested ones.

    Args:
        codes: The codes of the possible languages of each word.
    """

    def __init__(self, codes: dict[str, tuple[str, ...]] | None = None) -> None:
        super().__init__()
        self.codes = codes or {"the": ("en",), "der": ("de",), "le": ("fr",)}

    def detect(self, texts: Sequence[str], languages: tuple[str, ...]) -> list[Detection | None]:
        return [self._detect_word(text.split()[0], languages) for text in texts]

    def _detect_word(self, word: str, languages: tuple[str, ...]) -> Detection | None:
        reference = tuple(code for code in self.codes.get(word, ()) if code in languages)
        return Detection(reference[0], 0.9, reference) if reference else None
