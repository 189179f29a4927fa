"""A cohort that decodes on the engine's thread, with the sentences in it. Exceptions of its model end here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.engine.scheduler import BatchKey, Load, QueuedSentence

if TYPE_CHECKING:
    from model.decoding.cohort import Cohort
    from model.decoding.sentence import Finished
    from model.translator import Translator

logger = logging.getLogger("app.engine")


@dataclass(eq=False)
class RunningCohort:
    """A cohort of a model and the sentences in it.

    After a method has reported a failure, the cohort's tensors cannot be trusted any more: :meth:`release` it.

    Args:
        model: The model.
        cohort: The cohort.
        may_join: Whether other sentences may join; False for a sentence that starts again alone after a failure.
        sentences: Those in the cohort, by key.
    """

    model: Translator
    cohort: Cohort
    may_join: bool = True
    sentences: dict[int, QueuedSentence] = field(default_factory=dict)

    @classmethod
    def open(cls, first: QueuedSentence, *, may_join: bool) -> RunningCohort | None:
        """A cohort for a sentence to join, or None if its model cannot make one, for want of memory perhaps."""
        try:
            return cls(first.model, first.model.cohort(first.width), may_join)
        except Exception:
            logger.exception("a cohort could not be made", extra={"fields": {"width": first.width}})
            return None

    @property
    def batch(self) -> BatchKey:
        """What can decode in it."""
        return self.model, self.cohort.width

    def load(self) -> Load:
        """How much decodes in it."""
        return Load(
            self.cohort.num_sentences,
            self.cohort.num_rows,
            self.cohort.longest_source,
            max((sentence.longest_target for sentence in self.sentences.values()), default=0),
        )

    def join(self, joining: Sequence[QueuedSentence]) -> list[Finished] | None:
        """Take sentences in.

        Returns:
            Those that are finished already, or None after a failure.
        """
        self.sentences.update((sentence.key, sentence) for sentence in joining)
        try:
            return self.cohort.join([sentence.request for sentence in joining])
        except Exception:
            logger.exception("joining failed", extra={"fields": {"sentences": len(joining)}})
        return None

    def step(self) -> list[Finished] | None:
        """Go at least one token further.

        Returns:
            Sentences that finished, or None after a failure.
        """
        num_rows = self.cohort.num_rows
        try:
            return self.cohort.step()
        except Exception:
            logger.exception("a step failed", extra={"fields": {"rows": num_rows}})
        return None

    def leave(self, keys: set[int]) -> bool:
        """Drop sentences.

        Returns:
            False after a failure.
        """
        try:
            self.cohort.leave(keys)
        except Exception:
            logger.exception("leaving failed", extra={"fields": {"sentences": len(keys)}})
            return False
        for key in keys:
            del self.sentences[key]
        return True

    def release(self) -> None:
        """Let go of sentences and tensors, whose memory is needed now, although others still hold this object."""
        self.sentences = {}
        del self.cohort
