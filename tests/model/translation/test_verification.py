"""The verification of a translation: signs and protected spans stay with their words."""

from __future__ import annotations

import re

import pytest

from model.decoding.options import Hypothesis
from model.text.symbols import Part, Symbol
from model.text.tokenizer_training import learn_tokenizer
from model.translation.capabilities import Capabilities
from model.translation.options import Formality, TranslationOptions
from model.translation.reading import SentenceReader
from model.translation.verification import Findings, Verifier
from model.translation.writing import SentenceWriter

TEXTS = ["plan or plan", "Plan oder Plan", 'read the "whole" letter', "lies den ganzen Brief", "this button to pay"]
TOKENIZER = learn_tokenizer(TEXTS * 3, 352, ["de", "en"], normalisation="nfc", reserve_symbols=True)
READER = SentenceReader(TOKENIZER, Capabilities(placeholders=4), fold_capitals=False)
VERIFIER = Verifier(READER, SentenceWriter(TOKENIZER), retry_loops=False)


def findings(text: str, answer: str, formality: Formality | None = None) -> Findings:
    """What is wrong with an answer, in which ``<0>`` is the placeholder of the first span."""
    options = TranslationOptions(formality=formality)
    spans = list(READER.protected_spans(text, "auto", "en"))
    sentence = READER.read(text, 0, len(text), spans, options, ("en", "de"), READER.edits(text, spans, "en"))
    parts: list[Part] = [
        Symbol(f"<ph{part[1]}>") if re.fullmatch(r"<\d>", part) else part
        for part in re.split(r"(<\d>)", answer)
        if part
    ]
    return VERIFIER.verify(sentence, Hypothesis(TOKENIZER.encode_target_parts(parts)[:-1], None, "stop"))


@pytest.mark.parametrize(
    ("text", "answer", "loose"),
    [
        ("Plan B or plan C", "<0> oder Plan <1>", ["B"]),
        ("Plan B or plan C", "Plan <0> oder Plan <1>", []),
        ("Read <b>this button</b> to pay.", "Lies <0>, um den Plan<1>.", ["<b>"]),
        ("Read <b>this button</b> to pay.", "Lies <0>den Plan<1>.", []),
        ("Read the plan[1] to pay.", "Lies den <0> Plan.", ["[1]"]),
        ("Read the plan[1] to pay.", "Lies den Plan <0>.", []),
        ('Read the "whole" plan.', 'Lies den "whole" Plan.', ['"', '"']),
        ('Read the "whole" plan.', 'Lies den "ganzen" Plan.', []),
        ('Read "Whole Letter" or pay.', 'Lies "Whole Letter" oder nicht.', []),
        ('Read "Whole letter" or pay.', 'Lies "Whole Brief" oder nicht.', ['"', '"']),
        ("Read the _whole_ plan.", "Lies den <0>whole<1> Plan.", ["_", "_"]),
    ],
)
def test_spans_and_quotation_marks_are_loose_if_their_words_are_elsewhere_or_not_translated(
    text: str, answer: str, loose: list[str]
) -> None:
    found = findings(text, answer)
    assert [text[slice(*span)] for span in found.loose] == loose
    assert found.severity == bool(loose)


@pytest.mark.parametrize(
    ("text", "answer", "formality", "is_other"),
    [
        ("Please wait.", "Bitte warten Sie.", "informal", True),
        ("Please wait.", "Bitte warte.", "informal", False),
        ("How are you?", "Wie geht es dir?", "formal", True),
        ("How are you?", "Wie geht es Ihnen?", "formal", False),
        ("She waits for you.", "Sie wartet auf dich.", "informal", False),
        ("How are you?", "Wie geht es dir?", None, False),
    ],
)
def test_a_translation_in_another_form_of_address_than_the_requested_one_is_not_sound(
    text: str, answer: str, formality: Formality | None, is_other: bool
) -> None:
    found = findings(text, answer, formality)
    assert (found.has_other_form, found.severity) == (is_other, int(is_other))
