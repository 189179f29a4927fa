"""``deploy/prometheus`` and ``deploy/grafana``: alerts, their runbook, and the dashboard."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric

from app.telemetry.metrics import Metrics
from tests.server import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = [
    rule
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "verso.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES: list[str] = [target["expr"] for panel in PANELS for target in panel["targets"]]
OF_PROMETHEUS = {"job", "instance"}

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def promtool(*arguments: str) -> None:
    process = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def labels_of_series() -> dict[str, set[str]]:
    """The labels of every series that /metrics can have, by name."""
    metrics = Metrics()
    metrics.request_finished("/translate", "POST", 200, 0.1)
    metrics.refused("queue_full")
    metrics.sentence_left("m", "finished", 1)
    metrics.load_changed({"bulk": 0}, 0)
    families: list[Metric] = list(metrics.registry.collect())
    result: dict[str, set[str]] = {}
    for sample in itertools.chain.from_iterable(family.samples for family in families):
        result.setdefault(sample.name, set()).update(sample.labels)
    return result


def used(query: str) -> list[tuple[str, set[str]]]:
    """Series of ours in a query, with the labels that select them."""
    return [
        (name, set(re.findall(r"(\w+)\s*[=!]~?", selector or "")))
        for name, selector in re.findall(r"\b(verso_\w+)(?:\{([^}]*)\})?", query)
    ]


@pytest.mark.parametrize("query", [rule["expr"] for rule in RULES] + QUERIES)
def test_every_series_that_is_asked_for_exists_with_its_labels(query: str) -> None:
    reference = labels_of_series()
    for name, labels in used(query):
        assert name in reference, name
        assert labels <= reference[name] | OF_PROMETHEUS, name


def test_labels_that_results_are_grouped_by_exist() -> None:
    reference = set().union(*labels_of_series().values()) | OF_PROMETHEUS
    for query in (*(rule["expr"] for rule in RULES), *QUERIES):
        for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
            assert set(re.split(r",\s*", labels)) <= reference, query


def test_every_alert_has_a_severity_a_summary_and_an_entry_in_the_runbook() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    entries = re.findall(r"^### (Verso\w+)$", runbook, re.MULTILINE)
    assert entries == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"


def test_every_entry_says_what_it_means_what_to_look_at_and_what_to_do() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    for entry in re.split(r"^### ", runbook, flags=re.MULTILINE)[1:]:
        for heading in ("**Means**", "**Look**", "**Do**"):
            assert heading in entry, entry.splitlines()[0]


def test_every_alert_is_tested_while_it_fires_and_while_it_does_not() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in RULES}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names


@needs_promtool
def test_promtool_accepts_the_configuration_and_the_alerts_fire_when_they_should() -> None:
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))
    promtool("check", "rules", str(PROMETHEUS / "alerts.yml"))
    promtool("test", "rules", str(PROMETHEUS / "alerts_test.yml"))


@needs_promtool
def test_every_query_of_the_dashboard_is_valid(tmp_path: Path) -> None:
    plain = [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in QUERIES]
    assert not any("$" in query for query in plain)
    rules = [{"record": f"dashboard:query_{number}", "expr": query} for number, query in enumerate(plain)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", str(file))
