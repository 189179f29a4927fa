"""Extractors of data sets: aligned files, tables, treebanks, dialogues, verses, stories; pairs and single sentences."""

from __future__ import annotations

import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from model.errors import DataError
from model.training.corpus import Pair
from scripts.data.text import check_size, read, tidy

# Pairs


def aligned(source: Path, target: Path, context_end: str = "") -> Iterator[Pair]:
    """Two files whose lines correspond.

    Args:
        source: The file with the originals.
        target: The file with their translations.
        context_end: In each original, what comes before this is not translated.

    Raises:
        DataError: They have different numbers of lines.
    """
    sides = [read(path).removesuffix("\n").split("\n") for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(f"{source} and {target} have {len(sides[0])} and {len(sides[1])} lines.")
    for first, second in zip(*sides, strict=True):
        yield (first.rpartition(context_end)[2].strip() if context_end else first), second


def aligned_in_tar(archive: Path, source: str, target: str) -> Iterator[Pair]:
    """Two aligned files of a compressed tar file, by the ends of their names."""
    with tarfile.open(archive) as members:
        texts = {}
        for member in members:
            ending = next((name for name in (source, target) if member.name.endswith(name)), None)
            file = members.extractfile(member) if ending and member.isfile() else None
            if ending and file:
                check_size(archive, member.size)
                texts[ending] = file.read().decode().splitlines()
    if len(texts.get(source, ())) != len(texts.get(target, ())):
        raise DataError(f"{archive} has no {source} and {target} of the same number of lines.")
    yield from zip(texts.get(source, ()), texts.get(target, ()), strict=True)


def manythings(*paths: Path) -> Iterator[Pair]:
    """Sentences of Tatoeba with translations, as manythings.org publishes them: a table, or a ZIP file with one."""
    for path in paths:
        for text in _texts(path):
            for line in text.splitlines():
                cells = line.split("\t")
                if len(cells) > 1:
                    yield cells[0], cells[1]


def _texts(path: Path) -> Iterator[str]:
    if path.suffix != ".zip":
        yield read(path)
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".txt") and "about" not in name and "__MACOSX" not in name:
                check_size(path, archive.getinfo(name).file_size)
                yield archive.read(name).decode("utf-8", "replace")


_TREEBANK_SENTENCE = re.compile(r"(?m)^# sent_id = (\S+)\n(?:#.*\n)*?# text = (.*)$")


def conllu(source: Path, target: Path) -> Iterator[Pair]:
    """Two treebanks of the same sentences."""
    german = dict(_TREEBANK_SENTENCE.findall(read(target)))
    yield from ((text, german[key]) for key, text in _TREEBANK_SENTENCE.findall(read(source)) if key in german)


def xquad(source: Path, target: Path) -> Iterator[Pair]:
    """Paragraphs with questions (SQuAD), translated one by one."""
    documents = [json.loads(read(path))["data"] for path in (source, target)]
    for first, second in zip(*documents, strict=True):
        for paragraph, translation in zip(first["paragraphs"], second["paragraphs"], strict=True):
            yield paragraph["context"], translation["context"]
            questions = {item["id"]: item["question"] for item in translation["qas"]}
            for item in paragraph["qas"]:
                if item["id"] in questions:
                    yield item["question"], questions[item["id"]]


def chat(*paths: Path) -> Iterator[Pair]:
    """Conversations between customers and agents, each turn with its translation (BConTrasT)."""
    for path in paths:
        for conversation in json.loads(read(path)).values():
            for turn in conversation:
                german = turn["speaker"] == "customer"
                pair = (turn["target"], turn["source"]) if german else (turn["source"], turn["target"])
                yield pair


_STORY_PAGE = re.compile(r"(?m)^##\s*$")


