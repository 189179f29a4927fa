"""What helps if a translation memory has only a similar sentence: chrF on held-out edits.

    python -m benchmarks.memory_steering

Sentences of a development set are edited: a number, or a word whose German does not inflect, is replaced by another one
in the source and in the reference. The memory has the original pair, the edited source is translated, and the edited
reference is the truth. Ways to translate it:

    model      without the memory
    stored     the stored translation as it is
    numbers    the stored translation with the number replaced; the model's if the change is no number
    prefix     the model continues the stored translation from the first word that changes
    steered    as numbers; otherwise the changes of the model's translations applied to the stored one
               (model/translation/transfer.py)

A way that does not apply to a sentence falls back to the model.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from model.artifacts.pretrained import pretrained_path
from model.errors import InputError
from model.scores import score
from model.text.quantities.names import NAMES
from model.training.corpus import read_parallel
from model.translation.options import TranslationOptions
from model.translation.transfer import steered, transferred
from model.translator import Translator

DEV = Path(__file__).resolve().parents[1] / "data" / "dev"
SETS = ("written", "forward", "passages")

_ENGLISH, _GERMAN = NAMES["en"], NAMES["de"]
_COUNTRIES = (
    "Germany Deutschland, France Frankreich, Italy Italien, Spain Spanien, Austria Österreich, Poland Polen, "
    "England England, Norway Norwegen, Sweden Schweden, Russia Russland, China China, Japan Japan, India Indien"
)

CLASSES: tuple[dict[str, str], ...] = (
    dict(
        zip(
            ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"],
            ["zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"],
            strict=True,
        )
    ),
    dict(zip(_ENGLISH.weekdays, _GERMAN.weekdays, strict=True)),
    {month: other for month, other in zip(_ENGLISH.months, _GERMAN.months, strict=True) if month != "May"},
    dict(pair.split() for pair in _COUNTRIES.split(", ")),
    {
        name: name
        for name in ("Berlin", "London", "Paris", "Hamburg", "Rome", "Madrid", "Vienna")
        if name[-1] not in "ea"
    },
    {name: name for name in ("Anna", "Peter", "Maria", "Tom", "Paul", "Julia", "Michael", "David", "Martin", "Laura")},
)


@dataclass(frozen=True)
class Edit:
    """An edited sentence.

    Args:
        kind: What was replaced.
        stored_source: The stored sentence.
        stored_target: Its translation.
        source: The edited sentence.
        reference: Its translation.
        number: The old and the new number, if it is one.
    """

    kind: str
    stored_source: str
    stored_target: str
    source: str
    reference: str
    number: tuple[str, str] | None = None


def edits(rng: random.Random) -> Iterator[Edit]:
    """At most one edit of each kind of each sentence."""
    for name in SETS:
        for source, target in read_parallel(DEV / name, ("en", "de")):
            numbers = [
                n for n in re.findall(r"(?<![\w.,:/-])\d{1,4}(?![\w.,:/-]*\d)", source) if _once(n, source, target)
            ]
            if numbers:
                old = rng.choice(numbers)
                new = str(rng.randrange(2, 10 ** len(old)) if len(old) < 4 else rng.randrange(1950, 2030))
                if new != old:
                    yield Edit(
                        "number", source, target, _replaced(source, old, new), _replaced(target, old, new), (old, new)
                    )
            for words in CLASSES:
                for word, translation in words.items():
                    if not (_once(word, source) and _once(translation, target)):
                        continue
                    other = rng.choice([other for other in words if other != word])
                    new_source, new_target = (
                        _replaced(source, word, other),
                        _replaced(target, translation, words[other]),
                    )
                    yield Edit("word", source, target, new_source, new_target)
                    break


def _once(word: str, *texts: str) -> bool:
    return all(len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text)) == 1 for text in texts)


def _replaced(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, text)


def prefixed(translator: Translator, edit: Edit, before: str, after: str) -> str:
    """The translation that begins as the stored one, up to the first word that the edit changes."""
    result = transferred(edit.stored_target, before, after)
    if result is None:
        return after
    same = 0
    while same < min(len(result), len(edit.stored_target)) and result[same] == edit.stored_target[same]:
        same += 1
    prefix = result[:same].rpartition(" ")[0].strip()
    try:
        return translator.translate([edit.source], TranslationOptions(target_prefix=prefix), "en", "de")[0].text
    except InputError:
        return after


def main() -> int:
    """Translate, and print the scores."""
    translator = Translator.load(pretrained_path("cpu"), "cpu", 1)
    everything = list(edits(random.Random(7)))
    before = [
        item.text
        for item in translator.translate([edit.stored_source for edit in everything], source="en", target="de")
    ]
    after = [item.text for item in translator.translate([edit.source for edit in everything], source="en", target="de")]
    outputs: dict[str, list[str]] = {"model": after, "stored": [edit.stored_target for edit in everything]}
    outputs["numbers"] = [
        _replaced(edit.stored_target, *edit.number) if edit.number else own
        for edit, own in zip(everything, after, strict=True)
    ]
    moved = [
        steered(edit.stored_source, edit.stored_target, edit.source, *both)
        for edit, *both in zip(everything, before, after, strict=True)
    ]
    outputs["steered"] = [own if new is None else new for own, new in zip(after, moved, strict=True)]
    outputs["prefix"] = [prefixed(translator, *row) for row in zip(everything, before, after, strict=True)]
    for kind in ("number", "word"):
        chosen = [index for index, edit in enumerate(everything) if edit.kind == kind]
        references = [everything[index].reference for index in chosen]
        applied = sum(moved[index] is not None for index in chosen)
        print(f"{kind}: {len(chosen)} edits, steering applies to {applied}")
        for way, texts in outputs.items():
            result = score([texts[index] for index in chosen], references)
            exact = sum(texts[index] == everything[index].reference for index in chosen)
            print(f"  {way:9} chrF2 {result.chrf:5.1f}  equal to the reference {exact / len(chosen):5.1%}")
        own = [(index, moved[index]) for index in chosen if moved[index] is not None]
        result = score([text or "" for _, text in own], [everything[index].reference for index, _ in own])
        model = score([after[index] for index, _ in own], [everything[index].reference for index, _ in own])
        print(f"  where steering applies: {result.chrf:.1f}, the model {model.chrf:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
