"""Quotation marks, brackets and end marks of a translation are those of its source."""

from __future__ import annotations

import pytest

from model.text.punctuation import certain_changes, find_signs, quotes_to_read, wrong_signs


def changed(source: str, text: str, languages: tuple[str, str] = ("en", "de")) -> str:
    for start, end, new in certain_changes(source, (), text, (), languages):
        text = text[:start] + new + text[end:]
    return text


@pytest.mark.parametrize(
    ("text", "pairs", "single"),
    [
        ("The 'Accept' button isn't Tom's.", ["'Accept'"], []),
        ("'I can't come', the boys' mother said.", ["'I can't come'"], []),
        ("‘a’, ‚b‘, “c”, „d“, «e», »f«, ‹g›, ›h‹", ["‘a’", "‚b‘", "“c”", "„d“", "«e»", "»f«", "‹g›", "›h‹"], []),
        ('("Hello" [x])', ['("Hello" [x])', '"Hello"', "[x]"], []),
        ("Bye) :( haha))", ["( haha)"], [")", ")"]),
        ("'tis the '90s, rock'n'roll, 5\" long", [], ['"']),
        ('"Good morning.', [], ['"']),
        ("« Bonjour »", ["« Bonjour »"], []),
    ],
)
def test_signs_are_paired_and_apostrophes_are_none(text: str, pairs: list[str], single: list[str]) -> None:
    signs = find_signs(text)
    assert [text[start : end + 1] for start, end in signs.pairs] == pairs
    assert [text[index] for index in signs.single] == single


def test_signs_in_protected_spans_are_none() -> None:
    assert find_signs("f(x) and 'y'", [(0, 4), (9, 12)]) == ([], [])


@pytest.mark.parametrize(
    ("source", "text", "right"),
    [
        ("Das Brot ist fertig!", "The bread is ready.", "The bread is ready!"),
        ("Come in.", "Komm herein!", "Komm herein."),
        ("Really?", "Wirklich", "Wirklich?"),
        ("Achtung:", "Attention.", "Attention:"),
        ("Stop!!!", "Halt!", "Halt!!!"),
        ("Wait…", "Warte...", "Warte…"),
        ("See you soon", "Bis bald!", "Bis bald"),
        ("Save the changes", "Speichere die Änderungen.", "Speichere die Änderungen"),
        ("Cats, dogs, and so on", "Katzen, Hunde usw.", "Katzen, Hunde usw."),
        ('"He left."', "„Er ging.“", '"Er ging."'),
        ('She said "no".', 'Sie sagte "Nein."', 'Sie sagte "Nein."'),
        ('"Go!"', '"Geh."', '"Geh!"'),
    ],
)
def test_the_end_mark_is_that_of_the_source(source: str, text: str, right: str) -> None:
    assert changed(source, text) == right


@pytest.mark.parametrize(
    ("source", "text", "right"),
    [
        ('to "school".', "in die „Schule“.", 'in die "Schule".'),
        ("The 'Accept' button", 'Die Schaltfläche "Accept"', "Die Schaltfläche 'Accept'"),
        ("The 'Accept' button", "Die Schaltfläche 'Accept", "Die Schaltfläche 'Accept'"),
        ("The 'Accept' button", "Die Schaltfläche Accept", "Die Schaltfläche 'Accept'"),
        ("'Good morning'", "Guten Morgen", "'Guten Morgen'"),
        ("'Good morning.'", "Guten Morgen.", "'Guten Morgen.'"),
        ("«Hello», he said", '"Hallo", sagte er', "«Hallo», sagte er"),
        ("See (the list).", "Siehe [die Liste].", "Siehe (die Liste)."),
        ("Bis morgen)", "See you tomorrow", "See you tomorrow)"),
        ("danke))", "thanks)", "thanks))"),
        ('Hello, "Tom" "', 'Hallo, "Tom"', 'Hallo, "Tom" "'),
        ("Das ist gut.“", 'That is good."', 'That is good."'),
        ('"Das ist gut.', "“That is good.", '"That is good.'),
        ('"Good morning.', "Guten Morgen.", '"Guten Morgen.'),
        ("Er sagte „ja“.", 'He said "yes".', 'He said "yes".'),
        ("Er sagte „OK“.", "He said OK.", "He said “OK”."),
        ("the boys' toys", "die Sachen der Jungen", "die Sachen der Jungen"),
    ],
)
def test_pairs_have_the_style_of_the_source(source: str, text: str, right: str) -> None:
    languages = ("de", "en") if source.startswith(("B", "d", "E", "D", '"D')) else ("en", "de")
    assert changed(source, text, languages) == right


@pytest.mark.parametrize(
    ("source", "text", "language"),
    [
        ("Come in.", "进来。", "zh"),
        ("Come in!", "进来！", "zh"),
        ("Come in.", "เข้ามา", "th"),
        ('"Yes"', "「はい」", "ja"),
    ],
)
def test_other_scripts_keep_their_signs(source: str, text: str, language: str) -> None:
    assert changed(source, text, ("en", language)) == text


def test_a_protected_span_at_the_end_of_the_source_has_no_end_mark() -> None:
    assert certain_changes("Write to a.b.", [(9, 13)], "Schreib an a.b.!", [(11, 15)], ("en", "de")) == []
    assert certain_changes("Write to a@b.", [(9, 12)], "Schreib an a@b", [(11, 14)], ("en", "de")) == [(14, 14, ".")]


@pytest.mark.parametrize(
    ("source", "text", "wrong", "has_stray"),
    [
        ("He (Tom) left.", "Er (Tom ging.", "()", True),
        ("He (Tom) left.", "Er (Tom) ging.", "", False),
        ('He said "yes" to me.', "Er sagte ja zu mir.", '""', False),
        ("haha)) good", "haha) gut", "))", False),
        ("He left.", "Er ging).", "", True),
        ("Tomorrow (maybe).", "Morgen ().", "()", False),
        ('Tap "Open".', '"Tippen" auf "Open".', "", True),
    ],
)
def test_signs_without_a_counterpart_are_wrong(source: str, text: str, wrong: str, has_stray: bool) -> None:
    spans, stray = wrong_signs(source, (), text, ())
    assert ("".join(source[slice(*span)] for span in spans), stray) == (wrong, has_stray)


def test_quotation_marks_are_read_as_double_ones_and_none_around_the_whole() -> None:
    assert quotes_to_read("The 'Accept' button", ()) == [(4, '"'), (11, '"')]
    assert quotes_to_read("‘Good morning’.", ()) == [(0, ""), (13, "")]
    assert quotes_to_read('"Good morning."', ()) == [(0, ""), (14, "")]
    assert quotes_to_read('He said "it is ‚fine‘".', ()) == [(15, "'"), (20, "'")]
    assert quotes_to_read('Tom\'s "dog"', ()) == []
    assert quotes_to_read("The 'Accept' button", [(4, 12)]) == []
