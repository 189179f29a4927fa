"""The other scoring rules: CTranslate2's compared with CTranslate2, Marian's and Wu's with reference searches."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from model.decoding.options import Scoring
from model.importing.importer import import_checkpoint
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.importing.checkpoints import make_marian, quiet, random_sources
from tests.model.tiny import VOCABULARY, decode, log_probs, tiny_transformer
from tests.model.tiny import random_sources as tiny_sources


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Translator, Callable[..., list[list[tuple[list[int], float]]]]]:
    """The same checkpoint imported, and its outputs in CTranslate2."""
    folder = tmp_path_factory.mktemp("ct2")
    make_marian(folder / "hf")
    with quiet():
        import ctranslate2

        ctranslate2.converters.TransformersConverter(str(folder / "hf")).convert(str(folder / "ct2"))
    import_checkpoint(folder / "hf", folder / "bundle.verso", "float32", report=lambda line: None)
    engine = ctranslate2.Translator(str(folder / "ct2"), compute_type="float32", inter_threads=1, intra_threads=1)
    ids = json.loads((folder / "hf" / "vocab.json").read_text())
    pieces = {number: piece for piece, number in ids.items()}

    def answers(sources: list[list[int]], **options: object) -> list[list[tuple[list[int], float]]]:
        results = engine.translate_batch(
            [[pieces[token] for token in source] for source in sources],
            return_scores=True,
            max_decoding_length=13,
            min_decoding_length=0,
            **options,
        )
        return [
            [([ids[piece] for piece in tokens], score) for tokens, score in zip(r.hypotheses, r.scores, strict=True)]
            for r in results
        ]

    return Translator.load(folder / "bundle.verso"), answers


@pytest.mark.parametrize(
    ("beam_size", "num_hypotheses", "length_penalty"),
    [(1, 1, 1.0), (4, 4, 1.0), (4, 4, 0.6), (4, 4, 0.0), (4, 1, 0.0), (6, 2, 0.0), (6, 3, 1.5)],
)
def test_ct2_answers_and_scores_are_those_of_ctranslate2(
    both: tuple[Translator, Callable[..., list[list[tuple[list[int], float]]]]],
    beam_size: int,
    num_hypotheses: int,
    length_penalty: float,
) -> None:
    ours, theirs = both
    sources = random_sources(300, ours.manifest.architecture["source_vocab_size"], 0)
    options = TranslationOptions(
        decoding="greedy" if beam_size == 1 else "beam",
        beam_size=beam_size,
        num_hypotheses=num_hypotheses,
        length_penalty=length_penalty,
        scoring="ct2",
        max_new_tokens=13,
        return_scores=True,
    )
    expected = theirs(sources, beam_size=beam_size, num_hypotheses=num_hypotheses, length_penalty=length_penalty)
    ties = 0
    for best, answers in zip(ours.translate_tokens(sources, options), expected, strict=True):
        for actual, (tokens, score) in zip((best, *best.alternatives), answers, strict=True):
            assert actual.score == pytest.approx(score, abs=1e-4)
            ties += actual.token_ids != tokens
    assert ties <= 2


def reference_search(
    source: list[int], scoring: Scoring, width: int, penalty: float, longest: int
) -> list[tuple[float, list[int]]]:
    """A reference search with Marian's and Wu's rules over Python lists, without a cache."""
    transformer = tiny_transformer()
    running: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []

    def worth(total: float, length: int) -> float:
        return float(total / (((5 + length) / 6) ** penalty if scoring == "wu" else length**penalty))

    for length in range(1, longest + 1):
        candidates: list[tuple[float, list[int], int]] = []
        for total, tokens in running:
            scores = log_probs(transformer, source, tokens).tolist()
            candidates += [
                (total + score, tokens, token)
                for token, score in enumerate(scores)
                if token not in VOCABULARY.never_generated
            ]
        candidates.sort(key=lambda candidate: -candidate[0])
        reach = width - len(finished) if scoring == "marian" else width
        for total, tokens, token in candidates[:reach]:
            if token == VOCABULARY.end_id:
                finished.append((worth(total, length), tokens))
            elif length == longest:
                finished.append((worth(total, length), [*tokens, token]))
        going = candidates[:reach] if scoring == "marian" else candidates
        running = [(total, [*tokens, token]) for total, tokens, token in going if token != VOCABULARY.end_id][:width]
        finished = sorted(finished, key=lambda entry: -entry[0])[:width]
        if not running or (
            scoring == "wu" and len(finished) == width and finished[-1][0] >= worth(running[0][0], length)
        ):
            break
        if scoring == "marian" and len(finished) == width:
            break
    return finished


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scoring", ["marian", "wu"])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.2])
def test_marian_and_wu_equal_a_reference_search(scoring: Scoring, penalty: float) -> None:
    sources = tiny_sources(12, seed=4)
    options = TranslationOptions(
        beam_size=3,
        num_hypotheses=3,
        length_penalty=penalty,
        scoring=scoring,
        max_new_tokens=10,
        return_scores=True,
    )
    outcomes = decode(tiny_transformer(), sources, options)
    for index, source in enumerate(sources):
        best = outcomes[index].hypothesis
        assert best is not None
        expected = reference_search(source, scoring, 3, penalty, 10)
        results = [(item.score, item.token_ids) for item in (best, *best.alternatives)]
        assert [tokens for _, tokens in results] == [tokens for _, tokens in expected]
        assert [score for score, _ in results] == pytest.approx([score for score, _ in expected], abs=1e-4)


def test_sentences_with_different_rules_decode_together() -> None:
    transformer = tiny_transformer()
    (source,) = tiny_sources(1, seed=5)
    rules: list[Scoring] = ["hf", "ct2", "marian", "wu"]
    options = [TranslationOptions(beam_size=3, scoring=rule, return_scores=True, max_new_tokens=10) for rule in rules]
    alone = [decode(transformer, [source], option)[0].hypothesis for option in options]

    from model.decoding.batch import decode_all
    from model.decoding.sentence import DecodingRequest
    from tests.model.tiny import cohort

    requests = [DecodingRequest(index, source, option) for index, option in enumerate(options)]
    together = {outcome.key: outcome.hypothesis for outcome in decode_all(lambda w: cohort(transformer, w), requests)}
    for index, expected in enumerate(alone):
        actual = together[index]
        assert actual is not None and expected is not None
        assert actual.token_ids == expected.token_ids
        assert actual.score == pytest.approx(expected.score, abs=1e-5)
