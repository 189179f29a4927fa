"""Settings that fit a text and a machine."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import yaml

from model.training.defaults import (
    FittingSettings,
    Hardware,
    TextStatistics,
    fitting_settings,
    fitting_vocab_size,
)
from model.training.recipe import configuration_text, text_statistics, try_vocabulary
from model.training.settings import TrainingSettings
from tests.model.test_preparation import sentences

TWO_CORES = Hardware("cpu", 2)
GPU = Hardware("cuda", 16, 1)


def fit(num_pairs: int, hardware: Hardware = TWO_CORES, hours: float = 5.0, **more: Any) -> FittingSettings:
    vocab_size = fitting_vocab_size(80 * num_pairs)
    return fitting_settings(TextStatistics(num_pairs, 30 * num_pairs, vocab_size, **more), hardware, hours)


def hours_of(fitting: FittingSettings) -> float:
    return fitting.num_tokens / fitting.tokens_per_s / 3600


@pytest.mark.parametrize(
    ("num_pairs", "hardware", "name"),
    [
        (2_000, TWO_CORES, "tiny"),
        (19_000, GPU, "tiny"),
        (200_000, TWO_CORES, "small"),
        (200_000, GPU, "small"),
        (3_000_000, TWO_CORES, "small"),  # a larger model would not be trained in an afternoon
        (3_000_000, GPU, "base"),
        (3_000_000, Hardware("cpu", 64), "base"),
        (20_000_000, GPU, "big"),
        (20_000_000, TWO_CORES, "small"),
    ],
)
def test_the_model_fits_the_text_and_the_machine(num_pairs: int, hardware: Hardware, name: str) -> None:
    assert fit(num_pairs, hardware).shape.name == name


def test_long_sentences_count_as_more_text() -> None:
    sizes = [TextStatistics(20_000, tokens * 20_000, 4000) for tokens in (30, 90)]
    assert [fitting_settings(size, TWO_CORES).shape.name for size in sizes] == ["tiny", "small"]


def test_more_text_gets_a_larger_vocabulary() -> None:
    sizes = [fitting_vocab_size(number) for number in (10**4, 10**6, 4 * 10**6, 10**7, 10**9)]
    assert sizes == [1000, 2000, 4000, 8000, 16000]


def test_less_text_gets_more_regularisation_and_more_passes() -> None:
    small, large = fit(5_000), fit(2_000_000, GPU)
    assert small.settings["model"].value["dropout"] > large.settings["model"].value["dropout"]
    assert small.settings["subword_sampling"].value > large.settings["subword_sampling"].value
    assert small.num_tokens / (30 * 5_000) > 5 * large.num_tokens / (30 * 2_000_000)


@pytest.mark.parametrize("hours", [0.5, 5.0, 24.0])
@pytest.mark.parametrize("num_pairs", [10_000, 200_000, 5_000_000])
@pytest.mark.parametrize("hardware", [TWO_CORES, GPU], ids=str)
def test_the_training_takes_no_longer_than_allowed(num_pairs: int, hardware: Hardware, hours: float) -> None:
    assert hours_of(fit(num_pairs, hardware, hours)) <= hours


def test_several_gpus_share_the_updates() -> None:
    item, four = fit(300_000, GPU), fit(300_000, Hardware("cuda", 16, 4))
    assert four.settings["max_steps"].value == pytest.approx(item.settings["max_steps"].value / 4, rel=0.1)


def test_what_a_script_does_not_have_is_not_augmented() -> None:
    chinese = fit(200_000, has_capitals=False, is_latin=False).settings
    assert not {"upper", "lower", "typos"} & chinese["augment"].value.keys()
    assert chinese["fold_capitals"].value is False
    assert {"upper", "lower", "typos"} <= fit(200_000).settings["augment"].value.keys()


@pytest.mark.parametrize(
    ("num_pairs", "hardware", "hours"),
    list(itertools.product((100, 3_000, 60_000, 10**6, 10**8), (Hardware("cpu", 1), GPU), (0.001, 100.0))),
    ids=str,
)
def test_every_configuration_is_valid(num_pairs: int, hardware: Hardware, hours: float) -> None:
    fitting = fit(num_pairs, hardware, hours)
    text = configuration_text("xx-yy", ("xx", "yy"), 0.31, fitting)
    settings = TrainingSettings.from_dict(yaml.safe_load(text))
    assert settings.model_config(settings.vocab_size).d_model == fitting.shape.model["d_model"]
    assert settings.max_steps == 20 * settings.evaluate_every
    assert settings.train[0].length_ratio == 0.31
    # Every setting has its reason as a comment above it.
    lines = text.splitlines()
    for key in fitting.settings:
        number = next(number for number, line in enumerate(lines) if line.startswith(f"{key}:"))
        assert lines[number - 1].startswith("# ")


def test_a_text_of_few_words_gets_a_vocabulary_that_can_be_learned() -> None:
    pairs = sentences(500)
    tokenizer = try_vocabulary(pairs, ("eo", "it"))
    assert 400 <= tokenizer.vocab_size < 1000
    statistics = text_statistics(pairs, ("eo", "it"), tokenizer)
    assert statistics.num_tokens == sum(len(tokenizer.encode_target(side)) for pair in pairs for side in pair)
    assert (statistics.num_pairs, statistics.has_capitals, statistics.is_latin) == (500, True, True)


def test_a_script_of_many_characters_gets_a_vocabulary_that_holds_them() -> None:
    rng = random.Random(1)
    words = [chr(0x4E00 + number) + chr(0x4E00 + number * 7 % 1200) for number in range(1200)]
    pairs = [("".join(rng.choices(words, k=6)), f"word {number}") for number in range(2000)]
    tokenizer = try_vocabulary(pairs, ("zh", "en"))
    assert fitting_vocab_size(sum(len(side) for pair in pairs for side in pair)) == 1000
    assert tokenizer.vocab_size == 2000
    statistics = text_statistics(pairs, ("zh", "en"), tokenizer)
    assert not statistics.has_capitals
    assert not statistics.is_latin
