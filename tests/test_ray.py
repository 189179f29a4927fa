"""The service on Ray Serve: answers, killed replicas, scaling, updates. Run with ``python -m pytest -m ray``."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from model.translator import Translator
from tests.app.accounts.keyed import bearer, make_key
from tests.ray_cluster import PATIENCE_S, Callers, Cluster, a_text, cluster, translated
from tests.server import free_port
from tests.test_ray_files import CONFIGURATIONS
from tests.waiting import until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]

TEXTS = [a_text(random.Random(seed), 4) for seed in range(200)]

NO_MEMORY = {"VERSO_CACHE_BYTES": "0", "VERSO_COALESCE": "off"}
"""Settings with which every sentence is decoded."""

CALLERS = 4

Ask = Callable[[httpx.Client, random.Random], str]
"""Sends a request; returns what came of it: ``ok``, or what is wrong."""


@pytest.fixture(scope="module")
def ray() -> Iterator[Cluster]:
    pytest.importorskip("ray.serve", reason="the extra ray is not installed")
    with cluster() as running:
        yield running


@pytest.fixture(scope="module")
def int8_bundle(toy_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy translator in another precision, as an update of it."""
    path = tmp_path_factory.mktemp("int8") / "toy.pt"
    export_bundle(load_checkpoint(toy_checkpoint), "int8", path, report=lambda line: None)
    return path


@pytest.fixture(scope="module")
def ask(toy_bundle: Path, int8_bundle: Path) -> Ask:
    """Asks for the translations of some texts; every second time as a stream.

    The texts are those that both precisions translate without a mistake.
    """
    answers = [
        [translation.text for translation in Translator.load(bundle).translate(TEXTS, source="en", target="de")]
        for bundle in (toy_bundle, int8_bundle)
    ]
    existing = [text for text, *result in zip(TEXTS, *answers, strict=True) if set(result) == {translated(text)}]
    assert len(existing) > 50
    return partial(_ask, existing)


def settings(bundle: Path, **others: str) -> dict[str, str]:
    return {"VERSO_MODEL": str(bundle), "VERSO_DEVICE": "cpu", "VERSO_THREADS": "1", **others}


def _ask(reference: list[str], client: httpx.Client, rng: random.Random) -> str:
    texts = rng.sample(reference, 40)
    body = {"text": texts, "source": "en", "target": "de"}
    if rng.random() < 0.5:
        answer = client.post("/translate", json=body)
        if answer.status_code != 200:
            return f"{answer.status_code}: {answer.text[:200]}"
        results = [translation["text"] for translation in answer.json()["translations"]]
        return "ok" if results == [translated(text) for text in texts] else "wrong"
    with client.stream("POST", "/translate", json=body, headers={"Accept": "application/x-ndjson"}) as stream:
        if stream.status_code != 200:
            return f"stream {stream.status_code}"
        return judged(texts, [json.loads(line) for line in stream.iter_lines()])


def judged(texts: list[str], events: list[dict[str, Any]]) -> str:
    """Whether a stream has each sentence and each text once, in order, and its end."""
    sentences = [(event["text"], event["sentence"]) for event in events if event["event"] == "sentence"]
    if max(Counter(sentences).values(), default=1) > 1:
        return "a sentence came twice"
    for number, text in enumerate(texts):
        if [sentence for of, sentence in sentences if of == number] != list(range(text.count("."))):
            return "sentences of a text are missing or out of order"
    full = {event["text"]: event["translation"]["text"] for event in events if event["event"] == "translation"}
    if full != {number: translated(text) for number, text in enumerate(texts)}:
        return "wrong texts"
    return "ok" if events[-1]["event"] == "done" else "no end"


def kill_one(ray: Cluster) -> None:
    """Kill a replica of three while it has requests, and wait until there is another one in its stead."""
    killed = ray.replicas()[0]
    killed.suspend()  # requests that it gets from now on, and those that it has, are not finished
    time.sleep(0.5)
    killed.kill()
    until(lambda: killed.pid not in {replica.pid for replica in ray.replicas()} and len(ray.replicas()) == 3)
    until(lambda: ray.num_running() == 3)


def wait_for_more(callers: Callers) -> None:
    before = callers.outcomes["ok"]
    until(lambda: callers.outcomes["ok"] > before + 10)


def only_ok(outcomes: Counter[str]) -> bool:
    return set(outcomes) == {"ok"}


