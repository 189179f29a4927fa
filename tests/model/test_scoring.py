"""Scoring rules are data: each row has the properties of its family."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

import model.decoding
from model.decoding.native import library
from model.decoding.options import DecodingOptions, Scoring
from model.decoding.policy import DecodingPolicy
from model.decoding.scoring import RULES, ScoringRule
from model.decoding.slots.tensors import Setting
from model.errors import ArtifactError

DECODING = Path(model.decoding.__file__).parent
NAMES = get_args(Scoring)
PROPERTIES = [item.name for item in fields(ScoringRule)]


def test_every_scoring_rule_has_a_row() -> None:
    assert tuple(RULES) == NAMES


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hf", ScoringRule(0.6, force_end=True)),
        ("ct2", ScoringRule(0.6, stops_when_full=True)),
        ("marian", ScoringRule(0.6, narrows=True, stops_when_full=True)),
        ("wu", ScoringRule(0.6, length_offset=5.0, length_scale=6.0)),
    ],
)
def test_a_row_has_the_properties_of_its_family(name: Scoring, expected: ScoringRule) -> None:
    policy = DecodingPolicy(length_penalty=0.6, force_end=True)
    assert policy.rule(DecodingOptions(scoring=name)) == expected


@pytest.mark.parametrize("penalty", [math.nan, math.inf, -0.1, 10.1, "1", None, [1.0]])
def test_a_manifest_has_a_length_penalty_that_a_caller_could_have(penalty: object) -> None:
    with pytest.raises(ArtifactError, match="manifest is wrong: length_penalty is"):
        DecodingPolicy.from_dict({"length_penalty": penalty})
    assert DecodingPolicy.from_dict({"length_penalty": 10}).length_penalty == 10


@pytest.mark.parametrize("name", NAMES)
def test_early_stopping_ends_at_a_full_pool(name: Scoring) -> None:
    rule = DecodingPolicy(early_stopping=True).rule(DecodingOptions(scoring=name))
    assert rule.stops_when_full
    assert not DecodingPolicy().rule(DecodingOptions(scoring="hf")).stops_when_full
    assert DecodingPolicy().rule(DecodingOptions(scoring="hf", early_stopping=True)).stops_when_full


@pytest.mark.parametrize("name", NAMES)
def test_plain_sums_wait_for_the_leader_under_ct2_alone(name: Scoring) -> None:
    assert RULES[name].rule(0.0).leader_must_end == (name == "ct2")
    assert not RULES[name].rule(0.1).leader_must_end


def test_the_back_ends_use_the_properties_in_one_order() -> None:
    assert [name for name, _ in library.Rule._fields_] == PROPERTIES
    settings = [setting.name.lower() for setting in Setting]
    assert settings[-len(PROPERTIES) :] == PROPERTIES
    header = (DECODING / "native" / "search.h").read_text()
    (body,) = re.findall(r"struct ScoringRule \{(.*?)\(", header, re.DOTALL)
    declared = re.findall(r"(?:double|int32_t) ([\w, ]+);", body)
    assert ", ".join(declared).split(", ") == PROPERTIES
