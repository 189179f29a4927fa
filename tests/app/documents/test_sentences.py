"""Units divided into sentences beside their translations, and written again with edits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.edit_check import flaw_in
from app.documents.file_worker import answer
from app.documents.formats.document_file import Unit
from app.documents.formats.table import FORMATS
from app.documents.positions import Pairs, packed, unpacked
from app.documents.sentences import Division, Sentence, divided
from app.documents.skeleton import differences
from model.translation.options import TextFormat
from tests.app.documents.structures.files import FILES
from tests.app.documents.structures.office import ARCHIVES
from tests.app.documents.structures.structures import Structures
from tests.app.documents.structures.table import STRUCTURES
from tests.app.documents.test_office_formats import word_document
from tests.app.documents.translated import read, translation_of


def in_capitals(unit: Unit) -> tuple[str, Pairs]:
    """The translation of a unit by a model that writes capitals, and the positions of its sentences."""
    translation = translation_of(unit)
    assert translation.sentences is not None
    return translation.text, translation.sentences


def division(text: str, format: TextFormat = "html") -> Division:
    """A unit divided beside its capitals."""
    unit = Unit(text, format)
    return divided(unit, *in_capitals(unit))


def shown(text: str, format: TextFormat = "html") -> list[str]:
    """The sentences of a unit; their translations are the same in capitals, markers included."""
    sentences = division(text, format).sentences
    assert [sentence.source.upper() for sentence in sentences] == [sentence.translation for sentence in sentences]
    return [sentence.source for sentence in sentences]


def test_a_plain_text_is_divided_as_it_was_translated() -> None:
    text = "  Hello, Mr. Fox. My name is Tom.\n- Good day. Bye.  "
    assert shown(text, "text") == ["Hello, Mr. Fox.", "My name is Tom.", "Good day.", "Bye."]
    edited = division(text, "text").edited({1: "ICH BIN TOM.", 3: "TSCHÜSS."})
    assert edited == "  HELLO, MR. FOX. ICH BIN TOM.\n- GOOD DAY. TSCHÜSS.  "


def test_inline_elements_are_markers_with_the_same_numbers_on_both_sides() -> None:
    text = 'Second <i>one &amp; two</i>. <b><i>Third</i></b> x <img src="x"> and <code>f(x)</code>.'
    assert shown(text) == ["Second {1}one & two{/1}.", "{1}{2}Third{/2}{/1} x {3} and {4}."]
    assert division(text).sentences[1].markers == {1: "", 2: "", 3: "", 4: "f(x)"}


def test_an_element_around_whole_sentences_is_no_marker_and_stays_where_it_is() -> None:
    text = "<b>First. Second.</b><br>Third."
    assert shown(text) == ["First.", "Second.", "Third."]
    assert division(text).edited({0: "1 < 2.", 2: "DRITTENS."}) == "<b>1 &lt; 2. SECOND.</b><br>DRITTENS."


def test_sentences_that_share_an_element_are_one() -> None:
    assert shown("One <b>two. Three</b> four. Five.") == ["One {1}two. Three{/1} four.", "Five."]
    assert shown("<b>One. Two</b> three. Four.") == ["{1}One. Two{/1} three.", "Four."]


def test_numbers_in_braces_that_the_text_has_are_no_markers() -> None:
    text = "Hello {1}, you have <b>{0} books</b>."
    assert shown(text) == ["Hello {1}, you have {2}{0} books{/2}."]
    assert division(text).edited({0: "{2}{0} BÜCHER{/2}, {1}."}) == "<b>{0} BÜCHER</b>, {1}."


def test_values_of_attributes_are_sentences_of_their_own() -> None:
    text = '<img alt="A dog &amp; a cat"> sits <a title="Read" href="/x">here</a>.'
    assert shown(text) == ["A dog & a cat", "sits {1}here{/1}.", "Read"]
    edited = division(text).edited({0: 'EIN "HUND"', 1: "SITZT {1}DA{/1}.", 2: "LESEN"})
    assert edited == '<img alt="EIN &quot;HUND&quot;"> SITZT <a title="LESEN" href="/x">DA</a>.'


@pytest.mark.parametrize(
    "text",
    [
        "A <b>b <i>c</b> d. E</i> f. G.",
        "A</b> b. <i>C d. E.",
        "</p>A <b>b. C<b> d</b>. E",
        "<b></b>A. <i></i>B <u></u>c.",
        "A. <code>x</code>",
        "<code>x</code>",
        "A <svg><title>In it. Yes.</title></svg> b.",
    ],
)
def test_markup_that_is_not_regular_is_divided_and_comes_back(text: str) -> None:
    capitals, _ = in_capitals(Unit(text, "html"))
    for pairs in (in_capitals(Unit(text, "html"))[1], []):
        parts = divided(Unit(text, "html"), capitals, pairs)
        assert parts.edited({}) == capitals
        assert parts.edited({index: part.translation for index, part in enumerate(parts.sentences)}) == capitals


def test_a_unit_whose_sentences_are_unknown_is_one_sentence() -> None:
    assert divided(Unit(" A. B. "), " X. Y. ", []).sentences == [Sentence("A. B.", "X. Y.")]
    parts = divided(Unit("<b>A. B</b>. ", "html"), "<b>X. Y</b>. ", [])
    assert [part.translation for part in parts.sentences] == ["{1}X. Y{/1}."]


def test_positions_are_stored_in_a_short_form_and_not_at_all_for_a_unit_of_one_sentence() -> None:
    pairs = (((0, 2), (0, 3)), ((3, 5), (4, 6)))
    assert unpacked(packed(pairs, "A. B.", "XX. Y.")) == list(pairs)
    assert len(packed(pairs, "A. B.", "XX. Y.")) == 8
    assert packed((((0, 2), (0, 3)),), "A.", "XX.") == packed(None, "A.", "XX.") == packed((), "", "") == b""


@given(st.lists(st.tuples(*[st.integers(0, 100_000)] * 4), min_size=1, max_size=20))
def test_any_positions_come_back(numbers: list[tuple[int, int, int, int]]) -> None:
    pairs = [((a, a + b), (c, c + d)) for a, b, c, d in numbers]
    assert unpacked(packed(pairs, "", "")) == pairs


def test_a_document_of_too_many_sentences_cannot_be_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.documents.file_worker.MAX_SENTENCES", 2)
    kind, reason = answer(".txt", b"A.\n\nB.\n\nC.", None, {}, "", {})
    assert kind == "complex" and "more than 2 sentences" in reason


def edited_by(suffix: str, data: bytes, form: str = "{} Neu") -> tuple[bytes, list[str]]:
    """A file in capitals with an edit in each sentence, written as the service does, and the edits."""
    units = read(suffix, data).units
    translated = [in_capitals(unit) for unit in units]
    translations: dict[int, str | None] = {index: text for index, (text, _) in enumerate(translated)}
    positions = {index: packed(pairs, units[index].text, text) for index, (text, pairs) in enumerate(translated)}
    kind, rows = answer(suffix, data, None, translations, "", positions)
    assert kind == "sentences"
    edits: dict[int, dict[int, str | None]] = {}
    for unit, index, source, translation, markers in rows:
        edits.setdefault(unit, {})[index] = text = form.format(translation)
        assert flaw_in(text, source, translation, markers) is None
    kind, result = answer(suffix, data, None, translations, "de", positions, edits)
    assert kind == "file", result
    return result, [str(text) for unit in edits.values() for text in unit.values()]


@pytest.mark.parametrize("suffix", sorted(FILES))
def test_an_edit_in_each_sentence_changes_nothing_else_of_a_file(suffix: str) -> None:
    source = FILES[suffix].encode()
    result, edits = edited_by(suffix, source)
    assert list(map(str, differences(f"file{suffix}", source, result, "de"))) == []
    assert result.decode().count("Neu") >= len(edits) > 0


@pytest.mark.parametrize(
    "form", ["?> {}", "{} \"x\" 'y' \\ ]]> --> & &amp; # : | *a* [z](u) ; `c` ?> /* <", "- {}", "=1 {}"]
)
@pytest.mark.parametrize("suffix", sorted(FILES))
def test_signs_of_a_format_that_are_typed_are_text(suffix: str, form: str) -> None:
    source = FILES[suffix].encode()
    result, _ = edited_by(suffix, source, form)
    assert list(map(str, differences(f"file{suffix}", source, result, "de"))) == []


@pytest.mark.parametrize(
    ("structures", "example"),
    [
        pytest.param(structures, example, id=f"{structures.label} {name}")
        for structures in STRUCTURES
        for name, example in (structures.translated | structures.kept).items()
    ],
)
def test_an_edit_in_each_sentence_changes_nothing_else_of_a_structure(structures: Structures, example: str) -> None:
    suffix = structures.suffix
    make, _ = ARCHIVES.get(structures.part or suffix, (str.encode, bytes.decode))
    source = make(structures.source_and_translation(example)[0])
    result, _ = edited_by(suffix, source)
    assert FORMATS[suffix].result_suffix or list(map(str, differences(f"file{suffix}", source, result, "de"))) == []


def test_an_edit_in_each_sentence_of_a_word_document_is_in_it() -> None:
    source = word_document()
    result, edits = edited_by(".docx", source)
    assert list(map(str, differences("file.docx", source, result, "de"))) == []
    assert sum(unit.words.count("Neu") for unit in read(".docx", result).units) == len(edits) == 10


@pytest.mark.parametrize("suffix", [".po", ".ts", ".xliff"])
def test_a_sentence_that_is_right_untranslated_is_written_to_a_catalogue_as_its_translation(suffix: str) -> None:
    source = FILES[suffix].encode()
    units = read(suffix, source).units
    nothing: Mapping[int, str | None] = dict.fromkeys(range(len(units)))
    kind, rows = answer(suffix, source, None, nothing, "", {})
    edits: dict[int, dict[int, str | None]] = {}
    for unit, index, *_ in rows:
        edits.setdefault(unit, {})[index] = None
    kind, result = answer(suffix, source, None, nothing, "de", {}, edits)
    assert kind == "file" and result != source
    assert read(suffix, result).units == []


FLAWS = [
    ("Hallo {1}Welt{/1}{2}", None),
    ("{2}{1}Hallo{/1}", None),
    ("Hallo {1}Welt{/1}", "lacks the marker {2}"),
    ("Hallo {1}Welt{/1}{2}{2}", "has the marker {2} 2 times"),
    ("Hallo {/1}Welt{1}{2}", "has {/1} where another element is open"),
    ("Hallo {1}Welt{/1}{2}{/2}", "has the marker {/2} 1 times"),
    ("Hallo {1}Welt{/1}{2} {3}", None),
    ("", "is blank"),
    ("Hallo {1}\nWelt{/1}{2}", "has 1 line breaks"),
    ("Hallo {1}\x01Welt{/1}{2}", "has the character U+0001"),
    ("x" * 10_000, "has 10000 characters"),
]


@pytest.mark.parametrize(("text", "flaw"), FLAWS)
def test_what_cannot_be_written_is_named(text: str, flaw: str | None) -> None:
    result = flaw_in(text, "Hello {1}world{/1}{2}", "HALLO {1}WELT{/1}{2}", {1: "", 2: ""})
    assert result is None if flaw is None else str(result).startswith(flaw)


def test_elements_in_one_another_do_not_overlap() -> None:
    machine = "{1}a {2}b{/2}{/1}"
    assert flaw_in("{2}b {1}a{/1}{/2}", machine, machine, {1: "", 2: ""}) is None
    assert "close each element" in str(flaw_in("{1}a {2}b{/1}{/2}", machine, machine, {1: "", 2: ""}))


@pytest.mark.parametrize("placeholder", ["{name}", "%1$s", "%s", "{{ user.name }}", ":attribute", "${total}"])
def test_placeholders_of_programs_are_kept(placeholder: str) -> None:
    source, machine = f"Dear {placeholder}, hello", f"HALLO {placeholder}, hi"
    assert flaw_in(f"Guten Tag, {placeholder}", source, machine, {}) is None
    assert f"lacks the placeholder {placeholder}" in str(flaw_in("Guten Tag", source, machine, {}))
    assert flaw_in("Guten Tag", source, "HALLO", {}) is None  # the machine's translation lacks it, too


@pytest.mark.parametrize("text", ["{1}" * 5_000, "{1}{/1}" * 3_000, "{" * 10_000, "{{" * 5_000, "%" * 10_000])
def test_hostile_translations_are_refused_or_accepted_at_once(text: str) -> None:
    flaw_in(text, text, text, {1: ""})
