"""A cohort on the engine's thread with its sentences. Exceptions of the model are caught here.

Only :class:`app.engine.calls.DeviceLost` is raised instead, by each method that runs the model.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.engine.calls import raise_if_lost
from app.engine.joining import Load
from app.engine.queued_sentence import BatchKey, QueuedSentence
from model.process.memory import is_out_of_memory

if TYPE_CHECKING:
    from model.decoding.cohort import Cohort
    from model.decoding.sentence import Finished
    from model.translator import Translator

logger = logging.getLogger("app.engine")


@dataclass(eq=False)
class RunningCohort:
    """A cohort of a model and its sentences.

    After a method reports a failure, the state of the cohort is undefined: call :meth:`release`.

    Args:
        model: The model.
        cohort: The cohort.
        may_join: Whether other sentences may join; False for a sentence that is decoded again alone after a failure.
        sentences: The sentences in the cohort, by key.
        is_out_of_memory: Whether it failed for lack of memory.
    """

    model: Translator
    cohort: Cohort
    may_join: bool = True
    sentences: dict[int, QueuedSentence] = field(default_factory=dict)
    is_out_of_memory: bool = False

    @classmethod
    def open(cls, first: QueuedSentence, *, may_join: bool) -> RunningCohort | None:
        """Make a cohort for a sentence; None if the model fails to make it, for example for lack of memory."""
        try:
            return cls(first.model, first.model.cohort(first.width), may_join)
        except Exception as error:
            raise_if_lost(error)
            logger.exception("a cohort could not be made", extra={"fields": {"width": first.width}})
            return None

    @property
    def batch(self) -> BatchKey:
        """The model and the beam width that its sentences share."""
        return self.model, self.width

    @property
    def width(self) -> int:
        """The rows of each of its sentences."""
        return self.cohort.width

    @property
    def num_tokens(self) -> int:
        """Source tokens, or possible target tokens if these are more, with padding."""
        sentences = self.sentences.values()
        num_rows = sum(sentence.width for sentence in sentences)
        return max(
            len(sentences) * max((sentence.num_source_tokens for sentence in sentences), default=0),
            num_rows * max((sentence.longest_target for sentence in sentences), default=0),
        )

    def load(self) -> Load:
        """Its load."""
        return Load(
            self.cohort.num_sentences,
            self.cohort.num_rows,
            self.cohort.longest_source,
            max((sentence.longest_target for sentence in self.sentences.values()), default=0),
        )

    def join(self, joining: Sequence[QueuedSentence]) -> list[Finished] | None:
        """Add sentences.

        Returns:
            Sentences that have already finished, or None after a failure.
        """
        self.sentences.update((sentence.key, sentence) for sentence in joining)
        try:
            return self.cohort.join([sentence.request for sentence in joining])
        except Exception as error:
            self._note(error)
            logger.exception("joining failed", extra={"fields": {"sentences": len(joining)}})
        return None

    def step(self) -> list[Finished] | None:
        """Decode at least one token of each sentence.

        Returns:
            Sentences that have finished, or None after a failure.
        """
        num_rows = self.cohort.num_rows
        try:
            return self.cohort.step()
        except Exception as error:
            self._note(error)
            logger.exception("a step failed", extra={"fields": {"rows": num_rows}})
        return None

    def leave(self, keys: set[int]) -> bool:
        """Remove sentences.

        Returns:
            False after a failure.
        """
        try:
            self.cohort.leave(keys)
        except Exception as error:
            self._note(error)
            logger.exception("leaving failed", extra={"fields": {"sentences": len(keys)}})
            return False
        for key in keys:
            del self.sentences[key]
        return True

    def _note(self, error: Exception) -> None:
        raise_if_lost(error)
        self.is_out_of_memory = is_out_of_memory(error)

    def free_memory(self) -> None:
        """After a lack of memory, free what the model keeps for speed alone."""
        try:
            self.model.free_memory()
        except Exception as error:
            raise_if_lost(error)
            logger.exception("memory could not be freed")

    def release(self) -> None:
        """Release the sentences and tensors, whose memory is needed, even if this object is still referenced."""
        self.sentences = {}
        del self.cohort
