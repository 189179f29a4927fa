"""``verso keys``."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest

from app.accounts.keys import parse_token
from app.accounts.store import KeyStore
from app.accounts.usage import Charge, UsageStore, month_of
from app.commands.main import main


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "keys.sqlite"
    monkeypatch.setenv("VERSO_KEYS_DB", str(path))
    return path


def created(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The key that a command prints, alone on standard output."""
    assert main(["keys", "create", "the shop", *options]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 1
    assert printed.out.strip() not in printed.err
    return printed.out.strip()


def test_a_key_is_printed_once_and_never_again(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = parse_token(created(capsys))
    assert token is not None
    with contextlib.closing(KeyStore(path)) as store:
        assert store.find(token) is not None
    for action in (["list"], ["list", "--json"], ["usage"], ["usage", "--json"]):
        assert main(["keys", *action]) == 0
        printed = capsys.readouterr()
        assert token.secret not in printed.out + printed.err


def test_a_key_has_the_limits_it_was_made_with(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = time.time()
    created(
        capsys,
        *("--scopes", "admin,translate", "--days", "2", "--characters-per-month", "100", "--requests-per-minute", "60"),
        *("--concurrent-sentences", "8", "--priority", "bulk"),
    )
    main(["keys", "list", "--json"])
    (key,) = json.loads(capsys.readouterr().out)
    assert key["scopes"] == ["translate", "admin"]
    limits = ("characters_per_month", "requests_per_minute", "concurrent_sentences", "priority", "name", "unusable")
    assert [key[name] for name in limits] == [100, 60, 8, "bulk", "the shop", None]
    assert before + 2 * 86_400 <= key["expires_at"] <= time.time() + 2 * 86_400


def test_a_key_may_use_all_but_administration_unless_said_otherwise(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    created(capsys)
    main(["keys", "list"])
    printed = capsys.readouterr().out
    assert "translate,attention,documents" in printed and "admin" not in printed and "valid" in printed


def test_a_key_is_revoked(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = parse_token(created(capsys))
    assert token is not None
    assert main(["keys", "revoke", token.id]) == 0
    main(["keys", "list"])
    assert "revoked" in capsys.readouterr().out
    assert main(["keys", "revoke", "000000000000"]) == 1
    assert "no key" in capsys.readouterr().err


def test_usage_is_shown_by_month(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = parse_token(created(capsys))
    assert token is not None
    now = time.time()
    with contextlib.closing(UsageStore(path)) as store:
        for number, month in enumerate(("2020-01", month_of(now), month_of(now))):
            store.settle(Charge(token.id, str(number), b"", month, False), 100, now)
    main(["keys", "usage", "--json"])
    assert json.loads(capsys.readouterr().out) == [
        {"key": token.id, "month": month_of(now), "characters": 200, "requests": 2, "name": "the shop"}
    ]
    main(["keys", "usage", "--month", "all"])
    printed = capsys.readouterr().out
    assert "2020-01" in printed and "the shop" in printed
    main(["keys", "usage", "--month", "2019-12"])
    assert token.id not in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["create", "x", "--scopes", "everything"],
        ["create", "x", "--days", "0"],
        ["create", "x", "--priority", "2"],
        ["create", "x", "--characters-per-month", "-1"],
        ["create", "x", "--requests-per-minute", "9" * 30],
        ["create"],
        ["lists"],
        [],
    ],
)
def test_what_makes_no_sense_is_refused(path: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit) as finished:
        main(["keys", *options])
    assert finished.value.code == 2
    assert not path.exists()


def test_a_file_must_be_named_and_is_not_made_to_be_looked_at(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "list"]) == 1
    assert str(path) in capsys.readouterr().err and not path.exists()
    monkeypatch.delenv("VERSO_KEYS_DB")
    assert main(["keys", "create", "x"]) == 1
    assert "VERSO_KEYS_DB" in capsys.readouterr().err
    assert main(["keys", "--db", str(tmp_path), "create", "x"]) == 1
    assert "cannot be used" in capsys.readouterr().err
