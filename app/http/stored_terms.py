"""The terms of a stored glossary that a request names by its id."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

from fastapi import Request

from app.errors import DeadlineExceeded, InvalidGlossary
from app.glossaries.terms import terms_in
from app.http.access import caller_of
from app.http.chosen_memories import chosen_memories
from app.http.schemas.documents import DocumentRequest
from app.http.schemas.requests import AttentionRequest, TranslateRequest
from app.http.state import glossaries_of
from app.serving.model_choice import DETECT
from app.serving.request import TranslationRequest
from app.steady_pool import SteadyPool
from model.text.glossary import Glossary

_NUM_THREADS = 2

_Result = TypeVar("_Result")


class TermSearches:
    """Searches texts for the terms of stored glossaries, on threads of its own.

    Searching megabytes of text takes a second. A search ends with its request, and delays only other searches.

    Args:
        deadline_s: Seconds that a request may take.
    """

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s

    async def run(self, search: Callable[[Callable[[], None]], _Result]) -> _Result:
        """Call a function on a thread.

        Args:
            search: The function. It calls its argument often, which raises once the request has ended.

        Raises:
            DeadlineExceeded: The function took longer than the deadline of a request.
        """
        is_over = threading.Event()

        def check() -> None:
            if is_over.is_set():
                raise _SearchEnded

        try:
            async with asyncio.timeout(self.deadline_s):
                return await asyncio.get_running_loop().run_in_executor(self._threads, partial(search, check))
        except TimeoutError:
            raise DeadlineExceeded(self.deadline_s) from None
        finally:
            is_over.set()

    def close(self) -> None:
        """Let the threads end; running searches end with their requests."""
        if "_threads" in self.__dict__:
            self._threads.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def _threads(self) -> SteadyPool:
        return SteadyPool(_NUM_THREADS, "verso-glossaries")


class _SearchEnded(Exception):
    """The request of a search has ended."""


class StoredTerms(NamedTuple):
    """The terms of a stored glossary for a request.

    Args:
        terms: The terms; none if the request has no stored glossary.
        within_s: Seconds left until the request's deadline; None if nothing was searched.
    """

    terms: Glossary = ()
    within_s: float | None = None


async def translation_request(
    request: Request, body: TranslateRequest | AttentionRequest, texts: Sequence[str]
) -> TranslationRequest:
    """The request to the translation service, with the terms of a stored glossary.

    Args:
        request: The HTTP request.
        body: Its body.
        texts: Its texts.

    Raises:
        ServiceError: See :func:`stored_terms`.
    """
    memory = await chosen_memories(request, body) if isinstance(body, TranslateRequest) else None
    stored = await stored_terms(request, body, texts)
    return TranslationRequest(
        texts,
        body.source,
        body.target,
        body.options(stored.terms),
        caller_of(request),
        memory=memory,
        within_s=stored.within_s,
    )


async def stored_terms(
    request: Request, body: TranslateRequest | AttentionRequest | DocumentRequest, texts: Sequence[str]
) -> StoredTerms:
    """The terms that occur in the texts; none if the request has no stored glossary.

    Args:
        request: The request.
        body: Its body.
        texts: Its texts.

    Raises:
        GlossaryNotFound: No glossary has the id.
        GlossaryPairMissing: The glossary has no terms for the languages, or a language is not given and it has several
            pairs.
        InvalidGlossary: The source is ``auto``, or the texts contain too many terms.
        DeadlineExceeded: The search took too long.
    """
    glossary_id, source, target = body.glossary, body.source, body.target
    if not isinstance(glossary_id, str):
        return StoredTerms()
    if source is not None and source.lower() == DETECT:
        raise InvalidGlossary("The terms of a stored glossary belong to a language; set source to it instead of auto.")
    store = glossaries_of(request)

    def find(check: Callable[[], None]) -> Glossary:
        dictionary = store.dictionary(glossary_id, source, target)
        # If no term occurs, the request gets one anyway, so that its answer has an empty list of terms. Without a term
        # it would look like a request without a glossary.
        return terms_in(dictionary.terms, texts, dictionary.source, check) or dictionary.terms[:1]

    return await search_terms(request, find)


async def search_terms(request: Request, find: Callable[[Callable[[], None]], Glossary]) -> StoredTerms:
    """Search for terms within the deadline of a request.

    Args:
        request: The request.
        find: Runs on a thread, and calls its argument every few milliseconds.

    Raises:
        DeadlineExceeded: The search took too long.
    """
    searches: TermSearches = request.app.state.term_searches
    clock = asyncio.get_running_loop().time
    start_time = clock()
    terms = await searches.run(find)
    return StoredTerms(terms, max(0.001, searches.deadline_s - (clock() - start_time)))