def storybooks(source: Path, target: Path) -> Iterator[Pair]:
    """Picture stories of the Global African Storybook Project, page by page; only those under CC BY."""
    english = {path.name[:4]: path for path in sorted(source.glob("*.md"))}
    for path in sorted(target.glob("0*.md")):
        other = english.get(path.name[:4])
        if other and all("License: [CC-BY]" in read(story) for story in (path, other)):
            pages = [[tidy(page) for page in _STORY_PAGE.split(read(story))] for story in (other, path)]
            if len(pages[0]) == len(pages[1]):
                yield from zip(pages[0][1:-1], pages[1][1:-1], strict=True)


_VERSE = re.compile(r"\[(\d+):(\d+)\] *(.*)")
_VERSE_NOTE = re.compile(r"\([^)]*\)|\[[^]]*\]|<[^>]+>")


def bible(source: Path, target: Path) -> Iterator[Pair]:
    """Verses: a text with ``### Book`` and ``[chapter:verse]``, and a zipped module of the SWORD project.

    Chapters whose verses are counted differently are left out.
    """
    from pysword.modules import SwordModules

    modules = SwordModules(str(target))
    german = modules.get_bible_from_module(next(iter(modules.parse_modules())))
    chapters: dict[tuple[str, int], dict[int, str]] = {}
    book = ""
    for line in read(source).splitlines():
        if line.startswith("### "):
            book = line[4:].strip()
        elif match := _VERSE.match(line):
            chapters.setdefault((book, int(match[1])), {})[int(match[2])] = match[3]
    for (book, chapter), verses in chapters.items():
        lengths = german.get_structure().find_book(book)[1].chapter_lengths
        if chapter <= len(lengths) and lengths[chapter - 1] == len(verses):
            for number, text in verses.items():
                yield text, _VERSE_NOTE.sub("", german.get(books=book, chapters=chapter, verses=number))


# Sentences of one language


def lines(*paths: Path) -> Iterator[str]:
    """The lines of text files."""
    for path in paths:
        yield from (tidy(line) for line in read(path).splitlines())


def manythings_sources(*paths: Path) -> Iterator[str]:
    """The first column of :func:`manythings`, for other languages than German."""
    yield from (tidy(first) for first, _ in manythings(*paths))


def articles(folder: Path, most: int, first: int = 0) -> Iterator[str]:
    """Articles, a file each, a sentence a line: of each at most ``most`` sentences after the first ``first``."""
    for path in sorted(folder.glob("*.txt")):
        sentences = (text for line in read(path).splitlines() if (text := tidy(line)))
        yield from islice(sentences, first, first + most)


_TURN_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z\"'])")


def dialogues(*paths: Path) -> Iterator[str]:
    """The sentences of dialogues (Schema-Guided Dialogue, Taskmaster)."""
    for path in paths:
        data = json.loads(read(path))
        for dialogue in data if isinstance(data, list) else ():
            turns = dialogue.get("turns") or dialogue.get("utterances") or () if isinstance(dialogue, dict) else ()
            for turn in turns:
                if text := turn.get("utterance") or turn.get("text"):
                    yield from _TURN_SENTENCE.split(tidy(text))


_TABLE_SENTENCE = re.compile(r"(?<=[a-z]{3}[.!?]) +(?=[A-Z])")
_TREEBANK_QUOTES = re.compile(r" ?(?:``|'') ?(.*?) ?'' ?")
_TREEBANK_SPACE = re.compile(r" ([,.;:!?%)\]]|'s\b|n't\b|'(?:re|ve|ll|d|m)\b)")


def column(number: int, *paths: Path) -> Iterator[str]:
    """The sentences in a column of tables, without the spaces and quotation marks of the Penn Treebank."""
    for path in paths:
        for line in io.StringIO(read(path)):
            cells = line.rstrip("\n").split("\t")
            if len(cells) > number:
                text = _TREEBANK_QUOTES.sub(r' "\1" ', cells[number].strip('"').replace('""', '"'))
                text = _TREEBANK_SPACE.sub(r"\1", re.sub(r"([(\[$]) ", r"\1", text))
                yield from _TABLE_SENTENCE.split(tidy(re.sub(r'" ([,.;:!?])', r'"\1', text)))
