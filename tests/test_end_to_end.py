"""End to end: a toy translator is trained, exported, served by a real process, and used over HTTP."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from tests.hub import FakeHub, running_hub
from tests.model.importing.checkpoints import make_marian
from tests.server import ROOT, Server, served
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def server(toy_bundle: Path) -> Iterator[Server]:
    with served(toy_bundle) as running:
        yield running


def test_a_sentence_is_translated_both_ways_greedy_and_with_a_beam(server: Server) -> None:
    for options in ({"decoding": "greedy"}, {"decoding": "beam", "beam_size": 4}):
        assert server.translate(text="red cat sees old dog.", **options)["translations"][0]["text"] == (
            "rot Katze sieht alt Hund."
        )
    back = server.translate(text="alt Baum.", source="DE", target="en-GB")
    assert back["translations"][0]["text"] == "old tree."
    assert back["model"] == "toy"


def test_hypotheses_come_with_scores_best_first(server: Server) -> None:
    (translation,) = server.translate(text="cat likes tree.", num_hypotheses=3, return_scores=True)["translations"]
    scores = [translation["score"], *(other["score"] for other in translation["alternatives"])]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_a_text_of_two_paragraphs_keeps_its_layout(server: Server) -> None:
    (translation,) = server.translate(text="red cat.  old dog.\n\n\n  tree.\n", return_alignment=True)["translations"]
    assert translation["text"] == "rot Katze.  alt Hund.\n\n\n  Baum.\n"
    assert translation["alignment"]


def test_a_text_of_two_paragraphs_has_a_confidence_if_it_is_asked_for(server: Server) -> None:
    text = "red cat.  old dog.\n\n\n  tree.\n"
    (plain,) = server.translate(text=text)["translations"]
    (translation,) = server.translate(text=text, return_confidence=True)["translations"]
    confidence = translation.pop("confidence")
    assert translation == plain
    assert [plain["text"][slice(*word["target"])] for word in confidence["words"]] == plain["text"].split()
    assert 0.0 < confidence["score"] <= 1.0
    assert {text[slice(*span)] for span in confidence["uncovered"]} <= set(text.split())


def test_attention_in_three_formats(server: Server) -> None:
    request = {"text": "red cat.", "target": "de", "kinds": ["cross", "encoder", "decoder"]}
    body = server.client.post("/attention", json=request).json()
    for kind in ("cross", "encoder", "decoder"):
        np.testing.assert_allclose(np.array(body[kind]["weights"]).sum(-1), 1.0, atol=1e-5)
    packed = server.client.post("/attention", json=request, headers={"accept": "application/x-npz"})
    with np.load(io.BytesIO(packed.content)) as arrays:
        np.testing.assert_allclose(arrays["cross"], np.array(body["cross"]["weights"]), atol=1e-6)
    request["kinds"] = ["cross"]
    picture = server.client.post("/attention", json=request, headers={"accept": "image/png"})
    assert picture.content.startswith(b"\x89PNG")


def test_the_steps_of_a_head_lead_to_its_weights(server: Server) -> None:
    request = {
        "text": "red cat.",
        "target": "de",
        "kinds": ["decoder"],
        "steps": {"kind": "decoder", "layer": 0, "head": 1},
    }
    body = server.client.post("/attention", json=request).json()
    steps = {name: np.array(value, dtype=float) for name, value in body["steps"].items() if name != "kind"}
    query, key = steps["query"], steps["key"]
    np.testing.assert_allclose(steps["scores"], query @ key.T / np.sqrt(query.shape[1]), atol=1e-5)
    powers = np.nan_to_num(np.exp(steps["masked"]))  # null becomes NaN
    np.testing.assert_allclose(powers / powers.sum(axis=1, keepdims=True), steps["weights"], atol=1e-5)
    np.testing.assert_allclose(steps["weights"], np.array(body["decoder"]["weights"])[0, 1], atol=1e-6)
    packed = server.client.post("/attention", json=request, headers={"accept": "application/x-npz"})
    with np.load(io.BytesIO(packed.content)) as arrays:
        np.testing.assert_allclose(arrays["steps_result"], steps["result"], atol=1e-6)
        np.testing.assert_array_equal(np.isneginf(arrays["steps_masked"]), np.isnan(steps["masked"]))
    refused = server.client.post("/attention", json={**request, "steps": {"kind": "decoder", "layer": 9, "head": 1}})
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_head")


def test_sixty_four_concurrent_clients_get_the_results_of_one(server: Server) -> None:
    texts = ["red cat.", "old dog likes tree.", "house.", "tree sees red house."]
    alone = [server.translate(text=text)["translations"][0]["text"] for text in texts]
    with ThreadPoolExecutor(64) as clients:
        translations = list(
            clients.map(lambda n: server.translate(text=texts[n % 4])["translations"][0]["text"], range(64))
        )
    assert translations == alone * 16
    metrics = server.client.get("/metrics").text
    assert "verso_batch_rows_count" in metrics


def test_the_log_never_contains_the_text(server: Server) -> None:
    server.translate(text="secretive cat")
    server.client.post("/translate", json={"text": "secretive cat", "target": "xx"})
    assert not any("secretive" in line for line in server.lines)


def test_sigterm_under_load_finishes_running_requests_and_exits_with_0(toy_bundle: Path) -> None:
    server = Server(toy_bundle, VERSO_MAX_TEXTS="1000", VERSO_CACHE_BYTES="0", VERSO_COALESCE="off")
    try:
        server.wait_until_ready()
        with ThreadPoolExecutor(8) as clients:
            request = {"text": ["red cat sees old dog."] * 50, "beam_size": 16}
            running = [clients.submit(server.translate, **request) for _ in range(8)]
            while server.admitted() < 8 * 50:
                assert not all(future.done() for future in running)
            assert server.stop() == 0
            for future in running:
                texts = {translation["text"] for translation in future.result()["translations"]}
                assert texts == {"rot Katze sieht alt Hund."}
    finally:
        server.popen.kill()
        server.wait()


def renamed_toy(toy_checkpoint: Path, path: Path, name: str, *pairs: tuple[str, str]) -> Path:
    """The toy with another name and other pairs in its manifest."""
    checkpoint = load_checkpoint(toy_checkpoint)
    renamed = replace(checkpoint, facts={**checkpoint.facts, "name": name, "pairs": pairs})
    export_bundle(renamed, "float32", path, report=lambda line: None)
    return path


@pytest.fixture(scope="module")
def french_bundle(toy_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy as a translator from French; its French is English."""
    return renamed_toy(toy_checkpoint, tmp_path_factory.mktemp("french") / "french.pt", "french", ("fr", "de"))


