"""The candidates of a search as they are shown: with their tokens as text, and what each adds to the translation."""

from __future__ import annotations

from dataclasses import dataclass

from model.decoding.options import Search
from model.translation.reading import SourceSentence
from model.translation.writing import SentenceWriter


@dataclass(frozen=True)
class WrittenCandidate:
    """One more token for a hypothesis, which a step of a search considered.

    Args:
        id: Its number, counted from 1 over all steps.
        parent: The number of the candidate it continues; 0 for the beginning.
        token: The token as text; the first piece of a word starts with U+2581.
        text: What it adds to the translation; a space stands before a word that is not the first one. Empty for the
            end token, and for a token that is only a part of a character.
        log_prob: Sum of the log-probabilities of its tokens, this one included.
        kept: Whether the search went on with it, or it ended among the best.
        finished: Whether the translation ends with it.
    """

    id: int
    parent: int
    token: str
    text: str
    log_prob: float
    kept: bool
    finished: bool


WrittenSearch = tuple[tuple[WrittenCandidate, ...], ...]
"""The candidates of each step, those of a step best first."""


def written_search(search: Search, sentence: SourceSentence, writer: SentenceWriter) -> WrittenSearch:
    """The candidates of a search with their texts.

    Args:
        search: The search.
        sentence: The sentence that was translated.
        writer: Writes its translation.
    """
    beginning = list(sentence.prefix_ids)
    tokens = {0: beginning}
    texts = {0: writer.write_beginning(sentence, beginning)}
    steps: list[tuple[WrittenCandidate, ...]] = []
    for step in search:
        written: list[WrittenCandidate] = []
        for one in step:
            before = texts[one.parent]
            ends = one.token_id == writer.tokenizer.end_id
            tokens[one.id] = tokens[one.parent] if ends else [*tokens[one.parent], one.token_id]
            texts[one.id] = before if ends else writer.write_beginning(sentence, tokens[one.id])
            (token,) = writer.tokenizer.target_pieces([one.token_id])
            text = texts[one.id].removeprefix(before) if texts[one.id].startswith(before) else ""
            written.append(WrittenCandidate(one.id, one.parent, token, text, one.log_prob, one.kept, one.finished))
        steps.append(tuple(written))
    return tuple(steps)
