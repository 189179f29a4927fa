"""What an earlier release left behind is opened by this one: bundles, databases and settings (tests/releases/)."""

from __future__ import annotations

import contextlib
import json
import shutil
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from app.accounts.keys import parse_token
from app.accounts.store import KeyStore
from app.accounts.usage import Charge, Usage, UsageStore
from app.documents.document import OPTIONS, Document
from app.documents.store import DocumentStore
from app.glossaries.store import GlossaryStore
from app.settings import load_settings
from model.network.quantised import int8_is_supported
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.server import served

FOLDER = Path(__file__).parent / "releases"
STEPS = {"kind": "cross", "layer": 0, "head": 0}
RELEASES = sorted(path.parent.name for path in FOLDER.glob("*/expected.json"))


def expected(release: str) -> dict[str, Any]:
    """What the release itself read from its files."""
    body: dict[str, Any] = json.loads((FOLDER / release / "expected.json").read_text(encoding="utf-8"))
    return body


def test_this_release_leaves_files_for_the_next() -> None:
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] in RELEASES, "docs/releasing.md says how to make them"


@pytest.mark.parametrize("native", [False, True], ids=["eager", "fastest"])
@pytest.mark.parametrize("form", [".pt", ".verso"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("release", RELEASES)
def test_its_bundles_give_the_same_translations(release: str, precision: str, form: str, native: bool) -> None:
    if precision == "int8" and not int8_is_supported():
        pytest.skip("this processor has no int8 kernels")
    translator = Translator.load(FOLDER / release / f"toy-{precision}{form}", native=native)
    sources, targets = zip(*expected(release)["translations"][precision], strict=True)
    translations = translator.translate(sources, TranslationOptions(decoding="greedy"), "en", "de")
    assert tuple(translation.text for translation in translations) == targets


@pytest.mark.parametrize("release", RELEASES)
def test_its_documents_are_there_and_the_work_goes_on(release: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER / release / "documents", tmp_path / "documents")
    store = DocumentStore(tmp_path / "documents")
    for values in expected(release)["documents"]:
        assert store.get(values["id"]) == Document(**values)
        assert OPTIONS.validate_json(values["options"]).beam_size == 3
    queued, running, finished, _ = (values["id"] for values in expected(release)["documents"])
    assert store.result(finished) == b"rot Katze. Baum."
    active = store.next_active()
    assert active is not None
    assert active.id == running
    assert store.translations(running) == {0: "rot Katze."}
    store.finish(running, b"rot Katze. Baum.", 3e9)
    active = store.next_active()
    assert active is not None
    assert (active.id, store.source(queued)) == (queued, b"red cat. tree.")
    store.close()


@pytest.mark.parametrize("release", RELEASES)
def test_its_glossaries_are_there_and_can_be_changed(release: str, tmp_path: Path) -> None:
    shutil.copy(FOLDER / release / "glossaries.sqlite", tmp_path)
    values = expected(release)["glossary"]
    store = GlossaryStore(tmp_path)
    (actual,) = store.all()
    assert (actual.id, actual.name, actual.created) == (values["id"], values["name"], values["created"])
    terms = store.dictionary(actual.id, "en", "de").terms
    assert [[term.source, term.target] for term in terms] == values["terms"]
    assert store.update(actual.id, "other", ()).name == "other"
    store.close()


@pytest.mark.parametrize("release", RELEASES)
def test_its_keys_open_the_service_and_their_usage_goes_on(release: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(FOLDER / release / "keys.sqlite", tmp_path))
    values = expected(release)["key"]
    token = parse_token(values["token"])
    assert token is not None
    with contextlib.closing(KeyStore(path)) as keys:
        key = keys.find(token)
    assert key is not None
    assert json.loads(json.dumps(asdict(key))) == values["key"]
    month, used = values["usage"]["month"], Usage(**values["usage"])
    with contextlib.closing(UsageStore(path)) as usage:
        assert usage.of(key.id, month) == used
        repeated = Charge(key.id, values["charge_id"], b"asked", month, is_repeatable=True)
        for charge, requests in ((repeated, used.requests), (replace(repeated, id="new"), used.requests + 1)):
            usage.reserve(charge, 20, key.characters_per_month, key.created_at, 60.0)
            usage.settle(charge, 20, key.created_at)
            assert usage.of(key.id, month).requests == requests


@pytest.mark.parametrize("release", RELEASES)
def test_its_settings_mean_the_same(release: str) -> None:
    lines = (FOLDER / release / "settings.env").read_text(encoding="utf-8").splitlines()
    settings = load_settings(dict(line.split("=", 1) for line in lines))
    body = json.loads(settings.model_dump_json(exclude_unset=True))
    assert body == expected(release)["settings"]
    assert settings.admin_token is not None
    assert settings.admin_token.get_secret_value() == "a-token-of-24-characters"


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_a_server_gives_the_same_answers_from_both_forms(release: str) -> None:
    text = "red cat sees old dog."
    answers = []
    for form in (".pt", ".verso"):
        with served(FOLDER / release / f"toy-float32{form}") as server:
            body = {"text": text, "target": "de", "return_confidence": True, "return_alignment": True}
            translated = server.client.post("/translate", json=body).json()
            attention = server.client.post("/attention", json={"text": text, "target": "de", "steps": STEPS}).json()
        for answer in (translated, attention):
            answer.pop("timings_ms", None)
        answers.append((translated, attention))
    assert "Katze" in answers[0][0]["translations"][0]["text"]
    assert answers[0] == answers[1]
