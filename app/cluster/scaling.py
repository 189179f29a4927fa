"""How many engine replicas there should be.

Ray pickles this module and runs it in its controller. It must not import other modules of the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

SENTENCES = "sentences"
"""The name of what replicas report: their sentences that wait or decode."""


class Load(Protocol):
    """What Ray knows of a deployment; ``ray.serve.config.AutoscalingContext`` is one."""

    @property
    def aggregated_metrics(self) -> Mapping[str, Mapping[Any, float]] | None:
        """For each metric its mean of each replica."""
        ...

    @property
    def total_queued_requests(self) -> float:
        """Requests that are given to no replica yet."""
        ...

    @property
    def target_num_replicas(self) -> int:
        """The number of replicas that there should be at present."""
        ...


class ScaleOnSentences:
    """An autoscaling policy: a replica for every so many sentences.

    Ray applies delays and bounds.

    Args:
        sentences_per_replica: Sentences, waiting or decoding, for which there is a replica.
    """

    def __init__(self, sentences_per_replica: float) -> None:
        self.sentences_per_replica = sentences_per_replica

    def __call__(self, load: Load) -> tuple[float, dict[str, Any]]:
        """The number of replicas that are needed, and no state."""
        reported = (load.aggregated_metrics or {}).get(SENTENCES)
        if not reported:
            return load.target_num_replicas, {}
        # A request that no replica has yet has one sentence at least.
        num_sentences = sum(reported.values()) + (load.total_queued_requests or 0.0)
        return num_sentences / self.sentences_per_replica, {}
