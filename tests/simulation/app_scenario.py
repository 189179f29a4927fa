"""What a seed draws for the whole application: requests with keys, models that come and go, a disk that fails."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.engine.caller import Priority
from app.engine.joining import Budget
from tests.simulation.scenario import Event, Jump, Request, Restart, Scenario, draw_fault
from tests.simulation.stand_in import BREAKS, FAILS

SLACK_S = 2.0
"""Seconds that a request may take besides its translation: the threads of the pools are busy."""

MODELS = {"apple": ("en-de",), "berry": ("fr-en",), "cherry": ("en-de",), "damson": ("de-en", "en-fr")}
"""The models with their pairs; the first ones are configured, and the last one may be loaded later."""

CONFIGURED = ("apple", "berry", "cherry")

PAIRS = ("en-de", "en-de", "en-de", "fr-en", "fr-de", "de-en")
"""Pairs of requests: that from French to German needs two models."""


@dataclass(frozen=True)
class KeyLimits:
    """The limits of a key, as in :class:`app.accounts.keys.Key`."""

    characters_per_month: int | None = None
    requests_per_minute: int | None = None
    concurrent_sentences: int | None = None
    expires_s: float | None = None
    priority: Priority = Priority.INTERACTIVE


KEYS = (
    KeyLimits(),
    KeyLimits(characters_per_month=120),
    KeyLimits(concurrent_sentences=3),
    KeyLimits(requests_per_minute=10),
    KeyLimits(priority=Priority.BULK),
    KeyLimits(expires_s=1.0),
)

NO_KEY = -1


@dataclass(frozen=True)
class Post(Request):
    """``POST /translate``.

    Args:
        texts: Each text with its sentences.
        pair: The languages.
        key: The index of the key, or :data:`NO_KEY`.
        is_idempotent: Whether the client sends an ``Idempotency-Key``.
        streams: Whether the answer is streamed.
        beam_size: 1 for greedy search.
    """

    texts: tuple[tuple[str, ...], ...]
    pair: str
    key: int
    is_idempotent: bool
    streams: bool
    beam_size: int

    @property
    def num_characters(self) -> int:
        """Characters of the texts."""
        return sum(len(" ".join(sentences)) for sentences in self.texts)

    @property
    def loses_answer(self) -> bool:
        """See :class:`tests.simulation.scenario.Request`."""
        return self.is_idempotent and self.number % 2 == 0

    @property
    def longest_s(self) -> float:
        """Seconds after which it must have ended."""
        num_parts = sum(len(sentences) + 1 for sentences in self.texts) + 3  # an error, the summary and the end
        return self.deadline_s + num_parts * self.reads_s + SLACK_S


@dataclass(frozen=True)
class Load:
    """The operator loads a model."""

    name: str


@dataclass(frozen=True)
class Unload:
    """The operator unloads a model."""

    name: str


@dataclass(frozen=True)
class Revoke:
    """The operator revokes a key."""

    key: int


@dataclass(frozen=True)
class DiskFault:
    """A write of the usage store fails.

    Args:
        method: The method of the store.
        after_commit: Whether the transaction was committed before.
    """

    method: Literal["settle_all", "reserve", "release"]
    after_commit: bool


@dataclass(frozen=True)
class LoadFault:
    """The next bundle cannot be loaded."""


@dataclass(frozen=True)
class AppScenario(Scenario):
    """A scenario of the application.

    Args:
        deadline_s: The service's deadline.
        max_models: The models that fit into memory at the same time; None if all stay there.
    """

    deadline_s: float = 30.0
    max_models: int | None = None


@dataclass(frozen=True)
class Upload(Request):
    """``POST /documents``, with a ``.txt`` file from English to German, and what its client does then.

    Args:
        paragraphs: Each paragraph with its sentences.
        key: The index of the key.
        is_idempotent: Whether the client sends an ``Idempotency-Key``.
        looks_s: Seconds between two looks at its status.
        then: Whether the client keeps the document, deletes it when it is done, or cancels it before.
    """

    paragraphs: tuple[tuple[str, ...], ...]
    key: int
    is_idempotent: bool
    looks_s: float
    then: Literal["keep", "delete", "cancel"]

    @property
    def num_characters(self) -> int:
        """Characters of the texts."""
        return sum(len(" ".join(sentences)) for sentences in self.paragraphs)

    @property
    def longest_s(self) -> float:
        """Seconds after which it must have been accepted or refused: its file is read one after another."""
        return self.deadline_s + 10.0


@dataclass(frozen=True)
class DocumentFault:
    """A call of the document store fails.

    Args:
        method: The method of the store.
        after: Whether it has acted before.
    """

    method: str
    after: bool


@dataclass(frozen=True)
class FileFault:
    """The process that reads or writes the next file dies, or none can be started."""

    kind: Literal["dies", "no process"]


_WORDS = ("cdefg", "fghij", "klmnop", "pqrstu", "vwxyz")


def draw_app(seed: int, num_requests: int = 12) -> AppScenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    sentences = [_sentence(rng) for _ in range(rng.choice((4, 30)))]
    if rng.random() < 0.2:
        sentences += [f"Ab {FAILS} cdefg.", f"Ab {BREAKS} cdefg."]
    deadline_s = rng.choice((0.3, 5.0, 30.0))
    all_keys = (NO_KEY, *range(len(KEYS)), 0, 1, 2)
    keys = (rng.randrange(len(KEYS)),) if rng.random() < 0.3 else all_keys
    events: list[Event] = []
    time_s, pace_s = rng.choice((0.0, 0.5, 0.5)), rng.choice((0.005, 0.1, 1.0))
    for number in range(num_requests):
        time_s += rng.expovariate(1 / pace_s)
        events.append(Event(time_s, _post(rng, number, sentences, deadline_s, keys)))
    for what in _happenings(rng):
        events.append(Event(rng.uniform(0.3, 1.1 * time_s), what))
    if rng.random() < 0.4:
        whats = _documents(rng, num_requests, sentences, deadline_s)
        events += [Event(rng.uniform(0.0, time_s), what) for what in whats]
    return AppScenario(
        seed,
        Budget(max_tokens=rng.choice((100, 100_000)), max_rows=rng.choice((4, 64))),
        max_waiting=rng.choice((6, 100)),
        cache_bytes=rng.choice((0, 3_000, 100_000)),
        coalesce=rng.random() < 0.8,
        preempts=rng.choice((0.0, 0.05, 0.2)),
        step_s=rng.choice((0.003, 0.03)),
        row_s=0.0015,
        events=tuple(sorted(events, key=lambda event: event.at_s)),
        deadline_s=deadline_s,
        max_models=rng.choice((None, None, 2)),
    )


def _happenings(rng: random.Random) -> list[object]:
    happenings: list[object] = [draw_fault(rng) for _ in range(rng.choice((0, 0, 1, 4)))]
    for _ in range(rng.choice((0, 0, 1, 2))):
        happenings.append(_restart(rng, 0.6, rng.choice((0.0, 0.5))))
    if rng.random() < 0.4:
        happenings += [Unload(rng.choice(CONFIGURED)), Load(rng.choice(tuple(MODELS)))]
    if rng.random() < 0.2:
        happenings.append(Load("damson"))
    if rng.random() < 0.2:
        happenings.append(LoadFault())
    if rng.random() < 0.2:
        happenings.append(Revoke(rng.randrange(len(KEYS))))
    for _ in range(rng.choice((0, 0, 2))):
        method: Literal["settle_all", "reserve", "release"] = rng.choice(("settle_all", "reserve", "release"))
        happenings.append(DiskFault(method, rng.random() < 0.5))
    if rng.random() < 0.1:
        happenings.append(Jump(rng.choice((0.5, 20.0))))
    return happenings


def _restart(rng: random.Random, kills: float, down_s: float) -> Restart:
    """A restart that is a kill with some probability, and a power cut with half of it."""
    share = rng.random()
    return Restart(share < kills, down_s, cuts_power=share < kills / 2)


def _documents(rng: random.Random, first: int, sentences: list[str], deadline_s: float) -> list[object]:
    """Documents, and faults of their store and files."""
    whats: list[object] = []
    for number in range(first, first + rng.choice((1, 1, 2, 4))):
        upload = Upload(
            number,
            deadline_s=deadline_s,
            leaves_s=rng.choice((None, None, None, 0.01, 0.3)),
            reads_s=0.0,
            num_retries=rng.choice((2, 4)),
            paragraphs=tuple(
                tuple(rng.choice(sentences) for _ in range(rng.choice((1, 1, 2))))
                # A unit that cannot meet the deadline is tried for up to a minute.
                for _ in range(rng.choice((1, 3, 24 if deadline_s >= 1.0 else 4)))
            ),
            key=rng.choice((0, 0, 2, 4, 4, 5)),
            is_idempotent=rng.random() < 0.4,
            looks_s=rng.choice((0.05, 0.4)),
            then=rng.choice(("keep", "delete", "cancel")),
        )
        whats.append(upload)
    for _ in range(rng.choice((0, 0, 1, 3))):
        whats.append(DocumentFault(rng.choice(_STORE_METHODS), rng.random() < 0.5))
    if rng.random() < 0.2:
        whats.append(FileFault(rng.choice(("dies", "no process"))))
    if rng.random() < 0.4:
        whats.append(_restart(rng, 0.7, 0.0))
    return whats


_STORE_METHODS = ("add", "add_translations", "finish", "end", "remove", "begin", "mark", "unmark", "get")


def _sentence(rng: random.Random) -> str:
    return " ".join(["Abcd", *(rng.choice(_WORDS) for _ in range(rng.randint(1, 4)))]) + "."


def _post(rng: random.Random, number: int, sentences: list[str], deadline_s: float, keys: Sequence[int]) -> Post:
    num_texts = rng.choice((1, 1, 2))
    return Post(
        number,
        deadline_s=deadline_s,
        leaves_s=rng.choice((None, None, None, 0.0, 0.02, 0.3)),
        reads_s=rng.choice((0.0, 0.0, 0.05, 2.0)),
        num_retries=rng.choice((0, 2, 4)),
        texts=tuple(tuple(rng.choice(sentences) for _ in range(rng.choice((1, 1, 3)))) for _ in range(num_texts)),
        pair=rng.choice(PAIRS),
        key=rng.choice(keys),
        is_idempotent=rng.random() < 0.4,
        streams=rng.random() < 0.3,
        beam_size=rng.choice((1, 1, 2, 4)),
    )
