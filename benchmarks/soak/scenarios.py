"""The kinds of use of a soak.

The right answers are those that a service without load, cache and keys gives to the same uses, one after the other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from benchmarks.soak import document_uses, memory_uses, uses
from benchmarks.soak.files import WRITERS, num_characters
from benchmarks.soak.users import DEEPL, DEEPL_PAIR, PAIR, Item, Service, User
from benchmarks.soak.uses import TOO_MANY, marked, translate
from benchmarks.soak.wrong_requests import WRONG, expected_code, wrong_request

Play: TypeAlias = Callable[[Service, User, Item, random.Random], Awaitable[object]]


@dataclass(frozen=True)
class Scenario:
    """A kind of use.

    Args:
        kind: Its name in tables.
        weight: How often it is chosen, relative to the others.
        items: Its possible inputs.
        play: Does it; returns the answer as far as it is always the same.
        users: The names of its users.
        alone: How to get the right answer, if not by ``play``.
        refusals: Parts of answers that are right, too, because of the limits of the user's key.
    """

    kind: str
    weight: float
    items: Sequence[Item]
    play: Play
    users: Sequence[str] = ("shop", "office")
    alone: Play | None = None
    refusals: tuple[str, ...] = ()


def usual_scenarios(sentences: Sequence[str]) -> list[Scenario]:
    """The uses that arrive all the time.

    Args:
        sentences: Distinct English sentences; a thousand at least.
    """
    rng = random.Random(2)

    def sample(number: int) -> list[str]:
        return rng.sample(list(sentences), number)

    def requests(texts: Sequence[object], **fields: Any) -> list[Item]:
        return [{"text": text, **PAIR, **fields} for text in texts]

    greedy, beam = requests(sample(250), decoding="greedy"), requests(sample(250))
    lists = [requests([sample(rng.randint(2, 8))], beam_size=rng.choice([1, 2, 4]))[0] for _ in range(40)]
    long = requests([" ".join(sample(rng.randint(3, 6))) for _ in range(50)], decoding="greedy")
    html = requests([marked(text) for text in sample(60)], format="html")
    details = requests(sample(40), num_hypotheses=3, return_scores=True, return_alignment=True, return_confidence=True)
    attention = [{**request, "kinds": ["cross", "encoder"]} for request in requests(sample(30))]
    pictures = [{**request, "kinds": ["cross"], "average_heads": True} for request in attention[:10]]
    streamed = [*lists[:20], *long[:20], *html[:10]]
    deepl: list[Item] = [{"text": sample(rng.randint(1, 3)), **DEEPL_PAIR} for _ in range(50)]
    deepl += [{"text": [marked(text)], "tag_handling": "html", **DEEPL_PAIR} for text in sample(20)]
    libre: list[Item] = [{"q": text, **PAIR, "format": "text"} for text in sample(50)]
    libre += [{"q": sample(3), **PAIR, "source": "auto", "alternatives": 2} for _ in range(10)]
    libre += [{"q": marked(text), **PAIR, "format": "html"} for text in sample(20)]
    limited = greedy[:50]
    terms = [{"source": "house", "target": "Bau"}, {"source": "book", "target": "Band"}]
    others = requests(sample(20), glossary=terms, formality="formal")
    others += requests(sample(10), target_prefix="Nun", return_search=True, beam_size=2)
    others += requests([f"<a>{marked(text)}<x>{text}</x></a>" for text in sample(10)], format="xml", ignore_tags=["x"])
    others += requests([f"{text} See https://example.com/a_b, {{name}} and ABC." for text in sample(10)])
    others += requests([f"{text} See ABC." for text in sample(10)], protect=["auto", "[A-Z]{3,}"])
    others += [{"text": text, "source": "auto", "target": "de", "lexicon": False} for text in sample(10)]
    tool_calls = [{"tool": "translate", "arguments": {"texts": sample(2), **PAIR}} for _ in range(20)]
    tool_calls += [{"tool": "detect_language", "arguments": {"text": text}} for text in sample(5)]
    tool_calls += [{"tool": "list_languages", "arguments": {}}]
    return [
        Scenario("translate, greedy", 20, greedy, translate),
        Scenario("translate, beam 4", 18, beam, translate),
        Scenario("translate, list", 6, lists, translate, ("shop", "nightly")),
        Scenario("translate, several sentences", 5, long, translate, ("shop", "nightly")),
        Scenario("translate, html", 5, html, translate),
        Scenario("translate, hypotheses and alignment", 4, details, translate),
        Scenario("translate, other options", 4, others, translate),
        Scenario("stream, server-sent events", 4, streamed, uses.stream_events, alone=uses.entries),
        Scenario("stream, lines", 4, streamed, uses.stream_lines, alone=uses.entries),
        Scenario("client hangs up, asks again", 5, [*lists, *long], uses.hang_up, alone=translate),
        Scenario("client leaves a stream, asks again", 3, streamed, uses.leave_stream, alone=translate),
        Scenario("request sent twice", 3, beam[:50], uses.send_twice, alone=translate),
        Scenario("attention, JSON", 4, attention, uses.attend, ("reader", "office")),
        Scenario("attention, arrays", 1, attention[:10], uses.attend_arrays, ("reader",)),
        Scenario("attention, picture", 1, pictures, uses.attend_picture, ("reader",)),
        Scenario("detection", 2, sample(20), uses.detect_native),
        Scenario("pages", 2, _pages(), uses.read),
        Scenario("LibreTranslate", 8, libre, uses.libretranslate),
        Scenario("LibreTranslate, detection", 2, sample(20), uses.detect),
        Scenario("DeepL", 8, deepl, uses.deepl_translate),
        Scenario("DeepL, glossary made and deleted", 2, sample(15), memory_uses.deepl_glossary),
        Scenario("DeepL 3, glossary in /translate", 2, sample(15), memory_uses.multilingual_glossary),
        Scenario("assistant", 4, tool_calls, uses.assist),
        Scenario("memory made and deleted", 2, _memory_items(sample(20)), memory_uses.memory),
        Scenario("sentence corrected", 4, beam[:40], memory_uses.correct, ("editor",), alone=translate),
        Scenario("wrong request", 6, WRONG, wrong_request, alone=expected_code),
        Scenario("rate limit", 2, limited, translate, ("few requests",), refusals=('"rate_limited"',)),
        Scenario("monthly limit", 1, limited, translate, ("few characters",), refusals=('"quota_exceeded"',)),
        Scenario(
            "limit of sentences", 2, limited, uses.at_once, ("few sentences",), alone=translate, refusals=(TOO_MANY,)
        ),
    ]


def rare_scenarios(sentences: Sequence[str]) -> list[Scenario]:
    """The uses that take long, and would not be rare at the rate of the others.

    Args:
        sentences: Distinct English sentences.
    """
    rng = random.Random(3)

    def files(texts: Sequence[str], **fields: str) -> list[Item]:
        written = [(f"a.{ending}", write(texts)) for ending, write in WRITERS.items()]
        return [
            {"name": name, "content": content, "characters": num_characters(name, content), "fields": fields}
            for name, content in written
        ]

    plain = files(rng.sample(list(sentences), 3))
    terms = json.dumps([{"source": "house", "target": "Bau"}, {"source": "book", "target": "Band"}])
    with_terms = files(rng.sample(list(sentences), 3), glossary=terms, formality="informal")
    with_memory = [
        {**file, **item}
        for item in _memory_items(rng.sample(list(sentences), 4))
        for file in files([item["stored"], item["text"]])[::3]
    ]
    thousands = [{"text": [" ".join(rng.choices(sentences, k=80)) for _ in range(30)], **PAIR, "beam_size": 8}]
    return [
        Scenario("document", 4, [*plain, *with_terms], document_uses.document),
        Scenario("document, cancelled", 1, plain, document_uses.cancelled_document, alone=uses.nothing),
        Scenario("document, edited", 3, with_terms, memory_uses.edited_document, ("editor",)),
        Scenario("document with a memory of a file", 2, with_memory, memory_uses.memory_file),
        Scenario("DeepL, memory of a file", 2, with_memory, memory_uses.deepl_memory_file),
        Scenario("DeepL document", 2, plain, document_uses.deepl_document),
        Scenario("LibreTranslate document", 2, plain, document_uses.libretranslate_document),
        Scenario("assistant's document", 2, plain, document_uses.assistant_document),
        Scenario("thousands of sentences at once", 2, thousands, uses.too_much, alone=uses.nothing),
    ]


def _memory_items(sentences: Sequence[str]) -> list[Item]:
    """Sentences in pairs: one that is stored, and one to which a similar one is."""
    pairs = zip(sentences[::2], sentences[1::2], strict=True)
    return [{"stored": stored, "text": text, "similar": f"{text.removesuffix('.')} again."} for stored, text in pairs]


def _pages() -> list[Item]:
    """Pages that clients read: of some only the status is always the same."""
    deepl = ("/v2/languages?type=target", "/v3/languages?resource=translate_text")
    changing = ("/metrics", "/models", "/openapi.json", "/docs", "/", "/readyz", "/memories", "/libretranslate/spec")
    return [
        {"path": "/languages", "is_constant": True},
        *({"path": path, "scheme": DEEPL, "is_constant": True} for path in deepl),
        *({"path": path, "is_constant": False} for path in changing),
    ]
