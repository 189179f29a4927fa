"""Write the files that the present release leaves behind, for the tests of all later ones to open.

usage: python -m tests.releases.make FOLDER [CHECKPOINT]

Run it when a release is made, from the root of the repository: ``python -m tests.releases.make tests/releases/X.Y.Z``.
A folder that is there belongs to a release and is not written again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.accounts.store import KeyStore
from app.accounts.usage import Charge, UsageStore, month_of
from app.documents.document import OPTIONS, Document
from app.documents.store import DocumentStore
from app.engine.caller import Priority
from app.glossaries.store import Dictionary, GlossaryStore
from app.settings import Settings, load_settings
from model.artifacts.checkpoint import Checkpoint, load_checkpoint
from model.artifacts.convert import convert_bundle
from model.artifacts.export import export_bundle
from model.network.quantised import int8_is_supported
from model.text.glossary import GlossaryTerm
from model.text.tokenizer import VersoTokenizer
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests import toy

TEXTS = ["red cat sees old dog.", "the old house", "dog likes tree. cat sees house."]
PRECISIONS = ("float32", "int8")
NOW = 1_800_000_000.0
"""When the key was made and used, in seconds since 1970."""

SETTINGS = {
    "VERSO_HOST": "0.0.0.0",
    "VERSO_PORT": "9000",
    "VERSO_ROOT_PATH": "/verso",
    "VERSO_MODEL": "mine.pt",
    "VERSO_PIVOT": "off",
    "VERSO_MODEL_SHA256": "0123456789abcdef" * 4,
    "VERSO_AUTO_BUNDLE": "auto.pt",
    "VERSO_DEVICE": "cpu",
    "VERSO_THREADS": "1",
    "VERSO_NATIVE": "off",
    "VERSO_SHORTLIST": "on",
    "VERSO_GRAPHS": "off",
    "VERSO_ISA": "avx2",
    "VERSO_CACHE_DIR": "cache",
    "VERSO_COMPAT": "libretranslate",
    "VERSO_MAX_BODY_BYTES": "3000000",
    "VERSO_MAX_RECEIVED_BYTES": "100000000",
    "VERSO_MAX_TEXTS": "64",
    "VERSO_MAX_TEXT_CHARACTERS": "40000",
    "VERSO_MAX_BEAM_SIZE": "8",
    "VERSO_MAX_HYPOTHESES": "8",
    "VERSO_MAX_ATTENTION_CELLS": "100000",
    "VERSO_QUEUE_SENTENCES": "2000",
    "VERSO_DEADLINE_S": "20",
    "VERSO_MAX_BATCH_TOKENS": "4096",
    "VERSO_MAX_BATCH_ROWS": "64",
    "VERSO_CACHE_BYTES": "1000000",
    "VERSO_COALESCE": "off",
    "VERSO_DATA_DIR": "data",
    "VERSO_MAX_DOCUMENT_BYTES": "5000000",
    "VERSO_MAX_DOCUMENTS": "10",
    "VERSO_MAX_DOCUMENTS_PER_KEY": "5",
    "VERSO_MAX_GLOSSARIES_PER_KEY": "20",
    "VERSO_MAX_GLOSSARY_CHARACTERS_PER_KEY": "1000000",
    "VERSO_DRAIN_TIMEOUT_S": "10",
    "VERSO_KEEP_ALIVE_S": "15",
    "VERSO_ADMIN_TOKEN": "a-token-of-24-characters",
    "VERSO_CLIENT_TIMEOUT_S": "20",
    "VERSO_STEP_TIMEOUT_S": "60",
    "VERSO_KEYS_DB": "keys.sqlite",
    "VERSO_ANONYMOUS": "on",
    "VERSO_ADDRESS_REQUESTS_PER_MINUTE": "600",
    "VERSO_TRUSTED_PROXIES": "10.0.0.0/8,127.0.0.1",
    "VERSO_ALLOWED_HOSTS": "translate.example",
    "VERSO_CORS_ORIGINS": "https://shop.example",
    "VERSO_OTLP_ENDPOINT": "http://localhost:4318",
    "VERSO_LOG_LEVEL": "warning",
}
"""Variables as an operator may have them."""


def make(folder: Path, checkpoint: Checkpoint) -> None:
    """Write all files of a release."""
    folder.mkdir(parents=True)
    expected: dict[str, Any] = {"translations": {}}
    for precision in PRECISIONS:
        bundle = folder / f"toy-{precision}.pt"
        export_bundle(checkpoint, precision, bundle)  # type: ignore[arg-type]
        convert_bundle(bundle, bundle.with_suffix(".verso"))
        translations = Translator.load(bundle).translate(TEXTS, TranslationOptions(decoding="greedy"), "en", "de")
        expected["translations"][precision] = [
            [first, other.text] for first, other in zip(TEXTS, translations, strict=True)
        ]
    expected["documents"] = _write_documents(folder)
    expected["glossary"] = _write_glossaries(folder)
    expected["key"] = _write_keys(folder / "keys.sqlite")
    lines = [f"{name}={value}\n" for name, value in SETTINGS.items()]
    (folder / "settings.env").write_text("".join(lines), encoding="utf-8")
    expected["settings"] = json.loads(load_settings(SETTINGS).model_dump_json(exclude_unset=True))
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def small(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint whose vocabulary has no table of Unicode normalisation, which is larger than all the rest."""
    assert isinstance(checkpoint.tokenizer, VersoTokenizer)
    proto = b"".join(
        # Field 3 is the specification of normalisation, whose field 2 is the table.
        _field(3, _without(2, content)) if number == 3 else full
        for number, content, full in _fields(checkpoint.tokenizer.model_proto)
    )
    facts = {**checkpoint.facts, "dev_sample": checkpoint.facts["dev_sample"][:10]}
    return replace(checkpoint, tokenizer=VersoTokenizer(proto), facts=facts)


