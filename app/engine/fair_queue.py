"""The order of the queue: deficit round robin between callers, interactive ones before bulk.

Each caller has a queue of its own, ordered by position. Callers take turns. In its turn a caller may spend what it has
saved, its deficit, on sentences from the front of its queue. When the next sentence costs more than that, it gets a
``QUANTUM`` for its next turn, and the turn passes on (Shreedhar and Varghese 1996, doi:10.1109/90.502236). All waiting
callers therefore get the same amount of work done, whatever the number and the size of their sentences.

Interactive callers go before bulk callers. So that these do not starve, they are owed a ``BULK_SHARE`` of the work that
is done for interactive callers while they wait; when that is ``DEBT``, a sentence of a bulk caller goes first.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from app.engine.caller import Caller, Priority

QUANTUM = 16.0
"""What a caller saves for its next turn, in tokens (see ``QueuedSentence.cost``): a fraction of a typical sentence.

A caller with a single sentence loses what is left of its quantum. The quantum is so small that this does not matter:
each caller then gets the same work done while it waits. Finding a sentence takes some more turns, microseconds each.
"""

DEBT = 64.0
"""Work that bulk callers are owed before one of their sentences goes first, in tokens."""

BULK_SHARE = 1 / 16
"""Work of bulk callers for each unit of work of interactive callers, if both wait."""


class Choice(Enum):
    """What is done with a sentence that could begin now."""

    TAKE = auto()
    """It begins."""

    PASS_OVER = auto()
    """It waits for the next call."""

    PASS_OVER_REQUEST = auto()
    """It waits, and with it all sentences of its request."""

    PASS_OVER_CALLER = auto()
    """It waits, and with it all sentences of its caller."""

    STOP = auto()
    """It waits, and so do all behind it."""


class Waiting(Protocol):
    """What can be queued."""

    @property
    def key(self) -> int:
        """Unique in the queue."""
        ...

    @property
    def caller(self) -> Caller:
        """Whose queue it belongs to."""
        ...

    @property
    def owner(self) -> object:
        """The caller's request that it belongs to."""
        ...

    @property
    def cost(self) -> float:
        """Its work, in tokens."""
        ...


W = TypeVar("W", bound=Waiting)


@dataclass(eq=False)
class CallerQueue(Generic[W]):
    """The queue of one caller.

    Args:
        caller: The caller.
        entries: Position, key and sentence, ordered.
        num_of_owner: Number of entries by owner.
        cost: The sum of the costs.
        deficit: Work it may still get done in its turn.
        cursor: The index of the entry that is considered next; those before it cannot join now.
    """

    caller: Caller
    entries: list[tuple[float, int, W]] = field(default_factory=list)
    num_of_owner: Counter[object] = field(default_factory=Counter)
    cost: float = 0.0
    deficit: float = QUANTUM
    cursor: int = 0


