"""TMX files: what is read, what is refused, and what is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.errors import MemoryFileRefused, MemoryFileTooLarge, MemoryStoreFull
from app.memories.file_units import units_of
from app.memories.service import MemoryService
from app.memories.tmx import TMX_END, TmxReader, TmxRefused, tmx_beginning, tmx_units
from app.memories.unit import StoredUnit, Unit
from app.settings import Settings

HEAD = '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="en-US"/><body>'
TAIL = "</body></tmx>"


def tu(source: str, target: str, language: str = "de") -> str:
    return (
        f'<tu><note>n</note><tuv xml:lang="en"><seg>{source}</seg></tuv>'
        f'<tuv xml:lang="{language}"><prop type="x">p</prop><seg>{target}</seg></tuv></tu>'
    )


def read(text: str | bytes, size: int = 7) -> list[dict[str, str]]:
    data = text.encode() if isinstance(text, str) else text
    reader = TmxReader()
    units = [unit for begin in range(0, len(data), size) for unit in reader.feed(data[begin : begin + size])]
    return [dict(unit.texts) for unit in [*units, *reader.close()]]


def test_units_are_read_in_pieces_of_any_size() -> None:
    text = HEAD + tu("One &amp; all.", "Alle.") + tu(" Two. ", "Zwei.", "de-AT") + TAIL
    expected = [{"en": "One & all.", "de": "Alle."}, {"en": "Two.", "de-AT": "Zwei."}]
    assert read(text, 1) == read(text, 10_000) == expected
    assert read(text.encode("utf-16").replace(b"1.0", b"1.0")) == expected


def test_the_header_names_the_source_language() -> None:
    reader = TmxReader()
    reader.feed(HEAD.encode())
    assert reader.source_language == "en-US"


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ("a <hi>b</hi> c", "a b c"),
        ("a <bpt i='1'>&lt;b&gt;</bpt>b<ept i='1'>&lt;/b&gt;</ept>", "a b"),
        ("Delete <ph>%s</ph>?", "Delete %s?"),
        ("a<ph>&lt;br/&gt;</ph>b", "ab"),
        ("a<bpt i='1'>x<sub>hidden</sub>y</bpt>b", "ab"),
        ("a<ph>{0}<sub>hidden</sub></ph>b", "a{0}b"),
        ("<it pos='begin'>x</it>a<ut>y</ut>", "a"),
    ],
)
def test_native_codes_are_left_out_and_placeholders_kept(segment: str, text: str) -> None:
    assert read(HEAD + tu(segment, "x") + TAIL)[0]["en"] == text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no element found"),
        ("no XML", "not well-formed XML"),
        ("<html/>", "first element is 'html'"),
        (HEAD, "no element found"),
        ('<!DOCTYPE tmx [<!ENTITY a "b">]><tmx/>', "entity 'a'"),
        ('<!DOCTYPE tmx [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]><tmx/>', "entity 'a'"),
        (HEAD + tu("&unknown;", "x") + TAIL, "entity 'unknown'"),
        (HEAD + "<a>" * 30, "More than 20 elements"),
        (HEAD + "<tu " + "a" * 1_200_000, "more than 1000000 bytes"),
        (HEAD + "<!--" + "a" * 1_200_000, "more than 1000000 bytes"),
        ('<?xml version="1.0" encoding="no-such-encoding"?><tmx/>', "not well-formed XML"),
    ],
)
def test_a_file_that_is_hostile_or_no_tmx_is_refused_with_its_reason(text: str, part: str) -> None:
    with pytest.raises(TmxRefused, match=part):
        read(text, 50_000)


def test_a_segment_that_is_too_long_is_left_out() -> None:
    (unit,) = read(HEAD + tu("a" * 1_000_000, "x") + TAIL, 50_000)
    assert unit == {"de": "x"}


def test_a_written_file_is_read_as_the_same_units() -> None:
    units = [StoredUnit(n, f'<a> & "{n}"\r\n\x01', f"]]> {n}", "de-AT", 0.0, 1.0, None) for n in range(3)]
    content = tmx_beginning("en") + tmx_units("en", units) + TMX_END
    assert read(content) == [{"en": f'<a> & "{n}"', "de-AT": f"]]> {n}"} for n in range(3)]


def test_units_have_the_language_of_the_memory_as_their_source() -> None:
    texts = {"EN-us": "Hello.", "de": "Hallo.", "pt_BR": "Olá.", "en-GB": "Hello!"}
    assert units_of(texts, "en") == [Unit("Hello.", "Hallo.", "de"), Unit("Hello.", "Olá.", "pt-BR")]
    assert units_of(texts, "en-GB")[0].source == "Hello!"
    assert units_of(texts, "fr") == units_of({"en": "alone"}, "en") == []


async def chunks(*parts: str) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(0)
        yield part.encode()


class TestImport:
    """Imports, which read files in processes of their own."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    async def service(self, tmp_path: Path) -> AsyncIterator[MemoryService]:
        service = MemoryService(Settings(data_dir=tmp_path, max_memory_units_per_key=50, max_memory_file_bytes=100_000))
        yield service
        await service.close()

    async def test_a_file_becomes_a_memory_and_is_exported(self, service: MemoryService) -> None:
        parts = [HEAD, *(tu(f"Line {n}.", f"Zeile {n}.") for n in range(20)), tu("", "nothing"), TAIL]
        imported = await service.import_tmx(None, chunks(*parts), name="Lines")
        assert (imported.added.new, imported.skipped) == (20, 1)
        assert (imported.memory.name, imported.memory.source, imported.memory.targets) == ("Lines", "en-US", {"de": 20})
        pages = [page async for page in service.pages(None, imported.memory.id)]
        assert [unit.target for page in pages for unit in page] == [f"Zeile {n}." for n in range(20)]
        again = await service.import_tmx(None, chunks(*parts), imported.memory.id)
        assert again.added.unchanged == 20

    async def test_a_refused_file_leaves_no_new_memory(self, service: MemoryService) -> None:
        for text, error in (
            (HEAD + tu("a", "b") + "<tu>", MemoryFileRefused),
            (HEAD + TAIL, MemoryFileRefused),
            (HEAD + "".join(tu(f"Line {n}.", "x") for n in range(60)) + TAIL, MemoryStoreFull),
            (HEAD + " " * 200_000, MemoryFileTooLarge),
        ):
            with pytest.raises(error):
                await service.import_tmx(None, chunks(text), name="Lines")
            assert await service.all(None) == []

    async def test_a_client_that_leaves_ends_the_process(self, service: MemoryService) -> None:
        reading = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield HEAD.encode()
            reading.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(service.import_tmx(None, endless(), name="Lines"))
        await reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await service.import_tmx(None, chunks(HEAD, tu("a", "b"), TAIL), name="Lines")).added.new == 1


def test_nothing_is_opened_before_there_is_a_memory(tmp_path: Path) -> None:
    async def use() -> None:
        service = MemoryService(Settings(data_dir=tmp_path))
        assert await service.all(None) == []
        await service.close()

    asyncio.run(use())
    assert list(tmp_path.iterdir()) == []


def test_a_confirmed_sentence_survives_a_restart(tmp_path: Path) -> None:
    async def confirm() -> None:
        service = MemoryService(Settings(data_dir=tmp_path))
        await service.add_corrections("key", "EN", [Unit("Hello.", "Hallo.", "de")])
        await service.close()

    async def targets() -> Iterator[str]:
        service = MemoryService(Settings(data_dir=tmp_path))
        found = await service.look_up(lambda lookup: lookup.exact(lookup.pairs("key", (), "en", "de"), ["Hello."]))
        await service.close()
        return (match.target for match in found if match is not None)

    asyncio.run(confirm())
    assert list(asyncio.run(targets())) == ["Hallo."]
