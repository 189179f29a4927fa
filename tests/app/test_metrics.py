from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from app.metrics import Metrics


def values(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_what_happened_is_counted() -> None:
    metrics = Metrics()
    metrics.request_finished("/translate", "POST", 200, 0.2)
    metrics.refused("queue_full")
    metrics.ready_changed(True)
    metrics.load_changed(3, 2)
    metrics.joined([4, 2], [0.1, 0.0])
    metrics.stepped(8, 0.004)
    metrics.sentence_left("finished", 7)
    metrics.sentence_left("cancelled")
    found = values(metrics)
    assert found["verso_requests_total", (("method", "POST"), ("route", "/translate"), ("status", "200"))] == 1
    assert found["verso_refusals_total", (("reason", "queue_full"),)] == 1
    assert found["verso_ready", ()] == 1
    assert (found["verso_queue_sentences", ()], found["verso_running_sentences", ()]) == (3, 2)
    assert found["verso_source_tokens_total", ()] == 6
    assert found["verso_padding_share_sum", ()] == 0.25
    assert found["verso_queue_wait_seconds_count", ()] == 2
    assert (found["verso_decode_steps_total", ()], found["verso_batch_rows_sum", ()]) == (1, 8)
    assert found["verso_target_tokens_total", ()] == 7
    assert found["verso_sentences_total", (("outcome", "cancelled"),)] == 1


def test_two_applications_do_not_share_their_counts() -> None:
    first, second = Metrics(), Metrics()
    first.refused("x")
    assert ("verso_refusals_total", (("reason", "x"),)) not in values(second)
