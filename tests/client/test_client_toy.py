"""A service with a real model: the client, the examples of its README, and ``verso translate --server``."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.commands.main import main
from app.main import create_app
from app.settings import Settings
from tests.client.driving import Driver
from tests.client.served import served
from tests.toy import WORDS
from verso_client import Document, Done, ProblemError, Sentence, StreamEvent, TranslatedText

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "client/README.md").read_text(encoding="utf-8"), re.M | re.S)
LONG = "".join(f"{word} sees {other}.\n" for word in WORDS for other in WORDS) * 3


SUBTITLES = """\
1
00:00:01,000 --> 00:00:02,000
red cat.

2
00:00:03,000 --> 00:00:04,000
old house.
"""


class Bytes(io.BytesIO):
    """Standard input with the given bytes."""

    @property
    def buffer(self) -> io.BytesIO:
        return self


@pytest.fixture(scope="module")
def toy_url(toy_bundle: Path) -> Iterator[str]:
    """The address of a service with the toy translator."""
    settings = Settings(model=str(toy_bundle), device="cpu", threads=1, max_texts=50)
    with served(create_app(settings)) as address:
        end = time.monotonic() + PATIENCE_S
        while httpx.get(f"{address}/readyz", trust_env=False).status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.02)
        yield address


def test_a_toy_translates_and_detects(driver: Driver, toy_url: str) -> None:
    arguments = driver.run(toy_url, lambda client: client.translate(["red cat.", "old dog.\n"], target="de"))
    assert arguments.texts == ["rot Katze.", "alt Hund.\n"]
    assert arguments.model == "toy"
    result = driver.run(toy_url, lambda client: client.detect("The old dog sees the red house."))
    assert result.language == "en"


def test_a_toy_streams_what_it_translates(driver: Driver, toy_url: str) -> None:
    texts = ["red cat. old dog.\n\n tree sees house.", "", "dog likes cat."]
    result = driver.run(toy_url, lambda client: client.translate(texts, target="de", return_scores=True))
    events = driver.events(toy_url, texts, target="de", return_scores=True)
    finished = {event.text: event.translation for event in events if isinstance(event, TranslatedText)}
    assert [finished[index] for index in range(3)] == result.results
    sentences = [event for event in events if isinstance(event, Sentence) and event.text == 0]
    assert [texts[0][slice(*event.source)] for event in sentences] == ["red cat.", "old dog.", "tree sees house."]
    completed = events[-1]
    assert isinstance(completed, Done)
    assert (completed.usage, completed.model) == (result.usage, result.model)


def test_a_stream_that_is_refused_or_left_early_leaves_the_client_usable(driver: Driver, toy_url: str) -> None:
    with pytest.raises(ProblemError) as caught:
        driver.events(toy_url, "red cat.", target="fr")
    assert caught.value.code == "unsupported_pair"
    results: list[StreamEvent] = []
    driver.read_stream(toy_url, results, "red cat. " * 500, stop_after=1, target="de", decoding="greedy")
    assert len(results) == 1
    assert driver.run(toy_url, lambda client: client.translate("red cat.", target="de")).text == "rot Katze."


def test_a_document_goes_there_and_back_and_is_deleted(driver: Driver, toy_url: str, tmp_path: Path) -> None:
    (tmp_path / "film.srt").write_text(SUBTITLES, encoding="utf-8")
    options = {"source": "en", "target": "de", "glossary": [{"source": "house", "target": "Bude"}], "protect": ["X+"]}
    states: list[Document] = []
    result = driver.run(
        toy_url,
        lambda client: client.translate_document(tmp_path / "film.srt", progress=states.append, **options),
    )
    assert result.decode() == SUBTITLES.replace("red cat.", "rot Katze.").replace("old house.", "alt Bude.")
    assert states[-1].sentences.done == states[-1].sentences.total == 2
    (key,) = {state.id for state in states}
    assert driver.run(toy_url, lambda client: client.document_result(key, partial=True)) == result
    assert driver.run(toy_url, lambda client: client.cancel_document(key)).status == "done"
    with pytest.raises(ProblemError) as caught:
        driver.run(toy_url, lambda client: client.document(key))
    assert (caught.value.code, caught.value.status) == ("document_not_found", 404)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.strip().splitlines()[-1])
def test_the_examples_of_the_readme_run(
    example: str, toy_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter.txt").write_text("red cat.\n\nold dog.\n", encoding="utf-8")
    assert "http://localhost:8000" in example
    exec(compile(example.replace("http://localhost:8000", toy_url), "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ([], b"red cat.\n\n  old dog.\r\ntree"),
        ([], b""),
        ([], LONG.encode()),
        (["--confidence"], b"red cat.\n\nold dog sees tree. cat likes dog.\n"),
        (["--decoding", "greedy", "--max-new-tokens", "3"], b"red cat sees old dog.\n"),
        (
            ["--beam-size", "2", "--length-penalty", "0", "--scoring", "ct2"],
            b"red cat.\n",
        ),
        (["--format", "html"], b"<p\n>red <b>cat</b>.\r\n"),
        (["--format", "xml", "--input", "lines"], b"red <x/>cat.\n\nold dog."),
        (["--input", "document"], b"red cat.\n```\nold dog.\n```\n\nold dog.\n"),
        (["--protect", "auto", "--protect", "AB-[0-9]+"], b"red cat {x} AB-12 sees old dog.\n"),
        (["--glossary", "terms.tsv", "--min-new-tokens", "2"], b"red cat sees old dog.\n"),
        (["--source", "en"], b"red cat.\n"),
    ],
)
def test_a_server_gives_what_the_command_gives_without_it(
    arguments: list[str],
    answer: bytes,
    toy_url: str,
    toy_bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "terms.tsv").write_text("dog\tKöter\n\n", encoding="utf-8")
    outputs = []
    for path in (["--model", str(toy_bundle), "--device", "cpu"], ["--server", toy_url]):
        monkeypatch.setattr(sys, "stdin", Bytes(answer))
        assert main(["translate", *path, "--target", "de", "--quiet", *arguments]) == 0
        outputs.append(capfdbinary.readouterr().out)
    assert outputs[0] == outputs[1]
    assert bool(outputs[0]) == bool(answer)


def test_a_server_can_detect_the_language(
    toy_url: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"red dog sees old house.\n"))
    assert main(["translate", "--server", toy_url, "--source", "auto", "--target", "de", "--quiet"]) == 0
    assert b"Hund" in capfdbinary.readouterr().out


def test_what_a_server_refuses_names_the_text_and_keeps_what_was_translated(
    toy_url: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(b"cat.\n" * 50 + b"dog.\n\0\n"))
    assert main(["translate", "--server", toy_url, "--target", "de", "--quiet"]) == 1
    output = capfdbinary.readouterr()
    assert output.out.count(b"Katze.\n") == 50
    assert b"error: texts 51 to 52: text[1]: contains the NUL character" in output.err
    assert re.search(rb"\(invalid_request, request [0-9a-f]{32}\)", output.err)
    monkeypatch.setattr(sys, "stdin", Bytes(b"cat.\n"))
    assert main(["translate", "--server", toy_url, "--target", "fr", "--quiet"]) == 1
    assert b"error: text 1: " in capfdbinary.readouterr().err
