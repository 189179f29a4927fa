"""Vocabulary shortlists: learning, storage, errors, and equal outputs with the compiled decoder and torch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from model.artifacts.archive import add_shortlist
from model.artifacts.bundle import load_bundle, read_manifest
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from model.artifacts.pretrained import build_pretrained
from model.artifacts.script import convert_in_place
from model.decoding.cohort import Cohort
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.native.cohort import NativeCohort
from model.decoding.native.packed import make_native_model
from model.decoding.options import Scoring
from model.decoding.policy import DecodingPolicy
from model.decoding.search import NO_TOKEN
from model.decoding.shortlist import SHORTLIST, Shortlist
from model.errors import ArtifactError, ConfigError
from model.network.transformer import Transformer
from model.training.shortlist import ShortlistSettings, learn_for_model, learn_shortlist
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.searches import PREFIXES
from tests.model.test_export_and_bundle import rewrite
from tests.model.test_native import (
    POLICIES,
    answers,
    check_same_in_any_batch,
    decode_together,
    like_torch,
    needs_library,
    random_options,
    with_reserved,
)
from tests.model.tiny import VOCABULARY, random_sources
from tests.model.torch_layers import randomise, small_config
from tests.pairwise import pairwise
from tests.toy import WORDS, sentence

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("one_token_a_step")]

VOCAB = 200
"""Large enough that common columns and those of a sentence each fill more than one block."""

LARGE: dict[str, Any] = {"d_model": 64, "num_heads": 2, "source_vocab_size": VOCAB, "target_vocab_size": VOCAB}


def table(lists: list[list[int]], always: list[int]) -> Shortlist:
    offsets = np.cumsum([0, *map(len, lists)])
    ids = [token for tokens in lists for token in tokens]
    return Shortlist(offsets.astype(np.int32), np.array(ids, dtype=np.int32), np.array(always, dtype=np.int32))


def random_table(seed: int, per_token: int = 12, always: int = 70, vocab_size: int = VOCAB) -> Shortlist:
    rng = random.Random(seed)
    lists = [sorted(rng.sample(range(vocab_size), rng.randint(0, per_token))) for _ in range(vocab_size)]
    return table(lists, sorted({VOCABULARY.end_id, *rng.sample(range(vocab_size), always)}))


WHOLE = table([[]] * VOCAB, list(range(VOCAB)))


def transformer() -> Transformer:
    model = Transformer(small_config(**LARGE), 0).eval()
    randomise(model)
    with torch.no_grad():
        model.output.bias[VOCABULARY.end_id] += 2.0  # some sentences end before the limit
    return model


def native(
    module: Any, width: int, shortlist: Shortlist | None, policy: str = "own", reserved: Sequence[int] = ()
) -> NativeCohort:
    model = make_native_model(module, small_config(**LARGE), shortlist)
    return NativeCohort(model, VOCABULARY, width, 30, with_reserved(POLICIES[policy], reserved))


def with_torch(
    module: Any, width: int, shortlist: Shortlist | None, policy: str = "own", reserved: Sequence[int] = ()
) -> TorchCohort:
    device = torch.device("cpu")
    state = TorchState(module, width, 0, device)
    return TorchCohort(state, VOCABULARY, width, 30, device, with_reserved(POLICIES[policy], reserved), shortlist)


def beam(width: int, **more: Any) -> TranslationOptions:
    return TranslationOptions(decoding="greedy" if width == 1 else "beam", beam_size=width, **more)


# Learning


def toy_pairs(number: int) -> tuple[list[tuple[list[int], list[int]]], dict[int, int]]:
    """Sentences of the toy language as ids: source words from 10, target words from 30, 2 as the end token."""
    sources = {word: 10 + index for index, word in enumerate(WORDS)}
    targets = {word: 30 + index for index, word in enumerate(WORDS.values())}
    rng = random.Random(1)
    pairs = []
    for english, german in (sentence(rng) for _ in range(number)):
        source = [sources[word] for word in english.rstrip(".").split()]
        target = [targets[word] for word in german.rstrip(".").split()]
        pairs.append(([5, *source, 2], [*target, 2]))
    return pairs, {sources[word]: targets[other] for word, other in WORDS.items()}


def test_the_most_probable_translation_of_each_word_is_correct() -> None:
    pairs, truth = toy_pairs(300)
    learned = learn_shortlist(pairs, 40, 40, end_id=2, settings=ShortlistSettings(per_token=1, frequent=0))
    for source, target in truth.items():
        assert learned.ids[learned.offsets[source] : learned.offsets[source + 1]].tolist() == [target]
    assert learned.always.tolist() == [2]
    assert set(learned.candidates([5, 10, 11, 2]).tolist()) >= {2, truth[10], truth[11]}


def test_frequent_tokens_are_always_candidates_and_on_no_list() -> None:
    pairs, _ = toy_pairs(300)
    settings = ShortlistSettings(frequent=3, min_probability=0.0)
    learned = learn_shortlist(pairs, 40, 40, end_id=2, never=[0, 1], always=[7], shared=True, settings=settings)
    assert len(learned.always) == 5
    assert {2, 7} <= set(learned.always.tolist())
    assert not set(learned.always.tolist()) & set(learned.ids.tolist())
    assert not {0, 1} & set(learned.ids.tolist())
    for token in range(3, 40):
        assert token in learned.candidates([token]), "with a shared vocabulary all tokens can be copied"
    learned.check(40, 40, 2)


@pytest.mark.parametrize(
    "wrong", [{"per_token": 0}, {"frequent": -1}, {"iterations": 0}, {"min_probability": 1.0}, {"max_links": 0}]
)
def test_sizes_out_of_bounds_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ShortlistSettings(**wrong)


def test_candidates_are_ascending_and_unique() -> None:
    shortlist = table([[1, 3], [3, 4], []], [2, 4])
    assert shortlist.candidates([0, 1, 1, 2]).tolist() == [1, 2, 3, 4]
    assert shortlist.candidates([2]).tolist() == [2, 4]
    assert shortlist.candidates([2], (3, 0, 4)).tolist() == [0, 2, 3, 4]
    assert shortlist.candidates([2], (3, 0)).dtype == np.int32


# Storage


def test_a_table_round_trips_through_bytes() -> None:
    shortlist = replace(random_table(1), facts={"per_token": 12})
    content = shortlist.to_bytes()
    assert content == shortlist.to_bytes()
    restored = Shortlist.from_bytes(content)
    for name in ("offsets", "ids", "always"):
        np.testing.assert_array_equal(getattr(restored, name), getattr(shortlist, name))
    assert restored.facts == {"per_token": 12}


@pytest.mark.parametrize("content", [b"", b"PK", b"nonsense"])
def test_bytes_that_are_not_a_table_are_refused(content: bytes) -> None:
    with pytest.raises(ArtifactError, match="shortlist is damaged"):
        Shortlist.from_bytes(content)


GOOD: dict[str, Any] = {
    "lengths": np.array([1, 2]),
    "steps": np.array([1, -1, 3]),
    "always": np.array([2]),
    "facts": np.frombuffer(b"{}", dtype=np.uint8),
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": None}, "steps"),
        ({"steps": np.array([[1], [2], [3]])}, "steps is not a row of whole numbers"),
        ({"always": np.array([2.0])}, "always is not a row"),
        ({"facts": np.frombuffer(b"[]", dtype=np.uint8)}, "facts is not a mapping"),
        ({"facts": np.frombuffer(b"{", dtype=np.uint8)}, "damaged"),
        ({"lengths": np.array([4, -1])}, "negative length"),
        ({"lengths": np.array([1, 2, 0])}, "lists for 3 source tokens and the model has 2"),
        ({"lengths": np.array([1, 1])}, "do not follow each other"),
        ({"steps": np.array([1, -1, 9])}, "a list names a token the model does not have; it has 5"),
        ({"steps": np.array([1, -2, 3])}, "a list names a token the model does not have"),
        ({"steps": np.array([1, 1, 0])}, "do not ascend"),
        ({"always": np.array([2, 5])}, "always names a token"),
        ({"always": np.array([2, 1])}, "do not ascend"),
        ({"always": np.array([1])}, "closing token 2"),
    ],
)
def test_an_invalid_table_is_refused(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    arrays = {name: part for name, part in {**GOOD, **wrong}.items() if part is not None}
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ArtifactError, match=message) as refused:
        Shortlist.from_bytes((tmp_path / "x.npz").read_bytes()).check(2, 5, 2)
    assert "verso shortlist" in str(refused.value)


@pytest.fixture(scope="module")
def short_bundle(toy_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy's bundle with a shortlist learned from its text."""
    path = tmp_path_factory.mktemp("short") / "short.pt"
    bundle = load_bundle(toy_bundle)
    rng = random.Random(1)
    pairs = [sentence(rng) for _ in range(200)]
    settings = ShortlistSettings(per_token=4, frequent=5)
    add_shortlist(toy_bundle, learn_for_model(bundle.manifest, bundle.tokenizer, pairs, ("en", "de"), settings), path)
    return path


