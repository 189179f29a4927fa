"""Numbers, dates and times are read by the rules of a language, compared, and spelled by those of another."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.text.quantities.agreement import find_agreement, right_form
from model.text.quantities.names import NAMES, SIGNS
from model.text.quantities.reading import read_quantities

EN_DE, DE_EN = ("en", "de"), ("de", "en")


def respelled(source: str, answer: str, languages: tuple[str, str]) -> str:
    for item in reversed(find_agreement(source, (), answer, (), languages).respellings):
        answer = answer[: item.start] + item.text + answer[item.end :]
    return answer


@pytest.mark.parametrize(
    ("source", "answer", "right"),
    [
        ("The average is 82,796.11.", "Der Durchschnitt ist 82,796.11.", "Der Durchschnitt ist 82.796,11."),
        ("It costs $1,250.50.", "Es kostet $1.250.50.", "Es kostet 1.250,50 $."),
        ("The project costs €64 billion.", "Das Projekt kostet €64 Milliarden.", "Das Projekt kostet 64 Milliarden €."),
        ("The fine is $578,852.", "Das Bußgeld beträgt 578.852.", "Das Bußgeld beträgt 578.852 $."),
        ("5,512 kilometers per hour", "5.512 Kilometer", "5.512 km/h"),
        ("It ends on 02/13/2021.", "Er endet am 02.13.2021.", "Er endet am 13.02.2021."),
        ("It ends on 03/04/2025.", "Er endet am 03.04.2025.", "Er endet am 03/04/2025."),
        ("She was born on August 9.", "Sie wurde im August 9 geboren.", "Sie wurde am 9. August geboren."),
        ("reply by September 13", "Antwort bis September 13", "Antwort bis zum 13. September"),
        ("Monday, November 5, 1990", "Montag, November 5. November 1990", "Montag, 5. November 1990"),
        ("on Tuesday, May 4, 1993", "am Mittwoch, 4. Mai 1993", "am Dienstag, 4. Mai 1993"),
        ("this friday, january 25th", "diesen Freitag, January 25.", "diesen Freitag, 25. Januar."),
        ("on January 25th", "am Freitag, January 25", "am Freitag, 25. Januar"),
        ("We measured 24 cm.", "Wir haben 24 Uhr gemessen.", "Wir haben 24 cm gemessen."),
        ("at 2 p.m.", "um 2 Uhr", "um 14 Uhr"),
        ("at 4:21pm", "um 18:21 Uhr", "um 16:21 Uhr"),
        ("from 9am to 8 PM", "von 22 bis 8 Uhr", "von 9 bis 20 Uhr"),
        ("The train leaves at 9:00.", "Der Zug fährt um 21:00 Uhr.", "Der Zug fährt um 9:00 Uhr."),
        ("solved in Windows 10.11", "gelöst in Windows 10,11", "gelöst in Windows 10.11"),
        ("within 3-5 minutes", "innerhalb von 3:5 Minuten", "innerhalb von 3-5 Minuten"),
        ("My number is 999-999-9999.", "Meine Nummer ist 999 999.9999.", "Meine Nummer ist 999-999-9999."),
    ],
)
def test_a_german_translation_gets_the_forms_of_its_language(source: str, answer: str, right: str) -> None:
    assert respelled(source, answer, EN_DE) == right
    assert respelled(source, right, EN_DE) == right


@pytest.mark.parametrize(
    ("source", "answer", "right"),
    [
        ("501.718 Britische Pfund", "501.718 British pounds", "501,718 British pounds"),
        ("USD 53,7 Mio.", "USD 53.7 Mio.", "USD 53.7 million."),
        ("93 Mrd. € in Schulen", "93 Mrd. € in schools", "€93 billion in schools"),
        ("€ 278.570,56 für das Auto", "€ 278,570.56 for the car", "€278,570.56 for the car"),
        ("nur 18 %", "only 18 %", "only 18%"),
        ("am 3. März", "on March 3th", "on 3 March"),
        ("geöffnet 9.00-21.30 Uhr", "open 9.00-21.30 p.m.", "open 9 a.m.-9:30 p.m.."),
        ("Er endet am 25.05.1983.", "It ends on the 25.05.1983.", "It ends on 25 May 1983."),
        ("am Dienstag, dem 22. Juni 2010", "on Tuesday, which 22 June 2010", "on Tuesday, 22 June 2010"),
        ("am 1987-02-09 geboren", "born on 1987 02-09", "born on 1987-02-09"),
        ("Der Zug fährt um 14 Uhr.", "The train leaves at 14.", "The train leaves at 2 p.m.."),
        ("Der Zug fährt um 7 Uhr.", "The train leaves at 7 p.m.", "The train leaves at 7 o'clock."),
        ("10-16 Uhr geöffnet", "open 10-16", "open 10 a.m.-4 p.m."),
        ("um 8:30 Uhr", "at 8.30", "at 8:30"),
        ("Es war ihr 44. Versuch.", "It was her 44. try.", "It was her 44th try."),
        ("im 11. Stock", "on the 11st floor", "on the 11th floor"),
        ("im 32. Stock", "on the 32 floor", "on the 32nd floor"),
        ("1.244–2.488 Minuten", "1.244–2.488 minutes", "1,244–2,488 minutes"),
        ("55 000 Fässer", "55 000 barrels", "55,000 barrels"),
    ],
)
def test_an_english_translation_gets_the_forms_of_its_language(source: str, answer: str, right: str) -> None:
    assert respelled(source, answer, DE_EN) == right
    assert respelled(source, right, DE_EN) == right


@pytest.mark.parametrize(
    ("source", "answer", "languages"),
    [
        ("at 7 in the evening", "um 7 Uhr abends", EN_DE),
        ("7:10 pm", "19.10 Uhr", EN_DE),
        ("May 5 people come?", "Dürfen 5 Leute kommen?", EN_DE),
        ("Model 3.5 of the car", "Modell 3.5 des Autos", EN_DE),
        ("$1 billion", "1 Milliarde Dollar", EN_DE),
        ("a 2.5-hour flight", "ein 2,5-stündiger Flug", EN_DE),
        ("the 1990s", "die 1990er", EN_DE),
        ("555 555 55 55", "555 555 55 55", EN_DE),
        ("near 19th Street", "nahe der 19th Street", EN_DE),
        ("um 7 Uhr kamen 7 Leute", "At 7 o'clock, 7 people came", DE_EN),
        ("um 8 Uhr abends", "at 8 p.m.", DE_EN),
        ("15-18 Uhr", "3-6 p.m.", DE_EN),
        ("Heute sind es 20 °C.", "Today it is 20 degrees.", DE_EN),
        ("Im 3. Kapitel", "In Chapter 3", DE_EN),
        ("Das 3-km-Rennen", "The 3 km race", DE_EN),
        ("kostet 1.299,99 €", "costs 1,299.99 euros", DE_EN),
    ],
)
def test_what_is_right_stays(source: str, answer: str, languages: tuple[str, str]) -> None:
    agreement = find_agreement(source, (), answer, (), languages)
    assert not agreement.respellings and not agreement.lost


@pytest.mark.parametrize(
    ("source", "answer", "lost", "languages"),
    [
        ("open from 11 am until 8 PM", "von 11 Uhr an geöffnet", "8 PM", EN_DE),
        ("by May 20, 2025", "am 20. Mai, am 20. Mai 2025", "May 20, 2025", EN_DE),
        ("bis zum 2013-01-08", "by the 01-08 2013", "2013-01-08", DE_EN),
        ("rose to 46,065.8", "stieg auf 46.065,8 auf 46.065", "46,065.8", EN_DE),
        ("at 9 a.m.", "um neun Uhr", "", EN_DE),
        ("at noon on 5 May", "mittags am 5. Mai", "", EN_DE),
        ("half past two to 3 p.m.", "14.30 bis 15 Uhr", "", EN_DE),
    ],
)
def test_a_date_or_time_that_a_translation_lacks_or_repeats_is_lost(
    source: str, answer: str, lost: str, languages: tuple[str, str]
) -> None:
    agreement = find_agreement(source, (), answer, (), languages)
    assert [source[slice(*span)] for span in agreement.lost] == ([lost] if lost else [])


@pytest.mark.parametrize(
    ("source", "number", "form", "languages"),
    [
        ("It costs $1,250.50 here.", "1,250.50", "1.250,50 $", EN_DE),
        ("5 Mio. EUR", "5", "5 million", DE_EN),
        ("12.05.2021", "12.05.2021", "12 May 2021", DE_EN),
        ("Wednesday, May 12th", "12th", "Mittwoch, 12. Mai", EN_DE),
        ("at 2:30 p.m.", "2:30", "14:30 Uhr", EN_DE),
        ("call +1 866-553-2369", "553", "1 866-553-2369", EN_DE),
        ("1" * 5000, "1", "1" * 5000, EN_DE),
    ],
)
def test_a_protected_number_is_spelled_as_the_target_language_spells_it(
    source: str, number: str, form: str, languages: tuple[str, str]
) -> None:
    start = source.index(number)
    right = right_form(source, (start, start + len(number)), languages)
    assert right is not None and right[1] == form


def test_words_with_digits_are_no_quantities() -> None:
    assert read_quantities("B2B, x64, the 1990s, v2.4.1 and 2h", "en") == ()


def test_the_names_are_those_of_cldr() -> None:
    names = pytest.importorskip("scripts.quantity_names")
    assert {language: names.names_of(language) for language in names.LANGUAGES} == NAMES
    assert names.signs() == SIGNS


WORDS = (
    "19|2021|12.05.2021|05/13/2021|May|Mai|January|Montag|Monday|, |am |the |of | Uhr| p.m.|am|th|. a| bis | to "
    "| million| Mio.| kg| EUR|USD |Version |x"
)
PARTS = st.sampled_from([*"0123456789.,:/-+ '$€£%°\u00a0\u0663", *WORDS.split("|")])
TEXTS = st.lists(PARTS, max_size=14).map("".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS)
def test_any_text_is_read_compared_and_spelled(source: str, answer: str) -> None:
    for languages in (EN_DE, DE_EN):
        quantities = read_quantities(source, languages[0])
        ends = [0, *(quantity.span[1] for quantity in quantities)]
        assert all(end <= quantity.span[0] for end, quantity in zip(ends, quantities, strict=False))
        agreement = find_agreement(source, (), answer, (), languages)
        items = agreement.respellings
        assert all(first.end <= second.start for first, second in pairwise(items))
        for quantity in quantities:
            form = right_form(source, quantity.core, languages)
            assert form is not None and form[1]
