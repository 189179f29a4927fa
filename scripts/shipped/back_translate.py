"""Translates text of one language with a model, and writes the plausible pairs for training.

--text mono/tatoeba.en --to de --out tatoeba-en writes tatoeba-en.en, the sentences that people wrote, and
tatoeba-en.de, their translations. A configuration uses such a corpus in the direction de-en only, so that a model never
learns to write the output of another, and with a tag (Caswell et al. 2019, arXiv:1906.06442):
{direction: de-en, tag: <bt>}.

The same command resumes an interrupted run: the folder raw/ beside the corpus has all finished translations, in files
whose names contain a digest of the model and the text.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from tqdm import tqdm

from model.commands.models import add_model_arguments, load_translator
from model.errors import ConfigError
from model.process.files import file_digest
from model.scores import sentence_chrf
from model.training.corpus import Pair, bare_words, read_lines, write_parallel
from model.translation.options import TranslationOptions
from model.translator import Translator
from scripts.shipped.command import LANGUAGES, start
from scripts.shipped.plausible import Reason, fault

_LINES_AT_ONCE = 512


def translate_lines(translator: Translator, lines: Sequence[str], direction: tuple[str, str], path: Path) -> list[str]:
    """Translate sentences greedily into a file, and return its lines. Lines that the file has already are kept.

    Args:
        translator: The model.
        lines: The sentences.
        direction: Source and target language.
        path: The file; if its last line has no line break, an earlier run was interrupted in it, and it is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.read_bytes() if path.exists() else b""
    num_done = written.count(b"\n")
    options = TranslationOptions(decoding="greedy")
    source, target = direction
    with (
        path.open("ab") as file,
        # None: no bar if standard error is not a terminal.
        tqdm(
            desc=f"{source}-{target}",
            total=len(lines),
            initial=num_done,
            unit=" lines",
            disable=None,
            dynamic_ncols=True,
        ) as bar,
    ):
        file.truncate(written.rfind(b"\n") + 1)
        for begin in range(num_done, len(lines), _LINES_AT_ONCE):
            chunk = lines[begin : begin + _LINES_AT_ONCE]
            translations = translator.translate(chunk, options, source, target)
            file.writelines(translation.text.replace("\n", " ").encode() + b"\n" for translation in translations)
            file.flush()
            bar.update(len(chunk))
    # Not by read_lines, which refuses a text that has only empty lines.
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


def plausible_pairs(
    natural: Sequence[str], synthetic: Sequence[str], held_out: Collection[str]
) -> tuple[list[Pair], Counter[Reason]]:
    """The plausible pairs, without held-out sentences and repetitions.

    Args:
        natural: Sentences written by people.
        synthetic: Their translations.
        held_out: The words (:func:`bare_words`) of sentences that must not be in the training text.

    Returns:
        Pairs (natural, synthetic), and the number of pairs that were left out for each reason.
    """
    left_out: Counter[Reason] = Counter()
    pairs: dict[str, str] = {}
    for sentence, translation in zip(natural, synthetic, strict=True):
        reason = fault(sentence, translation)
        if reason is None and bare_words(sentence) in held_out:
            reason = Reason.HELD_OUT
        if reason is None and sentence in pairs:
            reason = Reason.REPEATED
        if reason is None:
            pairs[sentence] = translation
        else:
            left_out[reason] += 1
    return list(pairs.items()), left_out


def held_out_words(folder: Path) -> set[str]:
    """The words of all sentences of the development sets in a folder, in either language."""
    files = sorted(path for language in LANGUAGES for path in folder.glob(f"*.{language}"))
    if not files:
        raise ConfigError(
            f"--held-out is {folder}, which has no development sets; scripts.shipped.held_out makes them."
        )
    return {bare_words(line) for path in files for line in read_lines(path)}


def survive_round_trip(pairs: Sequence[Pair], back: Sequence[str], bound: float) -> list[Pair]:
    """The pairs whose synthetic side, translated back, is similar to the natural side.

    Args:
        pairs: Pairs (natural, synthetic).
        back: The synthetic sides, translated back.
        bound: Minimum chrF2 against the natural side, 0 to 100.
    """
    similarities = sentence_chrf(back, [natural for natural, _ in pairs])
    return [pair for pair, similarity in zip(pairs, similarities, strict=True) if similarity >= bound]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the script's arguments."""
    add_model_arguments(parser)
    parser.add_argument(
        "--text", type=Path, required=True, metavar="FILE.xx", help="sentences in the language xx (plain, .gz or .xz)"
    )
    parser.add_argument("--to", choices=LANGUAGES, required=True, help="the language to translate to")
    parser.add_argument("--out", type=Path, required=True, metavar="BASE", help="the corpus, without language ending")
    parser.add_argument(
        "--held-out", type=Path, required=True, metavar="DIR", help="development sets; their sentences are left out"
    )
    parser.add_argument(
        "--sentences", type=int, metavar="N", help="the largest number of lines; a random sample, always the same"
    )
    parser.add_argument(
        "--round-trip",
        type=float,
        metavar="CHRF",
        help="translate back, and keep pairs that have at least this chrF2 with the original; takes twice as long",
    )


def run(arguments: argparse.Namespace) -> int:
    """Translate, filter and write."""
    out: Path = arguments.out
    direction = (arguments.text.suffix.removeprefix("."), arguments.to)
    if direction not in (LANGUAGES, LANGUAGES[::-1]):
        raise ConfigError(f"--text is {arguments.text}; it must end in .en or .de, and --to name the other language.")
    held_out = held_out_words(arguments.held_out)
    lines = read_lines(arguments.text)
    if arguments.sentences is not None and arguments.sentences < len(lines):
        lines = random.Random(1).sample(lines, arguments.sentences)
    translator = load_translator(arguments)
    translator.resolve_pair(*direction)
    model = translator.sha256 or file_digest(Path(arguments.model))  # a checkpoint's translator has no digest

    def translate(texts: Sequence[str], pair: tuple[str, str]) -> list[str]:
        digest = hashlib.sha256("\n".join([model, *texts]).encode()).hexdigest()[:12]
        return translate_lines(translator, texts, pair, out.parent / "raw" / f"{out.name}-{digest}.{pair[1]}")

    pairs, left_out = plausible_pairs(lines, translate(lines, direction), held_out)
    if arguments.round_trip is not None:
        back = translate([synthetic for _, synthetic in pairs], direction[::-1])
        similar = survive_round_trip(pairs, back, arguments.round_trip)
        left_out[Reason.ROUND_TRIP] = len(pairs) - len(similar)
        pairs = similar
    write_parallel(out, direction, pairs)
    print(f"{out}: {len(pairs):,} of {len(lines):,} sentences")
    for reason, count in left_out.most_common():
        print(f"{count:>9,}  {reason.value}")
    return 0


if __name__ == "__main__":
    sys.exit(start("back_translate", __doc__, add_arguments, run))