def test_a_bundle_contains_its_shortlist(toy_bundle: Path, short_bundle: Path) -> None:
    bundle = load_bundle(short_bundle)
    assert bundle.shortlist is not None
    assert bundle.manifest.shortlist == bundle.shortlist.facts
    assert bundle.manifest.shortlist["directions"] == [["en", "de"], ["de", "en"]]
    assert bundle.manifest.shortlist["sentence_pairs"] == 400
    assert replace(bundle.manifest, shortlist={}) == read_manifest(toy_bundle)
    assert load_bundle(toy_bundle).shortlist is None
    with pytest.raises(ArtifactError, match=r"has no vocabulary shortlist; make one with 'verso shortlist"):
        Translator.load(toy_bundle, shortlist=True)


def test_another_models_shortlist_is_refused(short_bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="lists for 200 source tokens and the model has 300"):
        add_shortlist(short_bundle, WHOLE, tmp_path / "x.pt")
    path = rewrite(short_bundle, tmp_path / "y.pt", SHORTLIST, WHOLE.to_bytes())
    with pytest.raises(ArtifactError, match="does not fit the model"):
        load_bundle(path)
    with pytest.raises(ArtifactError, match="could not be written"):
        add_shortlist(short_bundle, table([[]] * 300, [3]), short_bundle / "x.pt")