def _without(unwanted: int, message: bytes) -> bytes:
    return b"".join(full for number, _, full in _fields(message) if number != unwanted)


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that has a length."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    digits = []
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Number, content and whole of each field of a protocol buffer (https://protobuf.dev/programming-guides/encoding)."""
    position = 0
    while position < len(message):
        start = position
        key, position = _read_varint(message, position)
        begin = position
        match key & 7:
            case 0:
                _, position = _read_varint(message, position)
            case 1:
                position += 8
            case 2:
                length, begin = _read_varint(message, position)
                position = begin + length
            case 5:
                position += 4
            case kind:
                raise ValueError(f"a field is of the unknown kind {kind}")
        yield key >> 3, message[begin:position], message[start:position]


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return value, position
        shift += 7


def _write_documents(folder: Path) -> list[dict[str, Any]]:
    """A database with a document that waits, one that is half done, one that is done, and one that failed."""
    options = OPTIONS.dump_json(TranslationOptions(decoding="beam", beam_size=3, length_penalty=0.6)).decode()
    documents = [
        Document(f"{number:032x}", f"{status}.txt", "en", "de", options, "queued", 12, created, 2e9 + number)
        # The one that waits came last: a document is begun after those that came before it.
        for number, (status, created) in enumerate((("queued", 4.0), ("running", 3.0), ("done", 1.0), ("failed", 2.0)))
    ]
    store = DocumentStore(folder / "documents")
    for document in documents:
        store.add(document, b"red cat. tree.")
    _, running, finished, failed = documents
    for document in (running, finished):
        store.begin(document.id, 2)
        store.add_translations(document.id, {0: "rot Katze."}, 1, 0)
    store.finish(finished.id, b"rot Katze. Baum.", 3e9)
    store.end(failed.id, "failed", 3e9, {"type": "about:blank", "title": "it failed", "status": 500})
    results = [store.get(document.id) for document in documents]
    store.close()
    return [asdict(document) for document in results if document is not None]


def _write_glossaries(folder: Path) -> dict[str, Any]:
    """A database with one glossary of two language pairs."""
    store = GlossaryStore(folder)
    terms = (GlossaryTerm("tree", "Gehölz"), GlossaryTerm("old dog", "Köter"))
    dictionaries = [Dictionary("en", "de", terms), Dictionary("de", "en", (GlossaryTerm("Haus", "home"),))]
    info = store.create("Häuser & Bäume", dictionaries)
    store.close()
    return {**asdict(info), "terms": [[term.source, term.target] for term in terms]}


def _write_keys(path: Path) -> dict[str, Any]:
    """A database with a key that has every limit, and two counted requests of it, one of them with an id."""
    with contextlib.closing(KeyStore(path)) as store:
        key, token = store.create(
            "the shop",
            ["translate", "documents"],
            NOW,
            expires_at=NOW + 1e9,
            characters_per_month=1000,
            requests_per_minute=60,
            concurrent_sentences=8,
            priority=Priority.BULK,
        )
    month = month_of(NOW)
    repeated = Charge(key.id, "again", b"asked", month, is_repeatable=True)
    with contextlib.closing(UsageStore(path)) as usage:
        for charge in (repeated, Charge(key.id, "once", b"other", month, is_repeatable=False)):
            usage.reserve(charge, 20, 1000, NOW, 60.0)
            usage.settle(charge, 20, NOW)
        used = usage.of(key.id, month)
    return {"key": asdict(key), "token": token.text, "usage": asdict(used), "charge_id": repeated.id}


def main() -> int:
    """Train a toy, unless a checkpoint of it is given, and write the folder."""
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: python -m tests.releases.make FOLDER [CHECKPOINT]")
    folder = Path(sys.argv[1])
    if folder.exists():
        sys.exit(f"{folder} is there already; files of a release are not written again")
    # The other way to name bundles is VERSO_MODEL, and both together are refused.
    missing = {f"VERSO_{name.upper()}" for name in Settings.model_fields} - {*SETTINGS, "VERSO_MODELS"}
    if missing:
        sys.exit(f"give {', '.join(sorted(missing))} a value in SETTINGS")
    if not int8_is_supported():
        sys.exit("an int8 bundle is among the files: run this on an x86 processor")
    with tempfile.TemporaryDirectory() as work:
        path = Path(sys.argv[2]) if len(sys.argv) == 3 else toy.train_toy(Path(work), narrow=True)
        try:
            make(folder, small(load_checkpoint(path)))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    print(folder, f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
