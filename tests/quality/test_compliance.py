"""How compliance is tested: what the inputs hold, and that answers made by hand are counted as described."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.quality.compliance import main
from benchmarks.quality.compliance_figures import address_figures, span_figures, term_figures
from benchmarks.quality.compliance_inputs import (
    SpanCase,
    TermCase,
    address_cases,
    address_in,
    span_cases,
    term_cases,
)
from model.languages import LanguagePairs
from model.text.glossary import GlossaryTerm, term_in
from model.text.protection import find_spans
from model.training.word_lexicon import WordLexicon
from model.translation.capabilities import Capabilities
from model.translation.options import TranslationOptions
from model.translation.results import SpanUse, Translation
from tests.model.test_word_lexicon import PAIRS

LEXICON = WordLexicon.learn(PAIRS)
LEXICON.frequent = frozenset()


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def answer(text: str, *restored: bool) -> Translation:
    uses = tuple(SpanUse((0, 1), (0, 1), item) for item in restored)
    return Translation(text, "en", "de", "stop", None, (), None, 1, 1, integrity=uses or None)


def test_both_sides_have_the_same_spans_and_exactly_these_are_protected() -> None:
    cases = span_cases(PAIRS, LEXICON, False, 80, rng())
    assert len(cases) == 80
    for case in cases:
        assert 1 <= len(case.spans) == len(set(case.spans)) <= 6
        assert case.plain in PAIRS
        assert case.has_all_once(case.source)
        assert case.has_all_once(case.target)
        assert case.in_order(case.target)
        assert sorted(case.source[slice(*span)] for span in find_spans(case.source)) == sorted(case.spans)
    kinds = " ".join(span for case in cases for span in case.spans)
    assert all(part in kinds for part in ("<b>", "</b>", "https://", "{", "%", "##"))


def test_spans_are_counted_by_the_text_their_order_and_who_placed_them() -> None:
    case = SpanCase("{a} dog {b}.", "Hund {a} {b}.", ("{a}", "{b}"), ("red dog old.", "Hund rot alt."))
    headers = [
        answer("Hund {a} {b}.", False, False),
        answer("{b} Hund {a}.", False, False),
        answer("Hund {a} {b}.", False, True),
        answer("Hund {a} {a}.", False, False),
    ]
    plain = [answer("Hund rot alt.")] * 4
    figures = span_figures([case] * 4, headers, plain, supported=True)
    assert (figures["sentences"], figures["spans"]) == (4, 8)
    assert (figures["exactly_once"], figures["in_order"], figures["placed_by_model"]) == (75.0, 50.0, 75.0)
    assert figures["chrf"] < figures["chrf_without_spans"] == 100.0
    assert span_figures([case] * 4, headers, plain, supported=False)["placed_by_model"] is None


def test_sentences_for_formality_say_you_and_have_a_clear_reference() -> None:
    pairs = [
        ("Can you help me?", "Kannst du mir helfen?"),
        ("Could you help me?", "Könnten Sie mir helfen?"),
        ("Thank you.", "Danke."),
        ("Your dog sleeps.", "Dein Hund schläft."),
        ("The young sleep.", "Die Jungen schlafen."),
    ]
    assert sorted(address_cases(pairs, 9, rng())) == sorted(pairs[:2])
    assert len(address_cases(pairs, 1, rng())) == 1


def test_a_translation_complies_if_it_has_the_form_and_not_the_other() -> None:
    pairs = [("Can you come?", "Kommst du?")] * 4
    texts = ["Kommst du?", "Kommen Sie?", "Komm!", "Kommst du, wenn Sie kommen?"]
    headers = address_figures("formal", pairs, [answer(text) for text in texts])
    assert (headers["formal"], headers["informal"], headers["not_clear"], headers["complies"]) == (1, 1, 2, 25.0)
    assert address_figures(None, pairs, [answer(text) for text in texts])["complies"] is None
    assert address_figures("formal", pairs, None) == {"requested": "formal", "supported": False, "sentences": 4}
    assert address_in("Kommst du?", "Can you come?") == "informal"


CARS = WordLexicon(
    {"car": {"auto": 0.6, "autos": 0.1, "wagen": 0.3, "fahren": 0.2}, "the": {"das": 1.0}},
    {"auto": {"car": 0.9}, "autos": {"car": 0.9}, "wagen": {"car": 0.6}, "fahren": {"car": 0.3}, "das": {"the": 0.9}},
    ["the", "das"],
)
CAR_PAIRS = [("Here is the car.", "Hier ist das Auto."), ("The car waits.", "Da steht ein Wagen, und alle fahren.")]


def test_terms_are_words_of_the_reference_or_other_nouns_of_the_lexicon() -> None:
    cases = term_cases(CAR_PAIRS * 20, CARS, ("en", "de"), False, 20, rng())
    assert [case.other for case in cases] == [False] * 10 + [True] * 10
    references = dict(CAR_PAIRS)
    for case in cases:
        (term,) = case.glossary
        assert term.source == "car"
        assert (term_in(references[case.source], term.target) is None) == case.other
    assert {case.glossary[0].target for case in cases if case.other} == {"Auto", "Wagen"}, "no verb, no inflection"


def test_terms_are_counted_with_and_without_the_glossary() -> None:
    cases = [
        TermCase("the car", (GlossaryTerm("car", "Wagen"),), other=True),
        TermCase("a house, a car", (GlossaryTerm("house", "Haus"), GlossaryTerm("car", "Auto")), other=False),
    ]
    plain = [answer("das Auto"), answer("ein Haus, ein Wagen")]
    headers = [answer("des Wagens"), answer("zwei Häuser, ein Karren")]
    figures = term_figures(cases, headers, plain, supported=True)
    assert (figures["sentences"], figures["terms"]) == (2, 3)
    assert (figures["without_glossary"], figures["with_glossary"], figures["replaced"]) == (33.33, 66.67, 0.0)
    assert term_figures([], [], [], supported=True)["with_glossary"] is None


class Obedient:
    """A translator that follows its options and does nothing else."""

    capabilities = Capabilities(placeholders=16, formality=("de",), glossary=True)
    manifest = SimpleNamespace(directions=LanguagePairs((("en", "de"),)))

    def translate(
        self,
        texts: Sequence[str],
        options: TranslationOptions | Sequence[TranslationOptions],
        source: str,
        target: str,
        progress: object,
    ) -> list[Translation]:
        each = [options] * len(texts) if isinstance(options, TranslationOptions) else options
        return [answer(self.one(text, headers)) for text, headers in zip(texts, each, strict=True)]

    def one(self, text: str, headers: TranslationOptions) -> str:
        if headers.glossary:
            return " ".join(term.target for term in headers.glossary)
        return {"formal": "Kommen Sie?", "informal": "Kommst du?", None: text}[headers.formality]


def test_tables_show_each_kind_with_its_number_of_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.quality.compliance.load_translator", lambda arguments: Obedient())
    lexicon, out = tmp_path / "lexicon.json.gz", tmp_path / "figures.json"
    tables = {"forward": CARS.forward, "backward": CARS.backward, "frequent": sorted(CARS.frequent)}
    lexicon.write_bytes(gzip.compress(json.dumps(tables).encode()))
    pairs = [*CAR_PAIRS * 20, *[("Are you there?", "Bist du da?")] * 20]
    for base, some in (("one", pairs[::2]), ("two", pairs[1::2])):
        for side, language in enumerate(("en", "de")):
            text = "".join(pair[side] + "\n" for pair in some)
            (tmp_path / f"{base}.{language}").write_text(text, encoding="utf-8")
    tests = ["--test", str(tmp_path / "one"), "--test", str(tmp_path / "two")]
    calls = [*tests, "--lexicon", str(lexicon), "--number", "40", "--show", "2", "--json", str(out)]
    assert main(calls) == 0
    figures = json.loads(out.read_text())
    (spans,) = figures["placeholders"]
    assert (spans["sentences"], spans["exactly_once"], spans["placed_by_model"]) == (40, 100.0, 100.0)
    assert [(row["requested"], row["sentences"], row.get("complies")) for row in figures["formality"]] == [
        (None, 10, None),
        ("formal", 10, 100.0),
        ("informal", 10, 100.0),
    ]
    assert [(row["sentences"], row["without_glossary"], row["with_glossary"]) for row in figures["glossary"]] == [
        (10, 0.0, 100.0),
        (10, 0.0, 100.0),
        (20, 0.0, 100.0),
    ]
    printed = capsys.readouterr().out
    assert "not supported" not in printed
    assert re.search(r"\| en-de +\| informal +\| +10 \| +0 \| +10 \| +0 \| +100\.0 \|", printed)
