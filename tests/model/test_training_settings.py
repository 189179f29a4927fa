"""Training settings: every invalid value is refused with its name, before a corpus is read."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from model.errors import ConfigError
from model.training.settings import CorpusSettings, TrainingSettings

ROOT = Path(__file__).resolve().parents[2]
VALID: dict[str, Any] = {"name": "x", "languages": ["en", "de"], "train": ["a"], "dev": "b"}

WHOLE = (
    "dev_sentences",
    "vocab_size",
    "max_tokens_per_sentence",
    "batch_tokens",
    "accumulate",
    "max_steps",
    "warmup_steps",
    "cooldown_steps",
    "evaluate_every",
    "patience",
    "average",
    "seed",
    "threads",
)
NUMBERS = (
    *WHOLE,
    "learning_rate",
    "weight_decay",
    "label_smoothing",
    "clip_norm",
    "r_drop",
    "subword_sampling",
    "target_subword_sampling",
    "save_every_s",
)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, math.nan, True, None, [3]], ids=repr)
def test_numbers_must_be_finite_and_not_negative(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} is .*; it must be"):
        TrainingSettings.from_dict({**VALID, name: value})


@pytest.mark.parametrize("name", WHOLE)
def test_counts_must_be_whole_numbers(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} is 450\.5; it must be a whole number"):
        TrainingSettings.from_dict({**VALID, name: 450.5})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"languages": ["en", "en"]}, r"languages is \['en', 'en'\]; it must be a list of two different languages"),
        ({"languages": "en"}, "languages is 'en'; it must be a list"),
        ({"languages": ["EN", "de"]}, r"languages\[0\] is 'EN'; it must be a code of two or three small letters"),
        ({"languages": ["en", "german"]}, r"languages\[1\] is 'german'; it must be a code"),
        ({"train": []}, "train is empty"),
        ({"train": "a"}, "train is 'a'; it must be a list"),
        ({"train": [5]}, r"train\[0\] is 5; it must be a path"),
        ({"train": [{"path": "a", "lang": "x"}]}, r"train\[0\] has the unknown key 'lang'; it can have path"),
        ({"train": [{"detokenise": True}]}, r"train\[0\] has no 'path', which it needs"),
        ({"train": [{"path": "a", "detokenise": "no"}]}, r"train\[0\].detokenise is 'no'; it must be true or false"),
        (
            {"train": [{"path": "a", "weight": 0}]},
            r"train\[0\].weight is 0; it must be a number above 0 and at most 100",
        ),
        (
            {"train": [{"path": "a", "direction": "en-fr"}]},
            "direction of a is 'en-fr'; with these pairs it can be de-en",
        ),
        ({"train": [{"path": "a", "tag": "<synthetic>"}]}, "tag of a is '<synthetic>'; it must be a reserved symbol"),
        ({"dev": []}, r"dev is \[\]; it must be a path, or a list of at least one path"),
        ({"normalisation": "nfd"}, "normalisation is 'nfd'; it must be 'nfkc' or 'nfc'"),
        ({"train": [{"generate": "reversal"}]}, r"train\[0\] has the unknown key 'generate'; it can have path"),
        ({"dev": {"path": "a"}}, "dev is {'path': 'a'}; it must be a path, or a list of at least one path"),
        ({"tokenizer_kind": "word"}, "tokenizer_kind is 'word'; it must be 'unigram' or 'char'"),
        ({"tokenizer_kind": "char", "target_subword_sampling": 0.1}, "or target_subword_sampling is above 0"),
        ({"separate_vocabularies": True}, "needs one direction in pairs"),
        ({"separate_vocabularies": True, "pairs": ["en-de"], "tokenizer": "t.model"}, "and no tokenizer"),
        ({"separate_vocabularies": True, "pairs": ["en-de"]}, "set share_embeddings of the model to false"),
        ({"model": {"preset": "post"}}, "preset is 'post'; it must be one of pre-norm-scalar"),
        ({"pairs": ["en-fr"]}, r"pairs names 'en-fr'; .* \['de-en', 'en-de'\]"),
        ({"pairs": ["en-de", "en-de"]}, "name each direction once"),
        ({"name": ""}, "name is ''; it must be text"),
        ({"dev": 5}, "dev is 5; it must be a path, or a list"),
        ({"attribution": [5]}, r"attribution\[0\] is 5; it must be text"),
        ({"vocab_size": 299}, "vocab_size is 299; it must be a whole number from 300 to 1000000"),
        ({"learning_rate": 11}, "learning_rate is 11; it must be a number from 1e-09 to 10"),
        ({"learning_rate": "1e-3"}, r"learning_rate is '1e-3'.* write 1\.0e-3"),
        ({"cooldown_steps": 30000}, "cooldown_steps is 30000; it must be 20000 at most"),
        ({"betas": [0.9]}, "two numbers"),
        ({"betas": [0.9, 1.0]}, r"betas\[1\] is 1\.0; it must be a number of at least 0 and below 1"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd'; it must be 'adamw' or 'muon'"),
        ({"precision": "float8"}, "precision is 'float8'; it must be 'auto', 'float32' or 'bfloat16'"),
        ({"batch_tokens": 50}, "batch_tokens is 50.* would fit no batch"),
        ({"model": {"max_positions": 50}}, "max_tokens_per_sentence is 120, but the model has positions for 50"),
        ({"model": [1]}, r"model is \[1\]; it must be a mapping"),
        ({"modle": {}}, "The configuration has the unknown key 'modle'.* model,"),
        ({"model": {"source_vocab_size": 10}}, "model has source_vocab_size; leave it out"),
        ({"augment": {"capitals": 0.1}}, "augment has the unknown key 'capitals'; it can have upper, lower"),
    ],
    ids=str,
)
def test_an_invalid_setting_is_named_with_its_bound(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingSettings.from_dict({**VALID, **change})


@pytest.mark.parametrize("name", VALID)
def test_a_missing_key_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        TrainingSettings.from_dict({key: value for key, value in VALID.items() if key != name})


def test_defaults_are_as_documented() -> None:
    settings = TrainingSettings.from_dict(VALID)
    assert settings.pairs == ("de-en", "en-de")
    assert settings.direction_pairs == [("de", "en"), ("en", "de")]
    assert settings.train == (CorpusSettings("a", detokenise=False, whole_sentences_only=False),)
    assert settings.model_config(5000).target_vocab_size == settings.model_config(5000).source_vocab_size == 5000


def test_settings_round_trip_through_json() -> None:
    settings = TrainingSettings.from_dict(
        {**VALID, "train": ["b", {"path": "a", "detokenise": True}], "dev": "c", "pairs": ["en-de"]}
    )
    assert settings.dev == ("c",)
    assert TrainingSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a", "must be a mapping"),
        (b"", "must be a mapping"),
        (b"a: [", "is no YAML"),
        (b"name: M\xfcnchen", "is not UTF-8"),
        (b"!!python/object/apply:os.getcwd []", "is no YAML"),
    ],
)
def test_an_invalid_configuration_file_is_refused_with_the_reason(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{path}.* {message}"):
        TrainingSettings.load(path)


@pytest.mark.parametrize("path", sorted((ROOT / "configs").rglob("*.yaml")), ids=lambda path: path.name)
def test_the_shipped_configurations_are_valid(path: Path) -> None:
    assert TrainingSettings.load(path).name


def test_every_setting_is_documented() -> None:
    for kind in (TrainingSettings, CorpusSettings):
        undocumented = [
            field.name for field in dataclasses.fields(kind) if f"    {field.name}: " not in str(kind.__doc__)
        ]
        assert undocumented == []


@pytest.mark.parametrize("number", [0, -1, 2.5, True, "many"])
def test_the_number_of_sentences_of_a_corpus_must_be_whole(number: Any) -> None:
    with pytest.raises(ConfigError, match=r"train\[0\].sentences is .* at least 1"):
        TrainingSettings.from_dict({**VALID, "train": [{"path": "a", "sentences": number}]})


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        ({"shouting": 0.1}, "augment has the unknown key 'shouting'; it can have upper, lower"),
        (0.1, "augment is 0.1; it must be a mapping"),
        ({"upper": 2}, "augment.upper is 2; it must be a share, 0 to 1"),
    ],
)
def test_augmentation_is_a_mapping_of_shares(augment: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        TrainingSettings.from_dict({**VALID, "augment": augment})
    assert TrainingSettings.from_dict({**VALID, "augment": {"upper": 0.1}}).augment.upper == 0.1
