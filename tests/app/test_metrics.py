from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.telemetry import gpu_metrics
from app.telemetry.gpu_metrics import GpuMemory
from app.telemetry.metrics import Ending, Metrics


def values(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_events_are_counted() -> None:
    metrics = Metrics()
    metrics.request_finished("/translate", "POST", 200, 0.2)
    metrics.refused("queue_full")
    metrics.ready_changed(True)
    metrics.load_changed({"interactive": 2, "bulk": 1}, 2)
    metrics.joined([4, 2], [0.1, 0.0])
    metrics.stepped(8, 0.004)
    metrics.models_changed(2)
    metrics.sentence_left("m", "finished", 7)
    metrics.sentence_left("m", "cancelled")
    metrics.budget_changed(64, 9000)
    metrics.cache_queried(3, 2)
    metrics.cache_changed(2, 1500)
    metrics.coalesced(4)
    counts = values(metrics)
    assert counts["verso_requests_total", (("method", "POST"), ("route", "/translate"), ("status", "200"))] == 1
    assert counts["verso_refusals_total", (("reason", "queue_full"),)] == 1
    assert counts["verso_ready", ()] == 1
    assert (counts["verso_queue_sentences", ()], counts["verso_running_sentences", ()]) == (3, 2)
    assert counts["verso_source_tokens_total", ()] == 6
    assert counts["verso_padding_share_sum", ()] == 0.25
    assert counts["verso_queue_wait_seconds_count", ()] == 2
    assert (counts["verso_decode_steps_total", ()], counts["verso_batch_rows_sum", ()]) == (1, 8)
    assert counts["verso_target_tokens_total", ()] == 7
    assert counts["verso_sentences_total", (("model", "m"), ("outcome", "cancelled"))] == 1
    assert counts["verso_models", ()] == 2
    assert (counts["verso_max_batch_rows", ()], counts["verso_max_batch_tokens", ()]) == (64, 9000)
    assert (counts["verso_cache_hits_total", ()], counts["verso_cache_misses_total", ()]) == (3, 2)
    assert (counts["verso_cache_entries", ()], counts["verso_cache_bytes", ()]) == (2, 1500)
    assert counts["verso_coalesced_sentences_total", ()] == 4


def test_two_applications_do_not_share_metrics() -> None:
    first, second = Metrics(), Metrics()
    first.refused("x")
    assert ("verso_refusals_total", (("reason", "x"),)) not in values(second)


def test_gauges_show_the_current_state() -> None:
    metrics = Metrics()
    metrics.ready_changed(True)
    metrics.load_changed({"interactive": 9}, 8)
    metrics.ready_changed(False)
    metrics.load_changed({"interactive": 1}, 0)
    counts = values(metrics)
    assert [counts[f"verso_{name}", ()] for name in ("ready", "queue_sentences", "running_sentences")] == [0, 1, 0]


@pytest.mark.parametrize("ending", get_args(Ending))
def test_every_ending_is_counted_by_its_name(ending: Ending) -> None:
    metrics = Metrics()
    for model in ("one", "one", "two"):
        metrics.sentence_left(model, ending)
    counts = values(metrics)
    assert counts["verso_sentences_total", (("model", "one"), ("outcome", ending))] == 2
    assert counts["verso_sentences_total", (("model", "two"), ("outcome", ending))] == 1
    assert counts["verso_target_tokens_total", ()] == 0


def test_durations_are_in_seconds_and_fall_into_their_buckets() -> None:
    metrics = Metrics()
    metrics.request_finished("/translate", "POST", 200, 0.3)
    metrics.stepped(4, 0.003)
    counts = values(metrics)
    assert counts["verso_request_seconds_sum", (("route", "/translate"),)] == 0.3
    assert counts["verso_request_seconds_bucket", (("le", "0.25"), ("route", "/translate"))] == 0
    assert counts["verso_request_seconds_bucket", (("le", "0.5"), ("route", "/translate"))] == 1
    assert counts["verso_decode_step_seconds_bucket", (("le", "0.0025"),)] == 0
    assert counts["verso_decode_step_seconds_bucket", (("le", "0.005"),)] == 1
    assert counts["verso_batch_rows_bucket", (("le", "4.0"),)] == 1


def test_every_metric_has_the_prefix_and_a_description() -> None:
    families = list(text_string_to_metric_families(Metrics().render().decode()))
    assert families
    assert all(family.name.startswith("verso_") and family.documentation.endswith(".") for family in families)


def translator_on(device: str, name: str, graphs: Any = None) -> Any:
    """A translator as far as its metrics ask it."""
    return SimpleNamespace(device=device, manifest=SimpleNamespace(name=name), backend=SimpleNamespace(graphs=graphs))


GRAPHS = SimpleNamespace(are_on=True, num_kept=5, num_captures=9, capture_s=1.5)
SWITCHED_OFF = SimpleNamespace(are_on=False, num_kept=0, num_captures=1, capture_s=0.1)


def test_memory_and_graphs_of_gpus_are_read_when_the_metrics_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_metrics, "gpu_memory", lambda device: GpuMemory(700, 100, 200))
    metrics = Metrics()
    models = [
        translator_on("cuda", "one", GRAPHS),
        translator_on("cuda", "two", SWITCHED_OFF),
        translator_on("cuda", "three"),  # another back-end has no graphs
    ]
    metrics.watch_gpus(lambda: models)
    counts = values(metrics)
    for name, number in (("free", 700), ("allocated", 100), ("reserved", 200)):
        assert counts[f"verso_gpu_{name}_bytes", (("device", "cuda"),)] == number
    assert counts["verso_graphs", (("model", "one"),)] == 5
    assert counts["verso_graph_captures_total", (("model", "one"),)] == 9
    assert counts["verso_graph_capture_seconds_total", (("model", "one"),)] == 1.5
    assert [counts["verso_graphs_enabled", (("model", name),)] for name in ("one", "two")] == [1, 0]
    assert ("verso_graphs", (("model", "three"),)) not in counts
    families = list(text_string_to_metric_families(metrics.render().decode()))
    assert all(family.documentation.endswith(".") for family in families)

    models.clear()
    assert not any(name.startswith(("verso_gpu", "verso_graph")) for name, _ in values(metrics))


def test_a_gpu_that_does_not_answer_leaves_the_other_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: str) -> GpuMemory:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(gpu_metrics, "gpu_memory", broken)
    metrics = Metrics()
    metrics.watch_gpus(lambda: [translator_on("cuda", "one", GRAPHS)])
    counts = values(metrics)
    assert counts["verso_graphs", (("model", "one"),)] == 5
    assert ("verso_gpu_free_bytes", (("device", "cuda"),)) not in counts
    assert counts["verso_ready", ()] == 0


def test_models_on_the_cpu_have_no_metrics_of_gpus_and_ask_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_metrics, "gpu_memory", lambda device: pytest.fail("a driver was asked"))
    metrics = Metrics()
    metrics.watch_gpus(lambda: [translator_on("cpu", "one")])
    assert not any(name.startswith(("verso_gpu", "verso_graph")) for name, _ in values(metrics))
