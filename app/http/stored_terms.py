"""The terms of a stored glossary, for a request that names the glossary by its id."""

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

    A search takes a second for megabytes. It is ended when its request is, and it holds up no other work than searches.

    Args:
        deadline_s: Seconds that a request may take.
    """

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s

    async def run(self, search: Callable[[Callable[[], None]], _Result]) -> _Result:
        """Call a function on a thread.

        Args:
            search: The function; what it is given raises when nobody waits for it any more.

        Raises:
            DeadlineExceeded: It took longer than a request may.
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
        """Let the threads end; searches that run were ended with their requests."""
        if "_threads" in self.__dict__:
            self._threads.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def _threads(self) -> SteadyPool:
        return SteadyPool(_NUM_THREADS, "verso-glossaries")


class _SearchEnded(Exception):
    """Nobody waits for a search any more."""


class StoredTerms(NamedTuple):
    """The terms of a stored glossary for a request.

    Args:
        terms: The terms; none if the request names no stored glossary.
        within_s: What is left of the request's time; None if no time was used.
    """

    terms: Glossary = ()
    within_s: float | None = None


def translation_request(
    request: Request, body: TranslateRequest | AttentionRequest, texts: Sequence[str], stored: StoredTerms
) -> TranslationRequest:
    """What the service is asked for.

    Args:
        request: The request.
        body: Its body.
        texts: Its texts.
        stored: The terms of its stored glossary.
    """
    return TranslationRequest(
        texts,
        body.source,
        body.target,
        body.options(stored.terms),
        caller_of(request),
        within_s=stored.within_s,
    )


async def stored_terms(
    request: Request, body: TranslateRequest | AttentionRequest | DocumentRequest, texts: Sequence[str]
) -> StoredTerms:
    """The terms that the texts hold; none if the request names no stored glossary.

    Args:
        request: The request.
        body: Its body.
        texts: Its texts.

    Raises:
        GlossaryNotFound: No glossary has the id.
        GlossaryPairMissing: It has no terms for the languages, or those of several pairs.
        InvalidGlossary: The language is to be detected, or the texts hold too many terms.
        DeadlineExceeded: The search took too long.
    """
    glossary_id, source, target = body.glossary, body.source, body.target
    if not isinstance(glossary_id, str):
        return StoredTerms()
    if source is not None and source.lower() == DETECT:
        raise InvalidGlossary("The terms of a stored glossary belong to a language: name the source, instead of auto.")
    store = glossaries_of(request)

    def find(check: Callable[[], None]) -> Glossary:
        found = store.dictionary(glossary_id, source, target)
        # One term that no text holds: the answer then says that none was used.
        return terms_in(found.terms, texts, found.source, check) or found.terms[:1]

    return await search_terms(request, find)


async def search_terms(request: Request, find: Callable[[Callable[[], None]], Glossary]) -> StoredTerms:
    """The terms that a function finds, within the time of a request.

    Args:
        request: The request.
        find: Searches, on a thread; what it is given is to be called every few milliseconds.

    Raises:
        DeadlineExceeded: The search took too long.
    """
    searches: TermSearches = request.app.state.term_searches
    clock = asyncio.get_running_loop().time
    began = clock()
    terms = await searches.run(find)
    return StoredTerms(terms, max(0.001, searches.deadline_s - (clock() - began)))