def test_two_bundles_of_a_folder_serve_their_pairs(toy_bundle: Path, french_bundle: Path, tmp_path: Path) -> None:
    for bundle in (toy_bundle, french_bundle):
        shutil.copy(bundle, tmp_path)
    server = Server(tmp_path)
    try:
        server.wait_until_ready()
        assert [model["name"] for model in server.client.get("/models").json()["models"]] == ["french", "toy"]
        for source, model in (("fr-CA", "french"), ("EN", "toy")):
            answer = server.translate(text="red cat.", source=source)
            assert answer["translations"][0]["text"] == "rot Katze."
            assert (answer["model"], answer["translations"][0]["model"]) == (model, model)
        refused = server.client.post("/translate", json={"text": "red cat.", "source": "de", "target": "fr"})
        assert refused.status_code == 422
        assert "The pairs are fr-de, de-en, en-de" in refused.json()["detail"]
        texts = ["red cat sees old house.", "alte Katze sieht rotes Haus.", "42"]
        translations = server.translate(text=texts, source="auto")["translations"]
        assert [entry["text"] for entry in translations] == ["rot Katze sieht alt Haus.", *texts[1:]]
        assert [entry["source"] for entry in translations] == ["en", "de", "zxx"]
        assert translations[0]["detected"]["language"] == "en"
        assert 0.5 < translations[0]["detected"]["confidence"] <= 1
        assert translations[2]["detected"] is None
        attention = server.client.post("/attention", json={"text": "red cat.", "source": "auto", "target": "de"})
        assert (attention.json()["model"], attention.json()["detected"]["language"]) == ("toy", "en")
        assert server.stop() == 0
    finally:
        server.popen.kill()
        server.wait()


def test_a_bundle_is_loaded_and_unloaded_while_translations_run(
    toy_bundle: Path, french_bundle: Path, tmp_path: Path
) -> None:
    shutil.copy(toy_bundle, tmp_path)
    token = "a-secret-of-the-operator"
    server = Server(tmp_path, VERSO_ADMIN_TOKEN=token)
    as_operator = {"authorization": f"Bearer {token}"}
    event = threading.Event()

    def keep_asking(source: str) -> list[str]:
        translations = []
        while not event.is_set():
            translations.append(
                server.translate(text="red cat sees old dog.", source=source)["translations"][0]["text"]
            )
        return translations

    try:
        server.wait_until_ready()
        shutil.copy(french_bundle, tmp_path)
        with ThreadPoolExecutor(6) as clients:
            english = [clients.submit(keep_asking, "en") for _ in range(3)]
            request = {"file": "french.pt", "sha256": hashlib.sha256(french_bundle.read_bytes()).hexdigest()}
            assert server.client.post("/admin/models", json=request).status_code == 401
            loaded = server.client.post("/admin/models", json=request, headers=as_operator)
            assert (loaded.status_code, loaded.json()["name"]) == (201, "french")
            assert server.client.post("/admin/models", json=request, headers=as_operator).status_code == 409
            assert server.translate(text="old tree.", source="fr")["translations"][0]["text"] == "alt Baum."
            long = clients.submit(server.translate, text=["red cat sees old dog."] * 100, source="fr")
            while "verso_queue_sentences 0.0" in server.client.get("/metrics").text and not long.done():
                pass
            removed = server.client.delete("/admin/models/french", headers=as_operator)
            assert (removed.status_code, removed.json()["name"]) == (200, "french")
            assert {entry["text"] for entry in long.result()["translations"]} == {"rot Katze sieht alt Hund."}
            refused = server.client.post("/translate", json={"text": "old tree.", "source": "fr", "target": "de"})
            assert (refused.status_code, refused.json()["code"]) == (422, "unsupported_pair")
            event.set()
            for future in english:
                assert set(future.result()) == {"rot Katze sieht alt Hund."}
        assert "verso_models 1.0" in server.client.get("/metrics").text
        assert server.client.delete("/admin/models/toy", headers=as_operator).status_code == 200
        assert server.client.get("/readyz").status_code == 503
        assert server.stop() == 0
        assert not any(token in line for line in server.lines)
    finally:
        event.set()
        server.popen.kill()
        server.wait()


