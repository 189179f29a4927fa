"""A small generated text in Esperanto and Italian: one translation a word, but case, gender and word order differ."""

from __future__ import annotations

import random
from pathlib import Path

Pair = tuple[str, str]

# Esperanto stem; Italian singular and plural, and gender.
NOUNS = (
    ("hund", "cane", "cani", "m"),
    ("kat", "gatto", "gatti", "m"),
    ("libr", "libro", "libri", "m"),
    ("knab", "ragazzo", "ragazzi", "m"),
    ("medicin", "dottore", "dottori", "m"),
    ("trajn", "treno", "treni", "m"),
    ("ĝarden", "giardino", "giardini", "m"),
    ("mar", "mare", "mari", "m"),
    ("dom", "casa", "case", "f"),
    ("flor", "rosa", "rose", "f"),
    ("leter", "lettera", "lettere", "f"),
    ("knabin", "ragazza", "ragazze", "f"),
    ("reĝin", "regina", "regine", "f"),
    ("urb", "città", "città", "f"),
    ("mont", "montagna", "montagne", "f"),
    ("tabl", "tavola", "tavole", "f"),
)
# Esperanto stem; Italian stem of an adjective in -o, -a, -i, -e.
ADJECTIVES = (
    ("ruĝ", "ross"),
    ("nov", "nuov"),
    ("malnov", "vecchi"),
    ("blank", "bianc"),
    ("bon", "buon"),
    ("malgrand", "piccol"),
    ("alt", "alt"),
    ("rapid", "rapid"),
)
# Esperanto verb; Italian third person singular and plural.
VERBS = (
    ("vidas", "vede", "vedono"),
    ("amas", "ama", "amano"),
    ("serĉas", "cerca", "cercano"),
    ("trovas", "trova", "trovano"),
    ("konas", "conosce", "conoscono"),
    ("aĉetas", "compra", "comprano"),
    ("vendas", "vende", "vendono"),
    ("memoras", "ricorda", "ricordano"),
)
ADVERBS = (("hodiaŭ", "oggi"), ("ofte", "spesso"), ("neniam", "mai"), ("ĉiam", "sempre"), ("nun", "adesso"))


def sentence(rng: random.Random) -> Pair:
    """A sentence and its translation, such as ``La ruĝa kato vidas domojn hodiaŭ.``"""
    plural = rng.random() < 0.4
    subject = _noun_phrase(rng, plural, accusative=False)
    esperanto, item, several = rng.choice(VERBS)
    objects = _noun_phrase(rng, rng.random() < 0.4, accusative=True)
    words = [[subject[0], esperanto, objects[0]], [subject[1], several if plural else item, objects[1]]]
    if rng.random() < 0.5:
        for side, adverb in zip(words, rng.choice(ADVERBS), strict=True):
            side.append(adverb)
    first, second = (" ".join(side) + "." for side in words)
    return first[0].upper() + first[1:], second[0].upper() + second[1:]


def _noun_phrase(rng: random.Random, plural: bool, *, accusative: bool) -> Pair:
    stem, singular, plurals, gender = rng.choice(NOUNS)
    ending = ("j" if plural else "") + ("n" if accusative else "")
    article = {"m": ("il", "i"), "f": ("la", "le")}[gender][plural]
    first, second = [f"{stem}o{ending}"], [plurals if plural else singular]
    if rng.random() < 0.6:
        adjective, italian = rng.choice(ADJECTIVES)
        first.insert(0, f"{adjective}a{ending}")
        second.append(_agreeing(italian, gender, plural))
    return " ".join(["la", *first]), " ".join([article, *second])


def _agreeing(stem: str, gender: str, plural: bool) -> str:
    if not plural:
        return stem + ("o" if gender == "m" else "a")
    if stem == "bianc":
        return "bianchi" if gender == "m" else "bianche"
    if stem == "vecchi":
        return "vecchi" if gender == "m" else "vecchie"
    return stem + ("i" if gender == "m" else "e")


def write_text(folder: Path, num_lines: int, seed: int = 1) -> tuple[Path, Path]:
    """Write ``text.eo`` and ``text.it``; every tenth line has two sentences.

    Args:
        folder: Where.
        num_lines: Lines of each file.
        seed: Of the random sentences; some of them are drawn several times.
    """
    rng = random.Random(seed)
    lines: list[Pair] = []
    for number in range(num_lines):
        first, second = sentence(rng)
        if number % 10 == 0:
            more = sentence(rng)
            first, second = f"{first} {more[0]}", f"{second} {more[1]}"
        lines.append((first, second))
    paths = folder / "text.eo", folder / "text.it"
    for side, path in enumerate(paths):
        path.write_text("".join(line[side] + "\n" for line in lines), encoding="utf-8")
    return paths
