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
    """Decode sentences, longest first, so that those of similar length decode together.

    Args:
        make_cohort: Makes an empty cohort of a given beam width.
        requests: Sentences with distinct keys; those of the same width share a cohort.
        max_batch_tokens: Maximum of rows times longest source; a sentence that decodes alone may exceed it.
        max_rows: Maximum number of rows (sentences times beam size).

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
            # Several sentences join at once, because each join copies the caches of the sentences that already decode.
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
    """Decode sentences, and return their outcomes in the order of the requests.

    Args:
        make_cohort: Makes an empty cohort of a given beam width.
        requests: The sentences; their keys are ignored.
        label: The label of the progress bar.
        progress: Wraps the outcomes, which arrive as sentences finish, in a progress bar.
        max_batch_tokens: As for :func:`decode_all`.
        max_rows: As for :func:`decode_all`.

    """
    numbered = [replace(request, key=number) for number, request in enumerate(requests)]
    decoding = decode_all(make_cohort, numbered, max_batch_tokens=max_batch_tokens, max_rows=max_rows)
    return sorted(progress(decoding, label, len(numbered)), key=lambda outcome: outcome.key)