@pytest.mark.slow
def test_training_on_the_command_line_can_be_stopped_and_resumed(toy_checkpoint: Path, tmp_path: Path) -> None:
    folder = toy_checkpoint.parents[1]
    command = [sys.executable, "-m", "model", "train", "--config", str(folder / "toy.yaml"), "--data", str(folder)]
    for _ in range(2):
        process = subprocess.run(
            [*command, "--run", str(tmp_path / "run"), "--stop-after", "3"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert process.stdout.strip() == str(tmp_path / "run" / "last.pt")
    assert "resuming after update 3" in process.stderr
    assert "tok/s, loss" in process.stderr


def log_of(server: Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.lines if line.startswith("{")]


def wait_until_asked(hub: FakeHub, server: Server) -> None:
    end = time.monotonic() + PATIENCE_S
    while not hub.asked:
        assert time.monotonic() < end, server.lines
        time.sleep(0.02)


@pytest.mark.slow
def test_a_model_of_a_hub_is_pulled_at_the_start_and_served_without_the_hub_afterwards(
    toy_bundle: Path, tmp_path: Path
) -> None:
    name = "Helsinki-NLP/opus-mt-en-de"
    make_marian(tmp_path / "marian", multilingual=True)
    settings = {
        "VERSO_MODEL": "",
        "VERSO_MODELS": f"{toy_bundle},hf:{name}",
        "VERSO_CACHE_DIR": str(tmp_path / "cache"),
    }
    with running_hub() as hub:
        settings["HF_ENDPOINT"] = hub.address
        commit = hub.add(name, tmp_path / "marian")
        hub.open.clear()
        running = Server(toy_bundle, **settings)
        try:
            wait_until_asked(hub, running)
            ready = running.client.get("/readyz")
            assert (ready.status_code, ready.json()["code"]) == (503, "not_ready")
            hub.open.set()
            running.wait_until_ready()
            models = running.client.get("/models").json()["models"]
            assert [model["name"] for model in models] == ["toy", "opus-mt-en-de"]
            first = running.translate(text="Hello world.", target="fr")
            assert first["model"] == "opus-mt-en-de"
            assert any(commit in line["message"] for line in log_of(running))
        finally:
            hub.open.set()
            assert running.stop() == 0
    again = Server(toy_bundle, **settings)
    try:
        again.wait_until_ready()
        assert again.translate(text="Hello world.", target="fr")["translations"] == first["translations"]
        lines = [line for line in log_of(again) if line["logger"] == "app.bundles"]
        (warning,) = [line["message"] for line in lines if line["level"] == "warning"]
        assert "cannot be reached" in warning and commit[:12] in warning
    finally:
        assert again.stop() == 0


@pytest.mark.slow
def test_a_model_that_the_hub_does_not_have_ends_the_start_with_the_reason(tmp_path: Path) -> None:
    with running_hub() as hub:
        settings = {"VERSO_MODEL": "hf:nobody/nothing", "VERSO_CACHE_DIR": str(tmp_path), "HF_ENDPOINT": hub.address}
        running = Server(Path(), **{"VERSO_MODELS": "", **settings})
        assert running.wait() == 1
    assert running.lines[-1].startswith("verso: cannot start: hf:nobody/nothing: ")
    assert "has no model nobody/nothing, or it is private" in running.lines[-1]


@pytest.mark.slow
def test_a_pull_ends_with_the_service_that_started_it(tmp_path: Path) -> None:
    name = "a/b"
    make_marian(tmp_path / "marian")
    with running_hub() as hub:
        hub.add(name, tmp_path / "marian")
        hub.open.clear()
        settings = {"VERSO_MODEL": f"hf:{name}", "VERSO_CACHE_DIR": str(tmp_path), "HF_ENDPOINT": hub.address}
        running = Server(Path(), **{"VERSO_MODELS": "", **settings})
        try:
            wait_until_asked(hub, running)
            (pull,) = psutil.Process(running.popen.pid).children()
        finally:
            running.popen.kill()
            running.wait()
            hub.open.set()
        pull.wait(PATIENCE_S)
    assert not list(tmp_path.rglob("*.pt"))
