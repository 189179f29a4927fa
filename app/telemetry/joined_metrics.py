"""The metrics of several processes as one page for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry


class _Joined:
    """A collector of given families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def join_pages(pages: Mapping[str, bytes]) -> bytes:
    """Join pages in Prometheus' text format: each family once, with the samples of all processes.

    Args:
        pages: By the name of the process, which becomes the label ``process`` of its samples.
    """
    families: dict[str, Metric] = {}
    for process, page in pages.items():
        for family in text_string_to_metric_families(page.decode()):
            joined = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                joined.samples.append(sample._replace(labels={**sample.labels, "process": process}))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Joined(families.values()))
    return generate_latest(registry)
