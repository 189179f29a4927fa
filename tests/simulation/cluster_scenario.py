"""What a seed draws for a cluster: requests to an ingress, and replicas that end, fall silent and come back."""

from __future__ import annotations

import random
from dataclasses import dataclass

from app.engine.caller import Caller, Priority
from app.engine.joining import Budget
from tests.simulation.scenario import Event, Request, Restart, Scenario, What, draw_fault
from tests.simulation.stand_in import BREAKS, FAILS

SLACK_S = 2.0
"""Seconds that a request may take besides its translation: the thread that detects languages is busy."""

MAX_DEADLINE_S = 30.0
"""The longest deadline of the service."""

MODELS = {"en": "apple", "fr": "berry"}
"""The models of each replica by source language; the target language is German."""

ARTICLES = {"en": "the", "fr": "le"}
"""The first word of a text, by which its language is detected."""


@dataclass(frozen=True)
class Translate(Request):
    """A request to the ingress.

    Args:
        caller: The caller.
        texts: The language of each text, and its sentences.
        source: The source language that is named, or ``auto``.
        beam_size: 1 for greedy search.
        streams: Whether the answer is streamed.
        waits: Whether it waits for models and room in the queue.
    """

    caller: Caller
    texts: tuple[tuple[str, tuple[str, ...]], ...]
    source: str
    beam_size: int
    streams: bool
    waits: bool

    @property
    def num_sentences(self) -> int:
        """Sentences of all texts."""
        return sum(len(sentences) for _, sentences in self.texts)

    @property
    def longest_s(self) -> float:
        """Seconds after which it must have ended."""
        num_parts = self.num_sentences + len(self.texts) + 1
        waits_s = MAX_DEADLINE_S if self.waits else 0.0  # until the ingress knows models
        return waits_s + self.deadline_s + num_parts * self.reads_s + SLACK_S


@dataclass(frozen=True)
class AtReplica:
    """An event of a replica.

    Args:
        place: The replica.
        what: A fault of its model, its :class:`Restart`, :class:`Silence` or :class:`Reset`.
    """

    place: int
    what: What


@dataclass(frozen=True)
class Silence:
    """The machine of a replica is unreachable for some time.

    Args:
        seconds: How long.
    """

    seconds: float


@dataclass(frozen=True)
class Reset:
    """A connection of a replica is reset."""


@dataclass(frozen=True)
class NotFound:
    """The next search for replicas fails."""


@dataclass(frozen=True)
class ClusterScenario(Scenario):
    """A scenario of an ingress and engine replicas.

    Args:
        num_replicas: Replicas.
        deadline_s: The service's deadline.
        max_flying_bytes: See :class:`tests.simulation.network.Network`.
    """

    num_replicas: int = 1
    deadline_s: float = 30.0
    max_flying_bytes: int = 65_536


_WORDS = ("cdefg", "fghij", "klmnop", "pqrstu", "vwxyz" * 3)


def draw_cluster(seed: int, num_requests: int = 14) -> ClusterScenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    num_replicas = rng.choice((1, 2, 2, 3))
    callers = [
        Caller(f"caller {number}", Priority.BULK if rng.random() < 0.3 else Priority.INTERACTIVE)
        for number in range(rng.randint(1, 4))
    ]
    sentences = [_sentence(rng) for _ in range(rng.choice((4, 40)))]
    if rng.random() < 0.2:
        sentences += [f"Ab {FAILS} cdefg.", f"Ab {BREAKS} cdefg."]
    deadline_s = rng.choice((0.3, 5.0, MAX_DEADLINE_S, MAX_DEADLINE_S))
    events: list[Event] = []
    time_s, pace_s = rng.choice((0.0, 1.2, 1.2, 1.2)), rng.choice((0.005, 0.1, 0.5))
    for number in range(num_requests):
        time_s += rng.expovariate(1 / pace_s)
        events.append(Event(time_s, _translate(rng, number, callers, sentences, deadline_s)))
    asked_at_s = [event.at_s for event in events]
    for what in _happenings(rng, num_replicas):
        events.append(Event(max(0.5, rng.choice(asked_at_s)) + rng.uniform(0.0, rng.choice((0.05, 0.3, 2.0))), what))
    return ClusterScenario(
        seed,
        Budget(max_tokens=rng.choice((100, 100_000)), max_rows=rng.choice((4, 64))),
        max_waiting=rng.choice((6, 100)),
        cache_bytes=rng.choice((0, 3_000, 100_000)),
        coalesce=rng.random() < 0.8,
        preempts=rng.choice((0.0, 0.05, 0.2)),
        step_s=rng.choice((0.003, 0.03)),
        row_s=0.0015,
        events=tuple(sorted(events, key=lambda event: event.at_s)),
        num_replicas=num_replicas,
        deadline_s=deadline_s,
        max_flying_bytes=rng.choice((200, 65_536)),
    )


def _happenings(rng: random.Random, num_replicas: int) -> list[What]:
    happenings: list[What] = []
    for _ in range(rng.choice((0, 1, 2, 2, 4, 8))):
        happenings.append(AtReplica(rng.randrange(num_replicas), _restart(rng)))
    for _ in range(rng.choice((0, 0, 1, 3))):
        happenings.append(AtReplica(rng.randrange(num_replicas), draw_fault(rng)))
    for _ in range(rng.choice((0, 0, 0, 2))):
        happenings.append(AtReplica(rng.randrange(num_replicas), Reset()))
    if rng.random() < 0.15:
        happenings.append(AtReplica(rng.randrange(num_replicas), Silence(rng.choice((0.5, 8.0, 60.0)))))
    if rng.random() < 0.2:
        happenings.append(NotFound())
    if rng.random() < 0.2:
        happenings.append(_restart(rng))  # of the ingress
    return happenings


def _restart(rng: random.Random) -> Restart:
    return Restart(rng.random() < 0.6, rng.choice((0.0, 0.5, 3.0)))


def _sentence(rng: random.Random) -> str:
    return " ".join(["Abcd", *(rng.choice(_WORDS) for _ in range(rng.randint(1, 4)))]) + "."


def _translate(
    rng: random.Random, number: int, callers: list[Caller], sentences: list[str], deadline_s: float
) -> Translate:
    source = rng.choice(("en", "en", "fr", "auto", "auto"))
    texts = []
    for _ in range(rng.choice((1, 2, 4))):
        language = rng.choice(tuple(MODELS)) if source == "auto" else source
        first, *others = (rng.choice(sentences) for _ in range(rng.choice((1, 1, 3))))
        texts.append((language, (f"{ARTICLES[language]} {first}", *others)))
    return Translate(
        number,
        deadline_s=min(deadline_s, rng.choice((1.0, MAX_DEADLINE_S, MAX_DEADLINE_S))),
        leaves_s=rng.choice((None, None, None, None, None, 0.0, 0.02, 0.3)),
        reads_s=rng.choice((0.0, 0.0, 0.05, 1.0)),
        num_retries=rng.choice((1, 2, 4)),
        caller=rng.choice(callers),
        texts=tuple(texts),
        source=source,
        beam_size=rng.choice((1, 1, 2, 4)),
        streams=rng.random() < 0.5,
        waits=rng.random() < 0.2,
    )