def test_routes_answer_as_in_one_process(ray: Cluster, toy_bundle: Path) -> None:
    ray.deploy(settings=settings(toy_bundle))
    answer = ray.client.post(
        "/translate", json={"text": "red cat.", "source": "auto", "target": "de"}, headers={"X-Request-ID": "mine"}
    )
    assert answer.status_code == 200 and answer.headers.get_list("X-Request-ID") == ["mine"]
    (entry,) = answer.json()["translations"]
    assert (entry["text"], entry["model"], entry["detected"]["language"]) == ("rot Katze.", "toy", "en")
    attention = ray.client.post("/attention", json={"text": "red cat.", "target": "de"})
    assert attention.status_code == 200 and attention.json()["translation"] == "rot Katze."
    assert ray.client.get("/models").json()["models"][0]["name"] == "toy"
    assert ray.client.post("/libretranslate/translate", json={"q": "red", "source": "en", "target": "de"}).is_success
    form = {"auth_key": "any", "text": "red cat.", "target_lang": "DE"}
    assert ray.client.post("/v2/translate", data=form, headers={"Authorization": "DeepL-Auth-Key any"}).is_success


def test_a_port_of_its_own_answers_without_the_proxy(ray: Cluster, toy_bundle: Path, ask: Ask) -> None:
    port = free_port()
    ray.deploy(settings=settings(toy_bundle), port=port)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, trust_env=False) as client:
        answer = client.get("/models", headers={"X-Request-ID": "mine"})
        assert answer.headers.get_list("X-Request-ID") == ["mine"]
        assert [ask(client, random.Random(seed)) for seed in range(4)] == ["ok"] * 4