class FairQueue(Generic[W]):
    """The queues of all callers."""

    def __init__(self) -> None:
        """Empty."""
        self._of_caller: dict[Caller, CallerQueue[W]] = {}
        self._of_key: dict[int, CallerQueue[W]] = {}
        self._rings: list[deque[CallerQueue[W]]] = [deque() for _ in Priority]  # by priority, in the order of turns
        self._num_waiting = [0 for _ in Priority]
        self._num_bulk = 0  # bulk callers that wait
        self._owed = 0.0  # work that bulk callers are owed; negative if they had more

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self._of_key)

    def __iter__(self) -> Iterator[W]:
        """All sentences, caller by caller, each caller's in order."""
        for queue in self._of_caller.values():
            for _, _, sentence in queue.entries:
                yield sentence

    def callers(self, priority: Priority) -> Collection[CallerQueue[W]]:
        """The queues of the callers that wait."""
        return self._rings[priority]

    def num_waiting(self, priority: Priority) -> int:
        """Sentences of the callers of a priority."""
        return self._num_waiting[priority]

    def queue_of(self, caller: Caller) -> CallerQueue[W] | None:
        """The queue of a caller; None if nothing of it waits."""
        return self._of_caller.get(caller)

    def num_ahead(self, caller: Caller, position: float) -> int:
        """Number of the caller's sentences with smaller positions."""
        queue = self._of_caller.get(caller)
        return 0 if queue is None else bisect.bisect_left(queue.entries, (position,))

    def add(self, position: float, sentence: W) -> None:
        """Insert a sentence into its caller's queue. A caller that had none waits for its turn behind all others."""
        queue = self._of_caller.get(sentence.caller)
        if queue is None:
            queue = self._of_caller[sentence.caller] = CallerQueue(sentence.caller)
            self._rings[sentence.caller.priority].append(queue)
            self._num_bulk += sentence.caller.priority is Priority.BULK
        bisect.insort(queue.entries, (position, sentence.key, sentence))
        queue.num_of_owner[sentence.owner] += 1
        queue.cost += sentence.cost
        self._of_key[sentence.key] = queue
        self._num_waiting[queue.caller.priority] += 1

    def places_of(self, keys: Collection[int]) -> dict[int, int]:
        """For each of the sentences that wait: how many of its caller's are ahead of it."""
        queues = {self._of_key[key]: None for key in keys if key in self._of_key}
        return {key: index for queue in queues for index, (_, key, _) in enumerate(queue.entries) if key in keys}

    def remove(self, keys: Collection[int]) -> list[W]:
        """Remove the sentences with these keys; returns those that were there."""
        queues = {self._of_key[key]: None for key in keys if key in self._of_key}
        removed: list[W] = []
        for queue in queues:
            gone = [sentence for _, key, sentence in queue.entries if key in keys]
            queue.entries = [entry for entry in queue.entries if entry[1] not in keys]
            for sentence in gone:
                self._forget(queue, sentence)
            if not queue.entries:
                self._drop(queue)
                self._rings[queue.caller.priority].remove(queue)
            removed += gone
        return removed

    def choose(self, decide: Callable[[W], Choice], is_over: Callable[[], bool] = lambda: False) -> list[W]:
        """Remove the sentences that begin now.

        A caller of which no sentence could begin is first in the next call.

        Args:
            decide: Called with one sentence after the other, in order.
            is_over: Whether no further sentence can begin; called before each one.
        """
        chosen: list[W] = []
        offered: list[CallerQueue[W]] = []
        aside: list[list[CallerQueue[W]]] = [[] for _ in Priority]  # queues without a further sentence to offer
        full: set[object] = set()  # requests whose sentences are all passed over
        while not is_over() and (queue := self._next(aside, full)) is not None:
            offered.append(queue)
            sentence = queue.entries[queue.cursor][2]
            choice = decide(sentence)
            if choice is Choice.STOP:
                break
            if choice is Choice.TAKE:
                chosen.append(sentence)
                self._take(queue, sentence)
            elif choice is Choice.PASS_OVER_REQUEST:
                full.add(sentence.owner)
            else:
                queue.cursor = len(queue.entries) if choice is Choice.PASS_OVER_CALLER else queue.cursor + 1
        for queue in offered:
            queue.cursor = 0
        for ring, queues in zip(self._rings, aside, strict=True):
            ring.extendleft(reversed(queues))
            for queue in queues:
                queue.cursor = 0
        return chosen

    def _next(self, aside: list[list[CallerQueue[W]]], full: set[object]) -> CallerQueue[W] | None:
        """Pass the turn on until a caller may spend what the sentence at its cursor costs; None if there is none."""
        num_rotated = 0
        while (ring := self._ring()) is not None:
            queue = ring[0]
            if full:
                _skip(queue, full)
            if queue.cursor >= len(queue.entries):
                aside[queue.caller.priority].append(ring.popleft())
                continue
            if queue.deficit >= queue.entries[queue.cursor][2].cost:
                return queue
            queue.deficit += QUANTUM
            ring.rotate(-1)
            num_rotated += 1
            if num_rotated == len(ring):
                _save(ring)
                num_rotated = 0
        return None

    def _ring(self) -> deque[CallerQueue[W]] | None:
        """The callers whose turn it is."""
        interactive, bulk = self._rings
        if bulk and (self._owed >= DEBT or not interactive):
            return bulk
        return interactive or None

    def _take(self, queue: CallerQueue[W], sentence: W) -> None:
        """Remove the sentence at the cursor of the queue that is first in its ring."""
        del queue.entries[queue.cursor]
        self._forget(queue, sentence)
        self._charge(queue, sentence.cost)
        if not queue.entries:
            self._rings[queue.caller.priority].popleft()
            self._drop(queue)

    def _forget(self, queue: CallerQueue[W], sentence: W) -> None:
        """Update what is counted when a sentence has left its queue."""
        del self._of_key[sentence.key]
        self._num_waiting[queue.caller.priority] -= 1
        queue.cost -= sentence.cost
        queue.num_of_owner[sentence.owner] -= 1
        if not queue.num_of_owner[sentence.owner]:
            del queue.num_of_owner[sentence.owner]

    def _drop(self, queue: CallerQueue[W]) -> None:
        """Forget an empty queue; a caller saves nothing while nothing of it waits."""
        del self._of_caller[queue.caller]
        self._num_bulk -= queue.caller.priority is Priority.BULK
        if not self._num_bulk:
            self._owed = 0.0

    def _charge(self, queue: CallerQueue[W], cost: float) -> None:
        queue.deficit -= cost
        if queue.caller.priority is Priority.INTERACTIVE and self._num_bulk:
            self._owed = min(2 * DEBT, self._owed + BULK_SHARE * cost)
        elif queue.caller.priority is Priority.BULK and self._owed >= DEBT:  # it went before interactive callers
            self._owed -= cost


def _skip(queue: CallerQueue[Any], full: set[object]) -> None:
    """Move the cursor past sentences whose request is passed over: one request may have thousands."""
    owners, entries = queue.num_of_owner, queue.entries
    if len(owners) <= len(full) and owners.keys() <= full:
        queue.cursor = len(entries)
    while queue.cursor < len(entries) and entries[queue.cursor][2].owner in full:
        queue.cursor += 1


def _save(ring: Iterable[CallerQueue[Any]]) -> None:
    """Let callers save as much as in the rounds of turns in which none of them could begin a sentence.

    Each caller could not just now. A sentence may cost hundreds of quanta: with many callers, rounds take milliseconds.
    """
    num_rounds = min(math.ceil((queue.entries[queue.cursor][2].cost - queue.deficit) / QUANTUM) for queue in ring)
    if num_rounds > 1:
        for queue in ring:
            queue.deficit += (num_rounds - 1) * QUANTUM