def test_known_words_are_translated_as_without_a_shortlist(short_bundle: Path) -> None:
    texts = [sentence(random.Random(seed))[0] for seed in range(20)]
    full = [translation.text for translation in Translator.load(short_bundle).translate(texts, target="de")]
    for native_too in (True, False):
        short = Translator.load(short_bundle, shortlist=True, native=native_too)
        assert [result.text for result in short.translate(texts, target="de")] == full


def test_a_shortlist_for_other_languages_is_refused(toy_bundle: Path) -> None:
    bundle = load_bundle(toy_bundle)
    with pytest.raises(ConfigError, match="corpora are in fr and en; the model has"):
        learn_for_model(bundle.manifest, bundle.tokenizer, [("oui", "yes")], ("fr", "en"))


def test_the_shipped_translator_is_built_with_its_shortlist(
    toy_checkpoint: Path, short_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "toy.pt"
    shipped.write_bytes(toy_checkpoint.read_bytes())
    monkeypatch.setattr("model.artifacts.pretrained.PRETRAINED", shipped)
    without = build_pretrained("cpu", tmp_path, precision="float32", report=lambda line: None)
    shortlist = load_bundle(short_bundle).shortlist
    assert shortlist is not None
    (tmp_path / "toy.shortlist.npz").write_bytes(shortlist.to_bytes())
    path = build_pretrained("cpu", tmp_path, precision="float32", report=lambda line: None)
    assert path != without
    assert read_manifest(path).shortlist == shortlist.facts
    with pytest.raises(ArtifactError, match="does not fit"):
        export_bundle(
            load_checkpoint(toy_checkpoint), "float32", tmp_path / "x.pt", shortlist=WHOLE, report=lambda line: None
        )


# Decoding


@needs_library
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("width", [1, 3])
def test_a_shortlist_of_all_tokens_gives_bit_identical_outputs(precision: str, width: int) -> None:
    module = convert_in_place(transformer(), precision)  # type: ignore[arg-type]
    sources = random_sources(40, vocab_size=VOCAB, seed=2)
    options = [beam(width, num_hypotheses=width, return_scores=True, no_repeat_ngram_size=2)] * len(sources)
    outcomes = decode_together(native(module, width, WHOLE), sources, options)
    expected = decode_together(native(module, width, None), sources, options)
    for key in outcomes.keys() & expected.keys():
        assert answers(outcomes[key]) == answers(expected[key])
    both = decode_together(with_torch(module, width, WHOLE), sources, options)
    alike = decode_together(with_torch(module, width, None), sources, options)
    assert {key: outcome.hypothesis for key, outcome in both.items()} == {
        key: outcome.hypothesis for key, outcome in alike.items()
    }


@needs_library
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("width", [1, 3])
def test_with_a_shortlist_a_sentence_is_bit_identical_in_any_batch(precision: str, width: int) -> None:
    model = make_native_model(convert_in_place(transformer(), precision), small_config(**LARGE), random_table(4))  # type: ignore[arg-type]
    sources = random_sources(60, vocab_size=VOCAB, seed=2)
    options = beam(width, num_hypotheses=width, return_scores=True)

    def make(width: int) -> Cohort:
        return NativeCohort(model, VOCABULARY, width, 30, DecodingPolicy())

    check_same_in_any_batch(make, sources, options)


@pytest.mark.sampled(5)
@needs_library
@pytest.mark.parametrize(("width", "scoring", "policy"), pairwise((1, 2, 5), get_args(Scoring), list(POLICIES)))
def test_with_a_shortlist_a_compiled_cohort_gives_the_outputs_of_torch(
    width: int, scoring: Scoring, policy: str
) -> None:
    eager = transformer()
    rng = random.Random(f"{width} {scoring} {policy}")
    shortlist = random_table(5, always=rng.choice([1, 63, 64, 90]), per_token=rng.choice([3, 20]))
    sources = random_sources(40, vocab_size=VOCAB, seed=3)
    options = [
        beam(
            width,
            num_hypotheses=rng.randint(1, width),
            return_scores=rng.random() < 0.7,
            length_penalty=rng.choice([None, 0.0, 0.6, 2.0]),
            early_stopping=rng.choice([None, True]),
            scoring=scoring,
            min_new_tokens=rng.choice([0, 0, 4]),
            max_new_tokens=rng.choice([None, 4, 9]),
            no_repeat_ngram_size=rng.choice([0, 0, 2, 3]),
            return_search=rng.random() < 0.5,
        )
        for _ in sources
    ]
    # Forced tokens and those of a prefix need not be candidates.
    forced_ids = (5, 6) if width == 2 else ()
    own, torchs = (make(eager, width, shortlist, policy) for make in (native, with_torch))
    outcomes = like_torch(own, torchs, sources, options, forced_ids, prefix_ids=PREFIXES)
    for key, outcome in outcomes.items():
        candidates = set(shortlist.candidates(sources[key]).tolist())
        for answer in answers(outcome):
            assert set(answer.token_ids[len(PREFIXES[key % len(PREFIXES)]) :]) <= candidates


@pytest.mark.sampled(6)
@needs_library
@pytest.mark.parametrize(("always", "width", "policy"), pairwise((1, 64, 90), (1, 4), list(POLICIES)))
def test_required_tokens_are_candidates(always: int, width: int, policy: str) -> None:
    eager = transformer()
    rng = random.Random(f"{always} {width} {policy}")
    shortlist = random_table(5, always=always, per_token=3)
    sources = random_sources(40, vocab_size=VOCAB, seed=3)
    options = [random_options(rng, width, rng.choice(get_args(Scoring))) for _ in sources]
    # Some are candidates of sentences that do not require them.
    reserved = [*range(100, 160, 7), *(token for token in shortlist.always.tolist() if token > 190)]
    required_ids = [tuple(rng.sample(reserved, rng.randint(0, 4))) for _ in sources]
    own, torchs = (make(eager, width, shortlist, policy, reserved) for make in (native, with_torch))
    outcomes = like_torch(own, torchs, sources, options, required_ids=required_ids)
    for key, outcome in outcomes.items():
        candidates = set(shortlist.candidates(sources[key]).tolist())
        for answer in answers(outcome):
            assert set(answer.token_ids) <= candidates - set(reserved) | set(required_ids[key])
            if (options[key].max_new_tokens or 30) > len(required_ids[key]):
                assert [answer.token_ids.count(token) for token in required_ids[key]] == [1] * len(required_ids[key])


@needs_library
@pytest.mark.parametrize("width", [1, 3])
def test_a_sentence_without_candidates_fails_alone(width: int) -> None:
    shortlist = table([[7] if token == 9 else [] for token in range(VOCAB)], [VOCABULARY.end_id])
    options = [beam(width, min_new_tokens=1)] * 2
    for group in (native(transformer(), width, shortlist), with_torch(transformer(), width, shortlist)):
        outcomes = decode_together(group, [[5, 2], [9, 2]], options)
        assert outcomes[0].hypothesis is None
        assert str(outcomes[0].error) == NO_TOKEN
        assert outcomes[1].hypothesis is not None
