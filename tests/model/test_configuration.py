"""Errors of configuration classes: one sentence for each error, with path, value and bound."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, field, replace
from typing import Annotated, Any, Literal, Self

import pytest
from pydantic import Field, model_validator

from model.configuration import Count, Flag, NonNegative, Requirement, Share, Text, configuration, from_mapping
from model.errors import ConfigError


@configuration("A part")
class Part:
    size: Count
    shares: tuple[Share, Share] = (0.5, 0.5)
    kind: Literal["round", "square"] = "round"


@configuration("The whole")
class Whole:
    name: Text = "x"
    first: Part = field(default_factory=lambda: Part(1))
    others: tuple[Part, ...] = ()
    on: Flag = False
    offset: NonNegative | None = None
    low: Annotated[float, Field(strict=True, gt=0)] = 1.0
    high: Annotated[int, Field(strict=True, le=9)] = 1
    between: Annotated[float, Field(strict=True, gt=0, le=3)] = 1.0
    below: Annotated[float, Field(strict=True, lt=3)] = 1.0
    code: Annotated[str, Field(pattern="^[a-z]$"), Requirement("a small letter")] = "a"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, more than high {self.high}.")
        return self


@pytest.mark.parametrize(
    ("values", "output"),
    [
        ({"name": ""}, "name is ''; it must be text that is not empty."),
        ({"first": 5}, "first is 5; it must be a mapping of keys to values."),
        ({"first": {"size": 0}}, "first.size is 0; it must be a whole number of at least 1."),
        ({"first": {}}, "first has no 'size', which it needs."),
        ({"first": {"size": 1, "x": 2}}, "first has the unknown key 'x'; it can have size, shares, kind."),
        ({"others": [{"size": 1}, {"size": "2"}]}, "others[1].size is '2'; it must be a whole number of at least 1 "),
        ({"others": [{"size": 1, "shares": [0, 2]}]}, "others[0].shares[1] is 2; it must be a number from 0 to 1."),
        ({"others": [{"size": 1, "shares": [0]}]}, "others[0].shares is [0]; it must be a list."),
        ({"others": "text"}, "others is 'text'; it must be a list."),
        ({"first": {"size": 1, "kind": 3}}, "first.kind is 3; it must be 'round' or 'square'."),
        ({"on": 1}, "on is 1; it must be true or false."),
        ({"offset": -1}, "offset is -1; it must be a whole number of at least 0."),
        ({"low": 0}, "low is 0; it must be a number above 0."),
        ({"low": "1e-3"}, "it must be a number above 0 (not text; YAML takes 1e-3 for text, so write 1.0e-3)."),
        ({"high": 10}, "high is 10; it must be a whole number of at most 9."),
        ({"between": 4}, "between is 4; it must be a number above 0 and at most 3."),
        ({"below": 3}, "below is 3; it must be a number below 3."),
        ({"code": "A"}, "code is 'A'; it must be a small letter."),
        ({"low": 7}, "low is 7.0, more than high 1."),
        ({"whole": 1}, "The whole has the unknown key 'whole'; it can have name, first, others,"),
        ({3: 1}, "The whole has the unknown key 3; it can have name,"),
    ],
    ids=str,
)
def test_an_error_is_named_with_path_value_and_bound(values: dict[Any, Any], output: str) -> None:
    with pytest.raises(ConfigError) as result:
        from_mapping(Whole, values)
    assert output in str(result.value)


def test_all_errors_are_named() -> None:
    with pytest.raises(ConfigError, match=r"^name is '';.* on is 2;.* high is 10;"):
        Whole(name="", on=2, high=10)  # type: ignore[arg-type]


def test_a_key_that_is_not_text_is_named() -> None:
    with pytest.raises(ConfigError, match="first"):
        from_mapping(Whole, {"first": {"size": 1, 2: 3}})


def test_a_missing_key_is_named_with_the_class() -> None:
    with pytest.raises(ConfigError, match=r"^A part has no 'size', which it needs\.$"):
        from_mapping(Part, {})


def test_a_changed_copy_is_validated_too() -> None:
    assert replace(Whole(), name="y").name == "y"
    with pytest.raises(ConfigError, match="high is 10"):
        replace(Whole(), high=10)
    with pytest.raises(FrozenInstanceError):
        Whole().name = "y"  # type: ignore[misc]
