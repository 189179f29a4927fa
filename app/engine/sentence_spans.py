"""The stages of sentences in the engine, added to the trace of their request."""

from __future__ import annotations

import math

from app.engine.coalescing import PendingRequest
from app.telemetry.tracing import Attributes, current_trace

MAX_SENTENCES = 32
"""Sentences of a request that have spans of their own; a document may have thousands."""


def trace_sentences(pending: PendingRequest) -> None:
    """Add spans ``queue``, ``encode`` and ``decode`` of each sentence to the trace of the current request, if any.

    Cached sentences have none. A sentence that another request submitted before has the part after this request.

    Args:
        pending: The sentences of the request, with or without outcomes.
    """
    trace = current_trace()
    if trace is None:
        return
    now = trace.clock()
    sentences = list(dict.fromkeys(pending.sentences))
    trace.count("verso.sentences", pending.num_sentences)
    trace.count("verso.sentences_decoded", len(sentences))
    for number, sentence in enumerate(sentences[:MAX_SENTENCES]):
        attributes: Attributes = {
            "verso.sentence": number,
            "verso.source_tokens": sentence.num_source_tokens,
            "verso.beam_size": sentence.width,
            "verso.model": sentence.model_name,
        }
        times = (sentence.arrived_at, sentence.started_at, sentence.encoded_at, sentence.ended_at)
        for name, began, ended in zip(("queue", "encode", "decode"), times, times[1:], strict=False):
            if math.isnan(began):
                break
            until = now if math.isnan(ended) else ended
            if until >= pending.submitted_at:
                trace.add(name, max(began, pending.submitted_at), until, attributes)
