"""What a key is, how it is written, and how it is stored and found."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.accounts import keys
from app.accounts.database import connect
from app.accounts.keys import Token, new_token, parse_token
from app.accounts.store import KeyStore
from app.engine.caller import Priority
from app.errors import SettingsError

NOW = 1_800_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "keys.sqlite"


OpenKeys = Callable[[Path], KeyStore]


@pytest.fixture
def open_keys() -> Iterator[OpenKeys]:
    """Opens stores, and closes them after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(contextlib.closing(KeyStore(path)))


def test_a_token_has_256_random_bits_and_is_read_back() -> None:
    tokens = {new_token().text for _ in range(100)}
    assert len(tokens) == 100
    for text in tokens:
        token = parse_token(text)
        assert token is not None and token.text == text
        assert len(token.secret) == 43  # 32 bytes as base64url


@pytest.mark.parametrize("broken", ["", "verso_", "verso_0123456789ab_", "x", "verso_0123456789ab_" + "a" * 44])
def test_what_is_no_token_is_not_read(broken: str) -> None:
    assert parse_token(broken) is None
    assert parse_token(new_token().text + broken[:1] + " ") is None


@given(st.text())
def test_any_text_is_read_as_a_token_or_as_none(text: str) -> None:
    token = parse_token(text)
    assert token is None or token.text == text


def test_a_token_does_not_show_its_secret_when_it_is_printed() -> None:
    token = new_token()
    assert token.secret not in repr(token) and token.secret not in str(token) and token.secret not in f"{token}"


def test_a_key_is_found_by_its_token_only(open_keys: OpenKeys, path: Path) -> None:
    store = open_keys(path)
    key, token = store.create("shop", ("translate",), NOW, priority=Priority.BULK, requests_per_minute=5)
    other, _ = store.create("other", ("admin",), NOW + 1)
    assert store.find(token) == key
    assert (key.priority, key.requests_per_minute, key.scopes) == (Priority.BULK, 5, ("translate",))
    assert store.find(Token(token.id, new_token().secret)) is None
    assert store.find(Token(other.id, token.secret)) is None
    assert store.find(Token("000000000000", token.secret)) is None
    assert store.all() == [key, other]


def test_the_secret_is_in_no_file_and_its_digest_is(open_keys: OpenKeys, path: Path) -> None:
    store = open_keys(path)
    _, token = store.create("shop", ("translate",), NOW)
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert token.secret.encode() not in content
    assert hashlib.sha256(token.secret.encode()).digest() in content


def test_only_the_owner_of_the_file_may_read_it(open_keys: OpenKeys, path: Path) -> None:
    open_keys(path).create("shop", ("translate",), NOW)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize("exists", [True, False])
def test_digests_are_compared_in_constant_time_even_without_a_key(
    open_keys: OpenKeys, path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    store = open_keys(path)
    _, token = store.create("shop", ("translate",), NOW)
    compared: list[tuple[Any, Any]] = []

    constant_time = hmac.compare_digest

    def compare(first: Any, other: Any) -> bool:
        compared.append((first, other))
        return constant_time(first, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    request = Token(token.id if exists else "000000000000", new_token().secret)
    assert store.find(request) is None
    ((first, other),) = compared
    assert first == request.digest and len(other) == len(first)


def test_the_digest_that_stands_for_no_key_opens_nothing() -> None:
    class Nothing(Token):
        @property
        def digest(self) -> bytes:
            return bytes(32)

    assert not keys.is_token_of(Nothing("000000000000", "x"), None)


@pytest.mark.parametrize(("now", "reason"), [(NOW, None), (NOW + 9.9, None), (NOW + 10, "expired")])
def test_a_key_expires(open_keys: OpenKeys, path: Path, now: float, reason: str | None) -> None:
    key, _ = open_keys(path).create("shop", ("translate",), NOW, expires_at=NOW + 10)
    assert key.why_unusable(now) == reason


def test_a_revoked_key_is_revoked_for_other_processes_and_stays_so(open_keys: OpenKeys, path: Path) -> None:
    store, elsewhere = open_keys(path), open_keys(path)
    key, token = store.create("shop", ("translate",), NOW)
    assert elsewhere.revoke(key.id, NOW + 1) is not None
    elsewhere.revoke(key.id, NOW + 5)
    stored = store.find(token)
    assert stored is not None and (stored.revoked_at, stored.why_unusable(NOW)) == (NOW + 1, "revoked")
    assert store.revoke("000000000000", NOW) is None


def test_a_file_that_is_no_database_is_refused(open_keys: OpenKeys, tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    path.write_bytes(b"something else" * 100)
    with pytest.raises(SettingsError, match="VERSO_KEYS_DB"):
        open_keys(path)
    with pytest.raises(SettingsError, match="VERSO_KEYS_DB"):
        open_keys(path / "below")


def test_a_database_of_something_else_is_refused_and_stays_as_it_is(open_keys: OpenKeys, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE documents (id TEXT)")
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="of another program"):
        open_keys(path)
    assert path.read_bytes() == before


def test_a_file_of_a_later_release_is_refused(open_keys: OpenKeys, path: Path) -> None:
    with contextlib.closing(connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(SettingsError, match="later release"):
        open_keys(path)
