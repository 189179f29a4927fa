"""Random changes of inputs: of bytes, of JSON, and of single members of an archive."""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile
from typing import Any

from tests.fuzz.target import Change

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e308, 2**31, 2**63, -(2**63) - 1, 10**30),
    *("", "a", "\x00", "\ud800", "../../etc/passwd", "/", "é" * 300, "1", "nan"),
    *([], {}, [[]], [None], {"": None}, ["en", "de"]),
)
_ODD_BYTES = (
    *(b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x80", b"\n", b"\r\n", b"\n\n"),
    *(b"<", b">", b"&", b"</", b'"', b"'", b"]]>", b"[[[["),
)
_MOST_CHANGES = 4
_LARGE_BYTES = 100_000
_MOST_RATIO = 1_100
"""How many times their size data can have that were compressed; archives may claim more."""


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some stretches removed, repeated, moved or replaced."""
    for _ in range(rng.randint(1, _MOST_CHANGES)):
        start = rng.randint(0, len(data))
        end = min(len(data), start + rng.choice((0, 1, 1, 2, 8, 60)))
        inserted = rng.choice(
            (
                b"",
                rng.randbytes(rng.choice((1, 2, 4, 8))),
                rng.choice(_ODD_BYTES),
                _stretch(data, rng),
                _stretch(data, rng) * rng.choice((2, 5, 40)),
            )
        )
        data = data[:start] + inserted + data[end:]
    return data


def enlarged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with one stretch, of themselves or an odd one, repeated very often."""
    unit = rng.choice((_stretch(data, rng)[: rng.choice((1, 2, 8, 100))], rng.choice(_ODD_BYTES), b" ")) or b"a"
    place = rng.randint(0, len(data))
    return data[:place] + unit * (_LARGE_BYTES // len(unit)) + data[place:]


def _stretch(data: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(data))
    return data[start : start + rng.choice((1, 4, 16, 100))]


def mutated_json(data: bytes, rng: random.Random) -> bytes | None:
    """JSON with one value replaced, removed or repeated; None if the bytes are not JSON with parts."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    places = list(_places(values))
    if not places:
        return None
    parent, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[str(rng.choice(ODD_VALUES))] = parent[key]
        case 1:
            parent.insert(key, parent[key])
        case 2:
            other, name = rng.choice(places)
            parent[key] = json.loads(json.dumps(other[name]))
        case 3 if isinstance(parent[key], int | float):
            parent[key] = parent[key] * rng.choice((-1, 0, 2, 1000)) + rng.choice((-1, 0, 1))
        case _:
            parent[key] = rng.choice(ODD_VALUES)
    return json.dumps(values).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Any:
    """Each dict or list within a value, with each of its keys or indices."""
    stack = [value]
    while stack:
        parent = stack.pop()
        if isinstance(parent, dict | list):
            for key in list(parent) if isinstance(parent, dict) else range(len(parent)):
                yield parent, key
                stack.append(parent[key])


def _mutated_safetensors(data: bytes, change: Change, rng: random.Random) -> bytes | None:
    """Safetensors with another header, whose length is right, or with other numbers, as many as before."""
    end = 8 + int.from_bytes(data[:8], "little")
    if not 8 < end <= len(data):
        return None
    if rng.random() < 0.5:
        numbers = change(data[end:])[: len(data) - end]
        return data[:end] + numbers + data[end + len(numbers) :]
    header = mutated_json(data[8:end], rng)
    return None if header is None else len(header).to_bytes(8, "little") + header + data[end:]


def mutated_form(data: bytes, change: Change, rng: random.Random) -> bytes:
    """Bytes changed as the JSON or the safetensors that they are, mostly."""
    changed = None
    if rng.random() < 0.75:
        changed = mutated_json(data, rng) or _mutated_safetensors(data, change, rng)
    return change(data) if changed is None else changed


def mutated_archive(data: bytes, change: Change, rng: random.Random) -> bytes:
    """A zip archive in which one member is changed, missing, twice or renamed, with right checksums.

    One in eight is changed as bytes, which mostly damages it.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(entry, archive.read(entry)) for entry in archive.infolist()]
    except Exception:  # noqa: BLE001  (what it is damaged by is not the question here)
        return change(data)
    if not members or rng.random() < 0.125:
        return change(data)
    index = rng.randrange(len(members))
    entry, content = members[index]
    match rng.randrange(20):
        case 0:
            del members[index]
        case 1:
            members.insert(rng.randrange(len(members)), members[index])
        case 2:
            members[index] = (zipfile.ZipInfo(rng.choice(("", "a", "../a", "/a", entry.filename.upper()))), content)
        case 3:
            members[index] = (entry, rng.choice(members)[1])
        case _:
            members[index] = (entry, mutated_form(content, change, rng))
    return zipped(members)


def zipped(members: list[tuple[zipfile.ZipInfo, bytes]]) -> bytes:
    """An archive of members, each compressed as its description says."""
    written = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(written, "w") as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for entry, content in members:
            copy = zipfile.ZipInfo(entry.filename)
            copy.compress_type = entry.compress_type
            archive.writestr(copy, content)
    return written.getvalue()


def unpacked_size(data: bytes) -> int:
    """Bytes of an archive when it is unpacked, as far as its own size allows it; of other data, their number."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except Exception:  # noqa: BLE001  (as above)
        return len(data)
    return max(len(data), min(unpacked, _MOST_RATIO * len(data)))


def unzipped(data: bytes) -> list[tuple[str, bytes]]:
    """The names and contents of an archive; none if it is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    except Exception:  # noqa: BLE001  (as above)
        return []
