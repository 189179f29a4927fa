"""The stages of sentences in the engine, added to the trace of the request that asked for them."""

from __future__ import annotations

import math

from app.engine.coalescing import PendingRequest
from app.telemetry.tracing import Attributes, RequestTrace

MAX_SENTENCES = 32
"""Sentences of a request that have spans of their own; a document may have thousands."""


def add_sentences(trace: RequestTrace, pending: PendingRequest) -> None:
    """Add spans ``queue``, ``encode`` and ``decode`` for each sentence, as far as it has come.

    Sentences from the cache have none. A sentence that another request had asked for before has the part of its spans
    after this request.

    Args:
        trace: The trace of the request.
        pending: Its sentences.
    """
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
            if until >= pending.asked_at:
                trace.add(name, max(began, pending.asked_at), until, attributes)
