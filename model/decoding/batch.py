"""Decoding a list of sentences offline: the cohort stays filled until all are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from model.decoding.cohort import Cohort
from model.decoding.sentence import DecodingRequest, Finished
from model.process.progress import Progress, no_progress


def decode_all(
    make_cohort: Callable[[int], Cohort],
    requests: Sequence[DecodingRequest],
    *,
    max_batch_tokens: int = 8192,
    max_rows: int = 256,
) -> Iterator[Finished]:
    """Decode sentences, those of similar length together, longest first.

    Args:
        make_cohort: Makes an empty cohort of a width.
        requests: Sentences with distinct keys; those of one width share a cohort.
        max_batch_tokens: Bound of rows times longest source; a sentence that decodes alone may exceed it.
        max_rows: Bound of rows (sentences times beam size).

    Yields:
        Each sentence's outcome as it finishes, in no particular order.
    """
    for width in sorted({request.options.width for request in requests}):
        queued = sorted(
            (request for request in requests if request.options.width == width),
            key=lambda request: len(request.source_ids),
        )
        cohort = make_cohort(width)
        while queued or cohort.num_sentences:
            longest = max(cohort.longest_source, len(queued[-1].source_ids) if queued else 0)
            room = max(1, min(max_batch_tokens // (longest * width), max_rows // width))
            free = room - cohort.num_sentences
            # Several join at once: each join copies the caches of the sentences that already decode.
            if queued and (free >= max(1, room // 4) or not cohort.num_sentences):
                joining = queued[-free:][::-1]
                del queued[-free:]
                yield from cohort.join(joining)
            yield from cohort.step()


def decode_in_order(
    make_cohort: Callable[[int], Cohort],
    requests: Sequence[DecodingRequest],
    *,
    label: str = "decoding",
    progress: Progress = no_progress,
    max_batch_tokens: int = 8192,
    max_rows: int = 256,
) -> list[Finished]:
    """Decode sentences.

    Args:
        make_cohort: Makes an empty cohort of a width.
        requests: The sentences; their keys are ignored.
        label: The label of the progress bar.
        progress: Called as each sentence finishes.
        max_batch_tokens: As for :func:`decode_all`.
        max_rows: As for :func:`decode_all`.

    Returns:
        The outcomes in the order of the requests.
    """
    numbered = [replace(request, key=number) for number, request in enumerate(requests)]
    decoding = decode_all(make_cohort, numbered, max_batch_tokens=max_batch_tokens, max_rows=max_rows)
    return sorted(progress(decoding, label, len(numbered)), key=lambda outcome: outcome.key)
