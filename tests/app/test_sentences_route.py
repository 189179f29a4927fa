"""``/documents/{id}/sentences``: pages, edits, and the file with them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.documents.document import DATABASE
from app.documents.positions import unpacked
from app.documents.skeleton import differences
from tests.app.accounts.keyed import bearer, make_key
from tests.app.accounts.keyed import serving as serving_keys
from tests.app.documents.test_office_formats import word_document
from tests.app.documents.test_sheets import cells_of, saved, workbook
from tests.app.documents.translated import texts_of
from tests.app.fakes import held_translator
from tests.app.test_documents_route import ended, post, serving
from tests.app.test_translate_route import problem_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("idle_file_processes")]

TEXT = b"Hello. My name is Tom.\n\nGood day, {name}. Bye."


async def added(client: httpx.AsyncClient, content: bytes = TEXT, filename: str = "a.txt") -> str:
    """The id of a document that is done."""
    id: str = (await post(client, content, filename)).json()["id"]
    assert (await ended(client, id))["status"] == "done"
    return id


async def listed(client: httpx.AsyncClient, id: str, **query: Any) -> dict[str, Any]:
    response = await client.get(f"/documents/{id}/sentences", params=query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def change(client: httpx.AsyncClient, id: str, *changes: dict[str, Any]) -> httpx.Response:
    return await client.patch(f"/documents/{id}/sentences", json={"sentences": list(changes)})


async def result(client: httpx.AsyncClient, id: str) -> bytes:
    return (await client.get(f"/documents/{id}/result")).content


async def test_sentences_are_listed_in_pages() -> None:
    async with serving() as client:
        id = await added(client)
        first = await listed(client, id, limit=3)
        counts = ("total", "edited", "confirmed", "filename", "source", "target", "next")
        assert [first[name] for name in counts] == [4, 0, 0, "a.txt", "en", "de", 2]
        assert first["sentences"][1] == {
            "number": 1,
            "text": 0,
            "source": "My name is Tom.",
            "translation": "MY NAME IS TOM.",
            "edited": False,
            "confirmed": False,
        }
        rest = await listed(client, id, limit=3, after=first["next"])
        assert [(sentence["number"], sentence["text"]) for sentence in rest["sentences"]] == [(3, 1)]
        assert rest["next"] is None


async def test_an_edit_is_in_the_file_and_can_be_taken_back() -> None:
    async with serving() as client:
        id = await added(client)
        assert await result(client, id) == b"HELLO. MY NAME IS TOM.\n\nGOOD DAY, {name}. BYE."
        changed = (await change(client, id, {"number": 1, "translation": " Ich bin Tom. ", "confirmed": True})).json()
        assert [changed[name] for name in ("total", "edited", "confirmed")] == [4, 1, 1]
        assert changed["sentences"] == [
            {
                "number": 1,
                "text": 0,
                "source": "My name is Tom.",
                "translation": "Ich bin Tom.",
                "edited": True,
                "confirmed": True,
                "machine_translation": "MY NAME IS TOM.",
            }
        ]
        assert await result(client, id) == b"HELLO. Ich bin Tom.\n\nGOOD DAY, {name}. BYE."
        taken_back = (await change(client, id, {"number": 1, "translation": "MY NAME IS TOM."})).json()
        assert [taken_back[name] for name in ("edited", "confirmed")] == [0, 0]
        assert await result(client, id) == b"HELLO. MY NAME IS TOM.\n\nGOOD DAY, {name}. BYE."


async def test_a_changed_translation_is_no_longer_confirmed_and_an_unchanged_one_is() -> None:
    async with serving() as client:
        id = await added(client)
        await change(client, id, {"number": 0, "confirmed": True}, {"number": 2, "confirmed": True})
        await change(client, id, {"number": 0, "translation": "HELLO."}, {"number": 2, "translation": "Tag, {name}."})
        page = await listed(client, id)
        assert [sentence["confirmed"] for sentence in page["sentences"]] == [True, False, False, False]
        assert [page[name] for name in ("edited", "confirmed")] == [1, 1]
        unconfirmed = await listed(client, id, unconfirmed=True, limit=2)
        assert [sentence["number"] for sentence in unconfirmed["sentences"]] == [1, 2]
        assert unconfirmed["next"] == 2


MARKDOWN = b"# A *big* heading\n\nSee [the page](x.html). It is **new**.\n"
PAGE = b'<p class="x">Tom &amp; <b>Jerry</b> run.</p>\n<p>Bye.</p>'
SUBTITLES = b"1\n00:00:01,000 --> 00:00:02,000\n<i>Hello there.</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nBye.\n"
SHEET = saved(workbook(["a house", 1.5], ["=A1", "One. Two."]))
FILES = [
    ("a.md", MARKDOWN, 1, "Da ist {1}die Seite{/1}.", "Da ist [die Seite](x.html). IT IS **NEW**."),
    ("a.html", PAGE, 0, "{1}Jerry{/1} & Tom < 3.", '<p class="x"><b>Jerry</b> &amp; Tom &lt; 3.</p>'),
    ("a.srt", SUBTITLES, 0, "Na.", "<i>Na.</i>"),
    ("a.docx", word_document(), 1, "{1}Grosse{/1} Welt.", 'Grosse<i id="0"> Welt.</i>'),
    ("a.xlsx", SHEET, 1, "Eins.", "Eins. TWO."),
]


@pytest.mark.parametrize(("filename", "content", "number", "edit", "expected"), FILES, ids=[row[0] for row in FILES])
async def test_an_edit_is_in_the_file_and_its_structure_is_whole(
    filename: str, content: bytes, number: int, edit: str, expected: str
) -> None:
    async with serving() as client:
        id = await added(client, content, filename)
        assert (await change(client, id, {"number": number, "translation": edit})).status_code == 200
        written = await result(client, id)
        assert list(map(str, differences(filename, content, written, "de"))) == []
        is_archive = filename in ("a.docx", "a.xlsx")
        assert expected in ("\n".join(texts_of(filename[1:], written)) if is_archive else written.decode())
        assert (await listed(client, id))["sentences"][number]["translation"] == edit


async def test_an_edited_cell_is_read_by_another_program() -> None:
    async with serving() as client:
        id = await added(client, SHEET, "a.xlsx")
        await change(client, id, {"number": 0, "translation": "=ein Haus"}, {"number": 1, "translation": "Eins & 2."})
        assert cells_of(await result(client, id)) == [["=ein Haus", 1.5], ["=A1", "Eins & 2. TWO."]]


async def test_a_text_that_shows_code_names_it_beside_its_marker() -> None:
    async with serving() as client:
        id = await added(client, b"<p>Press <code>Ctrl+C</code> <b>now</b>.</p>", "a.html")
        (sentence,) = (await listed(client, id))["sentences"]
        assert sentence["source"] == "Press {1} {2}now{/2}."
        assert sentence["markers"] == {"1": "Ctrl+C", "2": ""}


REFUSED: list[tuple[list[Any], str, str]] = [
    ([{"number": 2, "translation": "Guten Tag."}], "sentences[0].translation", "lacks the placeholder {name}"),
    ([{"number": 0, "translation": "  "}], "sentences[0].translation", "is blank"),
    ([{"number": 0, "translation": "a\x01"}], "sentences[0].translation", "U+0001"),
    ([{"number": 0, "translation": "a\nb"}], "sentences[0].translation", "line breaks"),
    ([{"number": 0, "translation": "x" * 5_000}], "sentences[0].translation", "limit for this sentence"),
    ([{"number": 4, "confirmed": True}], "sentences[0].number", "no such sentence; the document has 4"),
    ([{"number": 0, "confirmed": True}] * 2, "sentences[1].number", "occurs twice"),
    ([{"number": 0}], "sentences[0]", "neither translation nor confirmed"),
    ([{"number": -1, "confirmed": True}], "sentences[0].number", "at least 0"),
    ([{"number": "0", "confirmed": True}], "sentences[0].number", "whole number"),
    ([{"number": 0, "confirmed": "yes"}], "sentences[0].confirmed", "true or false"),
    ([{"number": 0, "translation": ["a"]}], "sentences[0].translation", "string"),
    ([{"number": number, "confirmed": True} for number in range(101)], "sentences", "at most 100"),
]


@pytest.mark.parametrize(("changes", "field", "message"), REFUSED)
async def test_changes_that_cannot_be_made_are_refused_and_change_nothing(
    changes: list[Any], field: str, message: str
) -> None:
    async with serving() as client:
        id = await added(client)
        problem = problem_of(await change(client, id, *changes), 422, "invalid_request")
        (error,) = problem["errors"]
        assert error["field"] == field and message in error["message"]
        mixed = await change(client, id, {"number": 3, "translation": "Tschüss."}, *changes)
        assert mixed.status_code == 422
        page = await listed(client, id)
        assert [page[name] for name in ("edited", "confirmed")] == [0, 0]


async def test_a_request_without_changes_is_refused() -> None:
    async with serving() as client:
        problem_of(await change(client, "a"), 422, "invalid_request")


async def test_a_marker_that_is_missing_is_named() -> None:
    async with serving() as client:
        id = await added(client, b"Please [click](x.html) here.\n", "a.md")
        problem = problem_of(await change(client, id, {"number": 0, "translation": "Hier."}), 422, "invalid_request")
        assert "lacks the marker {1}" in problem["detail"]


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "after=-2", "after=x", "unconfirmed=maybe"])
async def test_pages_out_of_bounds_are_refused(query: str) -> None:
    async with serving() as client:
        id = await added(client)
        problem_of(await client.get(f"/documents/{id}/sentences?{query}"), 422, "invalid_request")


async def test_a_document_that_is_not_done_or_unknown_has_no_sentences() -> None:
    async with serving(held_translator()) as client:
        id = (await post(client)).json()["id"]
        problem = problem_of(await client.get(f"/documents/{id}/sentences"), 409, "document_not_done")
        assert "when it is done" in problem["detail"]
        problem_of(await change(client, id, {"number": 0, "confirmed": True}), 409, "document_not_done")
        problem_of(await client.get(f"/documents/{'0' * 32}/sentences"), 404, "document_not_found")
    async with serving() as client:
        problem_of(await client.get("/documents/a/sentences"), 404, "document_not_found")
        problem_of(await change(client, "a", {"number": 0, "confirmed": True}), 404, "document_not_found")


async def test_sentences_belong_to_the_key_of_their_document(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    mine, others = bearer(make_key(path)), bearer(make_key(path))
    async with serving_keys(keys_db=path) as client:
        client.headers.update(mine)
        id = await added(client)
        edit = {"sentences": [{"number": 0, "translation": "Hallo."}]}
        url = f"/documents/{id}/sentences"
        for headers, status in ((others, 404), ({"authorization": ""}, 401)):
            assert (await client.get(url, headers=headers)).status_code == status
            assert (await client.patch(url, json=edit, headers=headers)).status_code == status
        assert (await client.patch(url, json=edit)).status_code == 200
        assert (await result(client, id)).startswith(b"Hallo. MY")


async def test_edits_survive_a_restart_and_are_deleted_with_the_document(tmp_path: Path) -> None:
    async with serving(data_dir=tmp_path) as client:
        id = await added(client)
        await change(client, id, {"number": 0, "translation": "Hallo.", "confirmed": True})
    async with serving(data_dir=tmp_path) as client:
        page = await listed(client, id)
        assert (page["sentences"][0]["translation"], page["confirmed"]) == ("Hallo.", 1)
        assert (await result(client, id)).startswith(b"Hallo. MY")
        await client.delete(f"/documents/{id}")
    with closing(sqlite3.connect(tmp_path / "documents" / DATABASE)) as database:
        for table in ("documents", "translations", "sentences", "edits"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


async def test_a_document_of_an_earlier_release_says_that_it_cannot_be_edited(tmp_path: Path) -> None:
    async with serving(data_dir=tmp_path) as client:
        id = await added(client)
    with closing(sqlite3.connect(tmp_path / "documents" / DATABASE)) as database, database:
        database.execute("UPDATE documents SET keeps_translations = 0")
        database.execute("DELETE FROM translations")
    async with serving(data_dir=tmp_path) as client:
        problem_of(await client.get(f"/documents/{id}/sentences"), 409, "document_not_editable")
        assert (await result(client, id)).startswith(b"HELLO.")


async def test_a_document_that_is_edited_is_kept_for_another_day() -> None:
    async with serving() as client:
        id = await added(client)
        before = (await listed(client, id))["expires_at"]
        changed = (await change(client, id, {"number": 0, "confirmed": True})).json()["expires_at"]
        assert changed >= before
        assert (await client.get(f"/documents/{id}")).json()["expires_at"] == changed


async def test_nothing_is_stored_for_editing_before_the_sentences_are_requested(tmp_path: Path) -> None:
    async with serving(data_dir=tmp_path) as client:
        await added(client)
    with closing(sqlite3.connect(tmp_path / "documents" / DATABASE)) as database:
        assert database.execute("SELECT count(*) FROM sentences").fetchone() == (0,)
        ((_, first), (_, second)) = database.execute("SELECT unit, positions FROM translations").fetchall()
        assert unpacked(first) == [((0, 6), (0, 6)), ((7, 22), (7, 22))]
        assert len(first) == len(second) == 8
