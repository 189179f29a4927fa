"""A memory of short texts that were split and encoded, and of their last translations.

Preparing a text takes longer than all of the HTTP around it, and so does joining its translation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cachetools import LRUCache

from app.threads import SYSTEM, Threads
from model.translation.options import TranslationOptions
from model.translation.results import LastTranslation

if TYPE_CHECKING:
    from model.translation.joining import SourceText
    from model.translation.plan import Plan
    from model.translator import Translator

MAX_TEXTS = 1_000
"""Texts that are remembered; with their translations they take 5 MB if they are short sentences, and 20 MB at most."""

MAX_CHARACTERS = 200
"""The longest text that is remembered. Longer ones are rarely sent twice."""

MAX_SENTENCES = 4
"""The most sentences of a text that is remembered: each takes more than a kilobyte, however short it is."""


class _Key(NamedTuple):
    sha256: str
    text: str
    source: str
    target: str
    options: TranslationOptions


class _Remembered(NamedTuple):
    texts: Sequence[SourceText]
    last: LastTranslation


class PreparedTexts:
    """Prepares texts for decoding, and remembers the short ones. Any thread may call it.

    The sentences of a text are decoded each time, or found in the cache. If the answers are those of the last time, its
    translation is that of the last time, too.

    Args:
        is_on: Whether texts are remembered.
        threads: Where its lock comes from.
    """

    def __init__(self, *, is_on: bool, threads: Threads = SYSTEM) -> None:
        self._texts: LRUCache[_Key, _Remembered] = LRUCache(MAX_TEXTS if is_on else 0)
        self._lock = threads.lock()

    def plan(self, model: Translator, text: str, source: str, target: str, options: TranslationOptions) -> Plan:
        """The plan of a text, as :meth:`model.translator.Translator.prepare` makes it.

        Args:
            model: The model.
            text: The text.
            source: Its language, in the model's spelling.
            target: The target language, in the model's spelling.
            options: How to translate it.

        Raises:
            InputError: The text cannot be prepared.
        """
        is_plain = options.format == "text" and not options.glossary and not options.steering
        is_small = len(text) <= MAX_CHARACTERS and options.num_hypotheses == 1
        if not self._texts.maxsize or not is_plain or not is_small:
            return model.prepare(text, source, target, options)
        key = _Key(model.sha256, text, source, target, options)
        with self._lock:
            remembered = self._texts.get(key)
        if remembered is not None:
            plan = model.pipeline.plan(text, (source, target), remembered.texts, options)
            plan.last = remembered.last
            return plan
        plan = model.prepare(text, source, target, options)
        if plan.num_sentences <= MAX_SENTENCES:
            plan.last = LastTranslation()
            with self._lock:
                self._texts[key] = _Remembered(plan.texts, plan.last)
        return plan
