"""Token ids kept from one start of a run to the next: the same as made again, and made again if anything differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.text.tokenizer import VersoTokenizer
from model.text.tokenizer_training import learn_tokenizer
from model.training.controlled_pairs import ControlledPairs
from model.training.controls import Controls
from model.training.corpus import LoadedCorpus
from model.training.examples import Examples
from model.training.word_lexicon import WordLexicon
from tests.model.vocabulary import SENTENCES, TOKENIZER

PAIRS = [*zip(SENTENCES, reversed(SENTENCES), strict=True), ("You see.", "Du siehst."), ("cat " * 9, "Katze")]
BOTH = [("en", "de"), ("de", "en")]


def examples(folder: Path | None, tokenizer: VersoTokenizer = TOKENIZER, **changes: Any) -> Examples:
    corpora = changes.pop("corpora", [LoadedCorpus(PAIRS), LoadedCorpus(PAIRS[:3], direction=("en", "de"), weight=2)])
    values: dict[str, Any] = {"max_tokens": 20, **changes}
    return Examples(corpora, ("en", "de"), BOTH, tokenizer, kept_in=folder, **values)


def contents(stored: Examples) -> list[Any]:
    return [
        (
            stored.text(index),
            *(side.tolist() for side in stored.ids(index)),
            stored.address(index),
            stored.weights[index],
        )
        for index in range(len(stored))
    ]


def no_encoding(self: VersoTokenizer, *args: object) -> list[int]:
    raise AssertionError("encoded again")


def test_kept_ids_are_read_and_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lexicon = WordLexicon.learn(PAIRS)
    controlled = ControlledPairs(Controls(formality=0.5), lexicon, ("en", "de"))
    expected = examples(None, controlled=controlled)
    assert any(expected.has_address)
    examples(tmp_path, controlled=controlled)
    monkeypatch.setattr(VersoTokenizer, "encode", no_encoding)
    actual = examples(tmp_path, controlled=controlled)
    assert contents(actual) == contents(expected)
    assert actual.num_too_long == expected.num_too_long > 0
    np.testing.assert_array_equal(actual.lengths, expected.lengths)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_tokens": 30},
        {"tokenizer": learn_tokenizer(SENTENCES, 292, ["de", "en"])},
        {"corpora": [LoadedCorpus(PAIRS[1:])]},
    ],
    ids=["bound", "vocabulary", "text"],
)
def test_ids_are_made_again_after_a_change_and_the_old_ones_removed(tmp_path: Path, changes: dict[str, Any]) -> None:
    examples(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    assert contents(examples(tmp_path, **changes)) == contents(examples(None, **changes))
    assert before.isdisjoint(path.name for path in tmp_path.iterdir())


def test_weights_may_change_without_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples(tmp_path, corpora=[LoadedCorpus(PAIRS)])
    monkeypatch.setattr(VersoTokenizer, "encode", no_encoding)
    assert set(examples(tmp_path, corpora=[LoadedCorpus(PAIRS, weight=0.5)]).weights) == {0.5}


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    examples(tmp_path)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    assert contents(examples(tmp_path)) == contents(examples(None))
