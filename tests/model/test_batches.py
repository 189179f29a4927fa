"""Batches: complete, without repetitions, within their budget, and equal after an interruption."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from model.errors import ConfigError
from model.text.symbols import BACK_TRANSLATED
from model.text.tokenizer import END_ID, PAD_ID, START_ID
from model.text.tokenizer_training import learn_tokenizer
from model.training.augmentation import Augmentation
from model.training.batches import Batch, BatchMaker
from model.training.corpus import LoadedCorpus
from model.training.distributed import ALONE
from model.training.update_batches import Position, update_batches
from tests.model.vocabulary import SENTENCES, TOKENIZER

PAIRS = [(a, b) for a, b in zip(SENTENCES, reversed(SENTENCES), strict=True)] + [("cat " * 9, "Katze")]
BOTH = [("en", "de"), ("de", "en")]
Row = tuple[tuple[int, ...], tuple[int, ...]]


def maker(**changes: Any) -> BatchMaker:
    values: dict[str, Any] = {"batch_tokens": 80, "max_tokens": 20, "seed": 3, **changes}
    corpora, directions = values.pop("corpora", [LoadedCorpus(PAIRS)]), values.pop("directions", BOTH)
    return BatchMaker(corpora, ("en", "de"), directions, values.pop("tokenizer", TOKENIZER), **values)


def rows(batches: list[Batch]) -> Counter[Row]:
    """The number of occurrences of each source and target, without padding."""
    counter: Counter[Row] = Counter()
    for batch in batches:
        for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True):
            counter[tuple(i for i in source if i != PAD_ID), tuple(i for i in target if i != PAD_ID)] += 1
    return counter


def expected_rows(directions: list[tuple[str, str]]) -> Counter[Row]:
    expected: Counter[Row] = Counter()
    for english, german in PAIRS:
        for _, language in directions:
            source, target = (english, german) if language == "de" else (german, english)
            ids = (tuple(TOKENIZER.encode(source, language)), (START_ID, *TOKENIZER.encode_target(target)))
            if max(len(ids[0]), len(ids[1]) - 1) <= 20:
                expected[ids] += 1
    return expected


def same(first: list[Batch], other: list[Batch]) -> bool:
    return len(first) == len(other) and all(
        torch.equal(a.source, b.source) and torch.equal(a.target, b.target) for a, b in zip(first, other, strict=True)
    )


@pytest.mark.parametrize("directions", [BOTH, [("en", "de")], [("de", "en")]], ids=str)
def test_an_epoch_has_every_example_once(directions: list[tuple[str, str]]) -> None:
    batches = maker(directions=directions)
    expected = expected_rows(directions)
    assert rows(list(batches.epoch(0))) == rows(list(batches.epoch(1))) == expected
    assert batches.num_examples == sum(expected.values())
    assert batches.num_too_long == len(directions) * len(PAIRS) - batches.num_examples > 0


def test_a_weight_is_the_number_of_repetitions_in_an_epoch() -> None:
    often, seldom = LoadedCorpus(PAIRS, weight=2.5), LoadedCorpus([("rare", "selten")] * 400, weight=0.25)
    batches = BatchMaker(
        [often, seldom], ("en", "de"), [("en", "de")], TOKENIZER, batch_tokens=80, max_tokens=20, seed=3
    )
    counts = rows(list(batches.epoch(0)))
    rare = (tuple(TOKENIZER.encode("rare", "de")), (START_ID, *TOKENIZER.encode_target("selten")))
    assert 60 < counts.pop(rare) < 140
    assert set(counts.values()) == {2, 3}
    assert set(counts) == set(expected_rows([("en", "de")]))
    assert rows(list(batches.epoch(1))) != rows(list(batches.epoch(0))), "every epoch draws again"


def test_a_one_way_corpus_is_used_in_one_direction_only() -> None:
    one_way = LoadedCorpus(PAIRS, direction=("de", "en"))
    batches = maker(corpora=[one_way])
    assert rows(list(batches.epoch(0))) == expected_rows([("de", "en")])


@pytest.mark.parametrize("cut", [0.0, 1.0])
def test_tagged_sources_have_their_symbol_after_the_language_marker(cut: float) -> None:
    tokenizer = learn_tokenizer(SENTENCES, 350, ["de", "en"], reserve_symbols=True)
    tagged = LoadedCorpus(PAIRS, tag=BACK_TRANSLATED)
    batches = maker(corpora=[tagged], tokenizer=tokenizer, subword_sampling=cut)
    drawn = rows(list(batches.epoch(0)))
    assert drawn
    for source, target in drawn:
        assert tokenizer.pieces(source[:2]) in (["<2de>", "<bt>"], ["<2en>", "<bt>"])
        assert "<bt>" not in [*tokenizer.pieces(source[2:]), *tokenizer.target_pieces(target)]


def test_a_tag_needs_a_vocabulary_that_has_it() -> None:
    with pytest.raises(ConfigError, match=r"no symbol '<bt>'.*reserve_symbols"):
        BatchMaker(
            [LoadedCorpus(PAIRS, tag=BACK_TRANSLATED)],
            ("en", "de"),
            BOTH,
            TOKENIZER,
            batch_tokens=80,
            max_tokens=20,
            seed=3,
        )


def test_sentences_of_similar_length_are_batched_together() -> None:
    batches = list(maker(batch_tokens=400).epoch(0))
    real = sum(batch.num_target_tokens for batch in batches)
    padded = sum(batch.target[:, 1:].numel() for batch in batches)
    assert real / padded > 0.9


def test_padding_is_on_the_right_and_every_row_is_complete() -> None:
    for batch in maker().epoch(0):
        for row in (*batch.source.tolist(), *batch.target.tolist()):
            length = row.index(END_ID) + 1
            assert PAD_ID not in row[:length]
            assert set(row[length:]) <= {PAD_ID}
        assert (batch.target[:, 0] == START_ID).all()
        assert batch.num_target_tokens == int((batch.target[:, 1:] != PAD_ID).sum())


every_variety = pytest.mark.parametrize(
    "options",
    [
        {},
        {"subword_sampling": 0.5, "augmentation": Augmentation(lower=0.5)},
        {"augmentation": Augmentation(joined=0.5)},
    ],
    ids=["plain", "varied", "joined"],
)


@every_variety
@pytest.mark.parametrize("batch_tokens", [20, 33, 80, 100_000])
def test_no_batch_exceeds_its_budget(options: dict[str, Any], batch_tokens: int) -> None:
    for epoch in range(5):
        for batch in maker(batch_tokens=batch_tokens, **options).epoch(epoch):
            assert batch.source.size(0) * max(batch.source.size(1), batch.target.size(1) - 1) <= batch_tokens


@every_variety
@pytest.mark.parametrize("skip", [1, 3, 10_000])
def test_skipping_batches_does_not_change_later_ones(options: dict[str, Any], skip: int) -> None:
    full = list(maker(**options).epoch(2))
    assert same(list(maker(**options).epoch(2, skip=skip)), full[skip:])


@every_variety
@pytest.mark.parametrize("piece", [1, 7, 40])
def test_an_epoch_in_pieces_has_every_example_and_resumes_in_each(
    options: dict[str, Any], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.training.batches.PIECE", piece)
    batches = maker(**options)
    assert batches.num_pieces(1) == -(-batches.num_examples // piece)
    if not options:
        assert rows(list(batches.epoch(1))) == expected_rows(BOTH)
    updates = update_batches(batches, Position(epoch=1), 1, ALONE)
    full = [next(updates) for _ in range(batches.num_pieces(1) + 3)]
    for number, update in enumerate(full[:-1]):
        following = next(update_batches(maker(**options), update.position, 1, ALONE))
        assert following.position == full[number + 1].position
        assert following.epochs == full[number + 1].epochs
        assert same(following.batches, full[number + 1].batches)
    assert [update.epochs for update in full] == sorted({update.epochs for update in full})


@every_variety
def test_the_same_seed_gives_the_same_batches_and_another_does_not(options: dict[str, Any]) -> None:
    first = list(maker(**options).epoch(0))
    assert same(first, list(maker(**options).epoch(0)))
    assert not same(first, list(maker(**options).epoch(1)))
    assert not same(first, list(maker(seed=4, **options).epoch(0)))


def test_sampled_segmentation_changes_only_the_pieces_of_a_source() -> None:
    plain = rows(list(maker().epoch(0)))
    varied = rows(list(maker(subword_sampling=1.0).epoch(0)))
    assert varied != plain
    assert {TOKENIZER.decode(source) for source, _ in varied} == {TOKENIZER.decode(source) for source, _ in plain}
    assert Counter(target for _, target in varied) == Counter(target for _, target in plain)


def test_a_sampled_source_stays_complete_and_within_the_bound() -> None:
    # At this bound some sampled segmentations are too long, and are not used.
    batches = maker(subword_sampling=1.0, max_tokens=12)
    for source, _ in rows([batch for epoch in range(5) for batch in batches.epoch(epoch)]):
        assert len(source) <= 12
        assert source[-1] == END_ID


def test_augmentation_of_both_sides_changes_both() -> None:
    shouted = rows(list(maker(augmentation=Augmentation(upper=1), max_tokens=60).epoch(0)))
    texts = {tuple(TOKENIZER.decode(side) for side in row) for row in shouted}
    expected = {(a.upper().strip(), b.upper().strip()) for pair in PAIRS for a, b in (pair, pair[::-1])}
    assert texts == expected


def test_joined_sentences_are_longer_fewer_and_one_directional() -> None:
    pairs = [(sentence.lower(), sentence.upper()) for sentence in SENTENCES]

    def of(share: float) -> Counter[Row]:
        bends = Augmentation(joined=share)
        return rows(
            list(
                BatchMaker(
                    [LoadedCorpus(pairs)],
                    ("en", "de"),
                    BOTH,
                    TOKENIZER,
                    batch_tokens=600,
                    max_tokens=90,
                    seed=3,
                    augmentation=bends,
                ).epoch(0)
            )
        )

    merged = of(1.0)
    assert merged.total() < 0.7 * of(0.0).total()
    to_german = TOKENIZER.encode("", "de")[0]
    counter: Counter[str] = Counter()
    for source, target in merged.elements():
        assert max(len(source), len(target) - 1) <= 90
        assert source.count(END_ID) == target.count(END_ID) == 1
        words = [[word.strip(",.") for word in TOKENIZER.decode(side).split()] for side in (source, target)]
        # Each sentence is followed by the next one, on both sides in the same order, in the direction of the row.
        assert words[1] == [word.upper() if source[0] == to_german else word.lower() for word in words[0]]
        assert all(word.isupper() == (source[0] != to_german) for word in words[0])
        counter.update(words[0])
    assert counter == Counter(word.strip(".") for pair in pairs for side in pair for word in side.split())
