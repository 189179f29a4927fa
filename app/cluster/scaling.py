"""The number of engine replicas.

Ray pickles this module and runs it in its controller. It must not import other modules of the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

SENTENCES = "sentences"
"""The metric that replicas report: their queued and decoding sentences."""


class Load(Protocol):
    """The load of a deployment; ``ray.serve.config.AutoscalingContext`` is one."""

    @property
    def aggregated_metrics(self) -> Mapping[str, Mapping[Any, float]] | None:
        """For each metric, its mean for each replica."""
        ...

    @property
    def target_num_replicas(self) -> int:
        """The current target number of replicas."""
        ...


class ScaleOnSentences:
    """An autoscaling policy: a replica for a number of sentences.

    Ray applies delays and bounds.

    Args:
        sentences_per_replica: Queued and decoding sentences per replica.
    """

    def __init__(self, sentences_per_replica: float) -> None:
        self.sentences_per_replica = sentences_per_replica

    def __call__(self, load: Load) -> tuple[float, dict[str, Any]]:
        """The number of replicas needed, and no state."""
        reported = (load.aggregated_metrics or {}).get(SENTENCES)
        if not reported:
            return load.target_num_replicas, {}
        return sum(reported.values()) / self.sentences_per_replica, {}
