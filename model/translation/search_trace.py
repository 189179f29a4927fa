"""The candidates of a search as text: their tokens, and the characters that each adds to the translation."""

from __future__ import annotations

from dataclasses import dataclass

from model.decoding.options import SearchTrace
from model.translation.reading import SourceSentence
from model.translation.writing import SentenceWriter


@dataclass(frozen=True)
class WrittenCandidate:
    """One more token for a hypothesis, which a step of a search considered.

    Args:
        id: Its number, counted from 1 over all steps.
        parent: The number of the candidate it continues; 0 for the beginning.
        token: The token as text; the first piece of a word starts with U+2581.
        text: The characters that it adds to the translation; a space precedes each word but the first. Empty for the
            end token, and for a token that is only part of a character.
        log_prob: Sum of the log-probabilities of its tokens, this one included.
        kept: Whether the search continued with it, or it ended among the best.
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


def written_search(search: SearchTrace, sentence: SourceSentence, writer: SentenceWriter) -> WrittenSearch:
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
        for candidate in step:
            key, parent, token_id = candidate.id, candidate.parent, candidate.token_id
            ends = token_id == writer.tokenizer.end_id
            tokens[key] = tokens[parent] if ends else [*tokens[parent], token_id]
            texts[key] = texts[parent] if ends else writer.write_beginning(sentence, tokens[key])
            (token,) = writer.tokenizer.target_pieces([token_id])
            text = texts[key].removeprefix(texts[parent]) if texts[key].startswith(texts[parent]) else ""
            written.append(
                WrittenCandidate(key, parent, token, text, candidate.log_prob, candidate.kept, candidate.finished)
            )
        steps.append(tuple(written))
    return tuple(steps)
