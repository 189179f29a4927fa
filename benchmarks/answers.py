"""Whether two checkouts answer alike: the same requests of every kind, sent to a service of each.

    python -m benchmarks.answers --against CHECKOUT

Both services load the shipped translator as a bundle that the other checkout exported. Each request goes to both, once
with the compiled decoder and once with the one in torch; status and body must be equal, without times, ids and the
wording of errors. Prints each difference, and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from benchmarks.servers import ROOT, Server, running

_SENTENCES = ROOT / "tests/quality/everyday.tsv"

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"

_VARYING = frozenset({"timings_ms", "request_id", "instance", "id", "document_id", "document_key", "created"})
"""Keys of bodies that differ between two runs of one service."""

_WORDING = frozenset({"title", "detail", "message", "error"})
"""Keys of errors for people to read, which may be worded better."""

_OPTIONS: tuple[Mapping[str, Any], ...] = (
    {"decoding": "greedy"},
    {"decoding": "greedy", "return_scores": True, "return_alignment": True},
    {},
    {"beam_size": 2, "num_hypotheses": 2, "return_scores": True},
    {"beam_size": 8, "num_hypotheses": 3, "return_scores": True, "length_penalty": 1.2},
    {"return_confidence": True},
    {"return_alignment": True, "formality": "formal"},
    {"formality": "informal"},
    {"return_search": True, "beam_size": 3},
    {"return_search": True, "decoding": "greedy"},
    {"protect": "none"},
    {"glossary": [{"source": "house", "target": "Gebäude"}, {"source": "Haus", "target": "building"}]},
    {"max_new_tokens": 5, "return_scores": True},
    {"no_repeat_ngram_size": 2, "min_new_tokens": 6},
)

_TEXTS = (
    "The house is old. Our neighbours bought it in 1987! Do you know {name}?",
    "Hello {name}, see https://example.com/a_b and mail me@example.com about %s :-)",
    "THIS IS NOT A DRILL.\n\n- first item\n- second item\n\tthird\n",
    "He paid 1,250.50 dollars on 3rd May 2025 at 9 a.m.",
    "word " * 150,
    "ha ha ha ha ha ha ha ha ha",
    "¿Qué? 東京 is big. Ünïcödé 🙂",
    " ",
    "...",
    "Mr. Smith went to Washington, D.C. He stayed. " * 8,
)

_PAGES = (
    ("html", '<p>Please read our <a href="/p">privacy <b>policy</b></a> first.</p><img alt="A dog"><code>x=1</code>'),
    ("html", "<ul><li>One house</li><li>Two <i>old</i> houses &amp; a garden</li></ul><script>var a</script>"),
    ("xml", '<r><t id="1">The <x/>house is old.</t><t>He <g id="2">sleeps</g>.</t></r>'),
    ("xml", "<r><t>broken</r>"),
)

_INVALID: tuple[Any, ...] = (
    {},
    {"text": 5, "target": "de"},
    {"text": "a", "target": "xx"},
    {"text": "a", "target": "de", "beam_size": 0},
    {"text": "a", "target": "de", "beam": 2},
    {"text": ["a"] * 2000, "target": "de"},
    {"text": "a", "source": "de", "target": "de"},
    {"text": "a\0b", "target": "de"},
    [],
)


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes = b""
    content_type: str = _JSON
    accept: str = "*/*"


def requests() -> list[_Request]:
    """A few hundred requests: every route that answers with words of the model, every option, every kind of error."""
    return [*_native(), *_libretranslate(), *_deepl()]


def _native() -> Iterator[_Request]:
    options = cycle(_OPTIONS)
    rows = [line.split("\t")[1:3] for line in _SENTENCES.read_text(encoding="utf-8").splitlines()[1:]]
    for source, text in rows[::2]:
        yield _post("/translate", {"text": text, **_direction(source), **next(options)})
    for text in _TEXTS:
        for each in _OPTIONS[:8]:
            yield _post("/translate", {"text": text, **_direction("en"), **each})
    for form, page in _PAGES:
        for each in _OPTIONS[:7]:
            yield _post("/translate", {"text": page, "format": form, **_direction("en"), **each})
    yield _post("/translate", {"text": [text for _, text in rows[:40]], "target": "de", "source": "auto"})
    yield _post("/translate", {"text": [*_TEXTS], "target": "de"}, accept="text/event-stream")
    prefix = {"text": "Good morning, my friend.", **_direction("en"), "target_prefix": "Schönen"}
    for each in (
        {},
        {"decoding": "greedy"},
        {"return_search": True},
        {"num_hypotheses": 2},
        {"return_alignment": True},
    ):
        yield _post("/translate", {**prefix, **each})
    for source, text in rows[1:12]:
        yield _post("/attention", {"text": text, **_direction(source), "kinds": ["encoder", "decoder", "cross"]})
        yield _post("/attention", {"text": text, **_direction(source), "average_heads": True})
    for body in _INVALID:
        yield _post("/translate", body)
        yield _post("/attention", body)
    yield _Request("POST", "/translate", b"{")
    for path in ("/livez", "/readyz", "/nowhere", "/documents/nobody"):
        yield _Request("GET", path)


def _libretranslate() -> Iterator[_Request]:
    fields: tuple[Mapping[str, str], ...] = (
        {"q": _TEXTS[0], "source": "en", "target": "de"},
        {"q": _TEXTS[1], "source": "auto", "target": "de", "alternatives": "2"},
        {"q": _PAGES[0][1], "source": "en", "target": "de", "format": "html"},
        {"q": "Guten Tag", "source": "de", "target": "xx"},
        {"source": "de", "target": "en"},
    )
    for each in fields:
        yield _Request("POST", "/libretranslate/translate", urlencode(each).encode(), _FORM)
        yield _post("/libretranslate/translate", each)
    yield _post("/libretranslate/translate", {"q": list(_TEXTS[:4]), "source": "auto", "target": "de"})
    yield _post("/libretranslate/detect", {"q": "Wo ist der Bahnhof?"})
    for path in ("languages", "frontend/settings", "health", "spec"):
        yield _Request("GET", f"/libretranslate/{path}")


def _deepl() -> Iterator[_Request]:
    for each in (
        {},
        {"source_lang": "EN"},
        {"formality": "less"},
        {"split_sentences": "0"},
        {"show_billed_characters": True},
    ):
        yield _post("/v2/translate", {"text": [_TEXTS[0], _TEXTS[1]], "target_lang": "DE", **each})
    for each in ({}, {"tag_handling": "html"}, {"tag_handling": "xml"}, {"ignore_tags": "a"}, {"formality": "rude"}):
        form = {"text": _PAGES[1][1], "target_lang": "DE", **each}
        yield _Request("POST", "/v2/translate", urlencode(form).encode(), _FORM)
    yield _post("/v2/translate", {"text": "no list", "target_lang": "DE"})
    yield _post("/v2/translate", {"text": ["a"]})
    for path in ("languages?type=target", "languages?type=source", "languages?type=x", "usage", "glossaries"):
        yield _Request("GET", f"/v2/{path}")


def _post(path: str, body: Any, accept: str = "*/*") -> _Request:
    return _Request("POST", path, json.dumps(body).encode(), _JSON, accept)


def _direction(source: str) -> dict[str, str]:
    return {"source": source, "target": "de" if source == "en" else "en"}


def _answer(client: httpx.Client, port: int, request: _Request) -> tuple[int, Any]:
    """Status and body, without what differs between two runs."""
    headers = {"content-type": request.content_type, "accept": request.accept, "authorization": "DeepL-Auth-Key none"}
    response = client.request(
        request.method, f"http://127.0.0.1:{port}{request.path}", content=request.body or None, headers=headers
    )
    kind = response.headers.get("content-type", "")
    if "event-stream" in kind:
        lines = (line.removeprefix("data:") for line in response.text.splitlines() if line.startswith("data:"))
        return response.status_code, sorted(json.dumps(_constant(json.loads(line))) for line in lines)
    ignored = _VARYING | _WORDING if response.is_error else _VARYING
    return response.status_code, _constant(response.json(), ignored) if "json" in kind else response.content


def _constant(value: Any, ignored: frozenset[str] = _VARYING) -> Any:
    if isinstance(value, dict):
        return {name: _constant(each, ignored) for name, each in value.items() if name not in ignored}
    return [_constant(each, ignored) for each in value] if isinstance(value, list) else value


def _compare(checkout: Path, bundle: Path, **settings: str) -> int:
    """Send all requests to both; print and count the differences."""
    environment = {
        "VERSO_MODEL": str(bundle),
        "VERSO_DEVICE": "cpu",
        "VERSO_LOG_LEVEL": "warning",
        "VERSO_DEADLINE_S": "3600",
        **settings,
    }
    differences, all_requests = 0, requests()
    with (
        running(Server("before", ("-m", "app"), environment, folder=checkout)) as before,
        running(Server("after", ("-m", "app"), environment)) as after,
        httpx.Client(timeout=120) as client,
    ):
        for request in all_requests:
            answers = [_answer(client, server.port, request) for server in (before, after)]
            if answers[0] != answers[1]:
                differences += 1
                print(f"{request.method} {request.path} {request.body[:300]!r}")
                for name, answer in zip(("before", "after"), answers, strict=True):
                    print(f"    {name}: {str(answer)[:1000]}")
    print(f"{settings}: {len(all_requests)} requests, {differences} answered differently", flush=True)
    return differences


def main() -> int:
    """Compare as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, metavar="CHECKOUT", help="a checkout of another commit")
    checkout = parser.parse_args().against.resolve()
    with tempfile.TemporaryDirectory() as folder:
        differences = 0
        for precision, native in (("int8", "auto"), ("float32", "auto"), ("float32", "off")):
            bundle = Path(folder) / f"{precision}.ts"
            if not bundle.exists():
                command = ["-m", "model", "export", "--pretrained", "--precision", precision, "--out", str(bundle)]
                subprocess.run([sys.executable, *command], cwd=checkout, check=True, stdout=subprocess.DEVNULL)
            differences += _compare(checkout, bundle, VERSO_NATIVE=native)
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
