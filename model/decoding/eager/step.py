"""The input and the result of a search's choice of next tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from model.decoding.sentence import Finished, Sentence


@dataclass(frozen=True)
class Past:
    """The tokens that led to a step's logits.

    Args:
        sentences: The sentences whose next tokens are chosen, N.
        starts: The column of each sentence's start token, N.
        history: Input tokens by column, (N, rows, columns).
        columns: Columns in use.
    """

    sentences: Sequence[Sentence]
    starts: Sequence[int]
    history: Tensor
    columns: int

    def num_generated(self, index: int) -> int:
        """Tokens chosen so far for sentence ``index``, before this choice."""
        return self.columns - self.starts[index] - 1 - self.sentences[index].num_given

    def is_last(self, index: int) -> bool:
        """Whether the token chosen now is the last that sentence ``index`` may have."""
        return self.num_generated(index) + 1 == self.sentences[index].max_new_tokens

    def num_left(self, index: int) -> int:
        """Tokens that a hypothesis of sentence ``index`` can still take, this one included.

        A closing token that is forced takes the last position.
        """
        sentence = self.sentences[index]
        return sentence.max_new_tokens - self.num_generated(index) - int(sentence.rule.force_end)

    def tokens(self, index: int, row: int) -> list[int]:
        """The answer so far of one row of sentence ``index``: its prefix and the tokens chosen."""
        first = self.starts[index] + 1 + self.sentences[index].num_forced
        return list(self.history[index, row, first : self.columns].tolist())


@dataclass(frozen=True)
class Choice:
    """The choice of a step.

    Args:
        tokens: The next input token of every row, (N, K).
        parents: The row, within its sentence, each row continues, (N, K); None if each continues itself.
        finished: Sentences that are finished, by their index.
    """

    tokens: Tensor
    parents: Tensor | None
    finished: dict[int, Finished]