def test_refusals_of_a_replica_are_problems(ray: Cluster, toy_bundle: Path) -> None:
    """Limits of the queue, deadlines and errors of the model are found in the replica."""
    ray.deploy(settings=settings(toy_bundle, VERSO_QUEUE_SENTENCES="20", VERSO_DEADLINE_S="5", **NO_MEMORY))

    def code_of(**fields: Any) -> tuple[int, str]:
        answer = ray.client.post("/translate", json={"source": "en", "target": "de", **fields})
        return answer.status_code, answer.json()["code"]

    assert code_of(text="red. " * 30) == (422, "limit_exceeded")
    assert code_of(text="red cat.", target="fr") == (422, "unsupported_pair")
    assert code_of(text="red cat.", formality="formal") == (422, "unsupported_formality")
    outcomes: Counter[int] = Counter()
    threads = [
        threading.Thread(target=lambda: outcomes.update([_status_of_a_wide_search(ray.address)])) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes[429] > 0 and set(outcomes) <= {200, 429, 504}


def _status_of_a_wide_search(address: str) -> int:
    rng = random.Random(threading.get_ident())
    body = {"text": a_text(rng, 18), "source": "en", "target": "de", "beam_size": 16}
    return httpx.post(f"{address}/translate", json=body, timeout=60, trust_env=False).status_code


def test_document_is_translated(ray: Cluster, toy_bundle: Path) -> None:
    ray.deploy(settings=settings(toy_bundle))
    files = {"file": ("a.txt", b"red cat.\n\nold dog.\n")}
    document = ray.client.post("/documents", files=files, data={"source": "en", "target": "de"}).json()
    until(lambda: ray.client.get(f"/documents/{document['id']}").json()["status"] == "done")
    assert ray.client.get(f"/documents/{document['id']}/result").text == "rot Katze.\n\nalt Hund.\n"


def test_metrics_have_all_replicas(ray: Cluster, toy_bundle: Path) -> None:
    ray.deploy(settings=settings(toy_bundle), min_replicas=2, max_replicas=2)
    until(lambda: ray.num_running() == 2)
    lines = ray.client.get("/metrics").text.splitlines()
    assert len([line for line in lines if line.startswith("verso_max_batch_rows{") and "engine" in line]) == 2
    assert len([line for line in lines if line == "# TYPE verso_max_batch_rows gauge"]) == 1
    assert any(line.startswith("verso_requests_total{") and 'process="ingress"' in line for line in lines)


def test_sentences_of_a_client_that_left_are_not_decoded(ray: Cluster, toy_bundle: Path) -> None:
    ray.deploy(settings=settings(toy_bundle, **NO_MEMORY))
    body = {"text": [a_text(random.Random(1), 30) for _ in range(100)], "target": "de", "beam_size": 16}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{ray.address}/translate", json=body, timeout=1.0, trust_env=False)
    until(lambda: 'outcome="cancelled"' in ray.client.get("/metrics").text)


def test_killed_replicas_lose_and_double_nothing(ray: Cluster, toy_bundle: Path, ask: Ask) -> None:
    ray.deploy(settings=settings(toy_bundle, **NO_MEMORY), min_replicas=3, max_replicas=3)
    until(lambda: ray.num_running() == 3)
    with Callers(ray.address, CALLERS, ask) as callers:
        wait_for_more(callers)
        for _ in range(3):
            kill_one(ray)
            wait_for_more(callers)
    assert only_ok(callers.outcomes), callers.outcomes
    losses = [line for line in ray.client.get("/metrics").text.splitlines() if "verso_replica_losses_total{" in line]
    assert sum(float(line.rpartition(" ")[2]) for line in losses) > 0, "no request was at a killed replica"


def test_replicas_follow_the_sentences(ray: Cluster, toy_bundle: Path, ask: Ask) -> None:
    ray.deploy(
        settings=settings(toy_bundle, **NO_MEMORY),
        min_replicas=1,
        max_replicas=3,
        sentences_per_replica=2,
        upscale_delay_s=0.5,
        downscale_delay_s=2,
        look_back_s=2,
    )
    until(lambda: ray.num_running() == 1)
    with Callers(ray.address, CALLERS, ask) as callers:
        until(lambda: ray.num_running() == 3)
    until(lambda: ray.num_running() == 1 and len(ray.replicas()) == 1)
    assert only_ok(callers.outcomes), callers.outcomes


def test_update_of_the_weights_loses_nothing(ray: Cluster, toy_bundle: Path, int8_bundle: Path, ask: Ask) -> None:
    ray.deploy(settings=settings(toy_bundle, **NO_MEMORY), min_replicas=2, max_replicas=2)
    until(lambda: ray.num_running() == 2)
    old = {process.pid for process in ray.replicas() + ray.replicas("ingress")}
    with Callers(ray.address, CALLERS, ask) as callers:
        wait_for_more(callers)
        ray.deploy(settings=settings(int8_bundle, **NO_MEMORY), min_replicas=2, max_replicas=2)
        until(lambda: ray.num_running() == 2 and not old & {replica.pid for replica in ray.replicas()})
        time.sleep(1)
    assert only_ok(callers.outcomes), callers.outcomes
    until(lambda: ray.client.get("/models").json()["models"][0]["precision"] == "int8")  # it is asked for now and then


def test_engines_of_several_models_each_get_their_pairs(
    ray: Cluster, toy_bundle: Path, int8_bundle: Path, ask: Ask
) -> None:
    """Both engines have the pair; the first one serves it."""
    ray.deploy(
        settings=settings(toy_bundle),
        engines={"small": {"settings": {"VERSO_MODEL": str(int8_bundle)}}, "large": {"max_replicas": 2}},
    )
    precisions = [model["precision"] for model in ray.client.get("/models").json()["models"]]
    assert precisions == ["int8", "float32"]
    assert ask(ray.client, random.Random(1)) == "ok"
    lines = ray.client.get("/metrics").text.splitlines()
    finished = [line for line in lines if line.startswith("verso_sentences_total") and "finished" in line]
    assert finished and all("#small#" in line for line in finished)


def test_keys_hold(ray: Cluster, toy_bundle: Path, tmp_path: Path) -> None:
    database = tmp_path / "keys.sqlite"
    key = make_key(database, requests_per_minute=2)
    ray.deploy(settings=settings(toy_bundle, VERSO_KEYS_DB=str(database)))
    body = {"text": "red cat.", "target": "de"}
    assert ray.client.post("/translate", json=body).status_code == 401
    answers = [ray.client.post("/translate", json=body, headers=bearer(key)) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert "RateLimit" in answers[0].headers


def test_clients_are_known_by_their_addresses(ray: Cluster, toy_bundle: Path) -> None:
    """Not by that of Ray Serve's proxy; a proxy on this machine is believed, as in one process."""
    ray.deploy(settings=settings(toy_bundle, VERSO_ADDRESS_REQUESTS_PER_MINUTE="1"))
    body = {"text": "red cat.", "target": "de"}
    clients = ["192.0.2.1", "192.0.2.2", "192.0.2.1"]
    answers = [ray.client.post("/translate", json=body, headers={"X-Forwarded-For": client}) for client in clients]
    assert [answer.status_code for answer in answers] == [200, 200, 429]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=["serve", "kuberay"])
def test_configurations_fit_the_schema_of_ray_serve(configuration: dict[str, Any]) -> None:
    schema = pytest.importorskip("ray.serve.schema")
    assert schema.ServeDeploySchema.model_validate(configuration).applications[0].name == "verso"


@pytest.mark.parametrize("name", ["RayActorError", "RayTaskError", "DeploymentUnavailableError"])
def test_metrics_are_answered_also_while_replicas_die(name: str) -> None:
    exceptions = pytest.importorskip("ray.exceptions", reason="the extra ray is not installed")
    from ray.serve import exceptions as of_serve

    from app.cluster.ray_engine import RayEngine

    kind = getattr(exceptions, name, None) or getattr(of_serve, name)

    class Handle:
        def options(self, **_: object) -> Handle:
            return self

        def broadcast(self, method: str) -> Handle:
            return self

        async def results_async(self, **_: object) -> list[object]:
            raise kind.__new__(kind)

    assert asyncio.run(RayEngine(Handle()).metrics()) == {}
