"""What ``verso check`` and ``make test-samples`` find in translations that lack something, and what they let pass."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from app.commands.main import main
from app.documents.skeleton import differences
from tests.app.documents import test_office_formats as office
from tests.app.documents.structures.files import FILES as TEXT_FILES
from tests.app.documents.translated import in_capitals, read, translated
from tests.samples import check_folder, report

FILES: dict[str, bytes] = {
    **{suffix: source.encode() for suffix, source in TEXT_FILES.items()},
    **{suffix: make() for suffix, make in office.FILES.items()},
}
BILINGUAL = frozenset({".po", ".pot", ".xliff", ".xlf", ".ts", ".xcstrings"})


@pytest.mark.parametrize("suffix", sorted(FILES.keys() - BILINGUAL))
def test_a_file_in_which_one_text_is_translated_has_the_skeleton_of_its_source(suffix: str) -> None:
    file = read(suffix, FILES[suffix])
    texts = [None, *(in_capitals(unit) for unit in file.units[1:2]), *[None] * len(file.units[2:])]
    assert differences(f"a{suffix}", FILES[suffix], file.write(texts, "de"), "de") == []


@pytest.mark.parametrize(
    ("suffix", "old", "new"),
    [
        (".txt", "{name}", "{NAME}"),
        (".txt", "\r\n\r\n", "\r\n"),
        (".rst", "``code``", "code"),
        (".rst", "   kept", "kept"),
        (".html", ' id="top"', ""),
        (".html", "<code>x = 1</code>", "X = 1"),
        (".html", "var a", "VAR A"),
        (".html", "</b>", ""),
        (".srt", "00:00:05,000", "00:00:05,001"),
        (".srt", "X1:40", ""),
        (".srt", "42", "43"),
        (".vtt", "<00:01.500>", ""),
        (".json", '"item_one"', '"ITEM_ONE"'),
        (".json", "{{count}}", "{count}"),
        (".json", "1.50", "1.5"),
        (".csv", ";12", ";"),
        (".csv", ";;12", ",;12"),
        (".md", "`code here`", "code here"),
        (".md", "kept = 1", "KEPT = 1"),
        (".md", "http://x.y", "http://X.Y"),
        (".md", "**", ""),
        (".po", "%s", "% s"),
        (".po", "ist da", "IST DA"),
        (".po", 'msgid "Open"', 'msgid "OPEN"'),
        (".po", "#, c-format\n", ""),
        (".xliff", "</g>", "</g><g id='9'/>"),
        (".xlf", 'srcLang="en"', 'srcLang="fr"'),
        (".ts", "<name>Kept", "<name>KEPT"),
        (".ts", "Tür", "TÜR"),
        (".xcstrings", "%@", "%d"),
        (".xml", "%1$s", "%1$d"),
        (".xml", ' example="Bob"', ""),
        (".strings", "kept */", "*/"),
        (".stringsdict", "%d", ""),
        (".properties", "hi=", "Hi="),
        (".php", "$var", "$VAR"),
        (".resx", "<comment>kept</comment>", ""),
        (".yml", "first_name", "FIRST_NAME"),
        (".yml", "&x", "&y"),
    ],
)
def test_what_a_translation_lacks_is_a_difference(suffix: str, old: str, new: str) -> None:
    result = translated(suffix, FILES[suffix]).decode()
    assert old in result
    assert differences(f"a{suffix}", FILES[suffix], result.replace(old, new, 1).encode(), "de") != []


def replaced(data: bytes, part: str, old: str, new: str) -> bytes:
    """An archive with other characters in one of its parts."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(written, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name == part:
                assert old.encode() in content
                content = content.replace(old.encode(), new.encode(), 1)
            copy.writestr(name, content)
    return written.getvalue()


@pytest.mark.parametrize(
    ("suffix", "part", "old", "new"),
    [
        (".docx", "word/document.xml", "<w:b/>", ""),
        (".docx", "word/document.xml", "<w:tr>", '<w:tr a="b">'),
        (".docx", "docProps/app.xml", "</", " </"),
        (".pptx", "ppt/slides/slide1.xml", ' b="1"', ""),
        (".odt", "content.xml", 'outline-level="1', 'outline-level="2'),
        (".epub", "OEBPS/style.css", "", " "),
    ],
)
def test_what_a_translated_archive_lacks_is_a_difference(suffix: str, part: str, old: str, new: str) -> None:
    result = replaced(translated(suffix, FILES[suffix]), part, old, new)
    assert differences(f"a{suffix}", FILES[suffix], result) != []


@pytest.mark.parametrize(
    ("source", "result", "code", "output"),
    [
        ("Good {name}.\n", "GOOD {name}.\n", 0, "no differences"),
        ("Good {name}.\n", "GOOD.\n", 1, "text 1 ('Good {name}.'): expected '{name}', there is 'GOOD.'"),
        ("Good\n", "\0", 2, "NUL"),
    ],
)
def test_the_command_prints_each_difference(
    source: str, result: str, code: int, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    for path, content in zip(paths, (source, result), strict=True):
        path.write_bytes(content.encode())
    assert main(["check", *map(str, paths)]) == code
    printed = capsys.readouterr()
    assert output in printed.out + printed.err


def test_samples_of_all_formats_are_right(tmp_path: Path) -> None:
    for suffix, data in FILES.items():
        (tmp_path / f"file{suffix}").write_bytes(data)
    (tmp_path / "broken.json").write_bytes(b"{")
    tallies = check_folder(
        tmp_path, lambda units, source, target: [in_capitals(unit) for unit in units], keeps_words=True
    )
    assert {line for one in tallies.values() for line in one.differences} == set()
    assert "broken.json" in report(tallies)
    assert sum(one.num_files for one in tallies.values()) == len(FILES) + 1
