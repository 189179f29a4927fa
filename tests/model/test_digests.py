from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from model.process.files import file_digest, is_digest
from model.process.folders import cache_folder


def test_the_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some bytes")
    assert file_digest(path) == hashlib.sha256(b"some bytes").hexdigest()
    assert is_digest(file_digest(path)) and is_digest(file_digest(path).upper())


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 65, "g" * 64, "0" * 64 + "\n", "0" * 63 + "٣"])
def test_an_invalid_digest_is_recognised(text: str) -> None:
    assert not is_digest(text)


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "verso"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "verso"
