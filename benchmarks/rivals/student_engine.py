"""A model of Firefox or Marian in one engine, in a process of its own: jobs in, answers and their times out.

    PYTHON student_engine.py verso int8 FOLDER THREADS           an import of the folder; also float32
    PYTHON student_engine.py pymarian int8 FOLDER THREADS        of the .npz; also float32
    PYTHON student_engine.py fxtranslate int8 FOLDER THREADS     of the .bin
    PYTHON student_engine.py bergamot int8 FOLDER THREADS        of the .bin

A job is a line of JSON on standard input: ``{"sentences": [...], "batch_size": 64, "alone": false}``. Its answer is a
line on standard output with ``seconds`` (one number, or one for each sentence if they are translated alone) and
``texts``. But for Verso the program imports nothing of this repository, so that it runs in interpreters that have only
the engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

Translate = Callable[[list[str], int], list[str]]
"""Translates sentences in batches of a size."""


def vocabularies(folder: Path) -> list[str]:
    """The SentencePiece models of source and target."""
    names = sorted(str(path) for path in folder.glob("*.spm"))
    return names * 2 if len(names) == 1 else names


def model_in(folder: Path, suffix: str) -> Path:
    """The model's file with a suffix: not its shortlist (lex), and not a copy with scales of inputs (alphas.npz)."""
    (path,) = (
        path
        for path in folder.glob(f"*{suffix}")
        if not path.name.startswith("lex") and not path.name.endswith("alphas.npz")
    )
    return path


def verso(folder: Path, precision: Any, num_threads: int) -> Translate:
    """Verso, from text to text: with the protection of placeholders and the check of each translation."""
    from model.importing.importer import import_checkpoint
    from model.translation.options import TranslationOptions
    from model.translator import Translator

    bundle = Path(tempfile.mkdtemp()) / "student.verso"
    import_checkpoint(
        model_in(folder, ".npz" if precision == "float32" else ".bin"), bundle, precision, report=lambda line: None
    )
    translator = Translator.load(bundle, "cpu", num_threads)
    options = TranslationOptions(decoding="greedy")
    return lambda sentences, _: [translation.text for translation in translator.translate(sentences, options)]


def pymarian(folder: Path, precision: str, num_threads: int) -> Translate:
    """Marian; a thread translates a batch."""
    from pymarian import Translator

    model = model_in(folder, ".npz")
    if precision == "int8":
        converted = Path(tempfile.mkdtemp()) / "model.bin"
        convert = ["convert", "-f", str(model), "-t", str(converted), "-g", "intgemm8"]
        code = f"import _pymarian; _pymarian.main({convert!r})"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        model = converted
    translator = Translator(
        models=str(model),
        vocabs=vocabularies(folder),
        beam_size=1,
        max_length_factor=2,
        max_length=1000,
        maxi_batch=100,
        maxi_batch_sort="src",
        cpu_threads=num_threads,
        workspace=512,
        allow_special=True,
        quiet=True,
        quiet_translation=True,
    )

    def translate(sentences: list[str], batch_size: int) -> list[str]:
        return list(translator.translate(sentences, **{"mini-batch": batch_size}))

    return translate


_fxtranslate: Any = None


def _load_fxtranslate(folder: Path) -> None:
    global _fxtranslate
    from fxtranslate import Translator

    model = model_in(folder, ".bin")
    source, target = (Path(name).read_bytes() for name in vocabularies(folder))
    _fxtranslate = Translator(model.read_bytes(), source, target, None)


def _by_fxtranslate(sentences: list[str]) -> list[str]:
    return [_fxtranslate.translate(sentence) for sentence in sentences]


def fxtranslate(folder: Path, precision: str, num_threads: int) -> Translate:
    """fxtranslate, which translates a sentence at a time on one thread; a process for each further thread."""
    if num_threads == 1:
        _load_fxtranslate(folder)
        return lambda sentences, _: _by_fxtranslate(sentences)
    pool = ProcessPoolExecutor(num_threads, initializer=_load_fxtranslate, initargs=(folder,))

    def translate(sentences: list[str], batch_size: int) -> list[str]:
        parts = [sentences[start : start + 8] for start in range(0, len(sentences), 8)]
        return [text for part in pool.map(_by_fxtranslate, parts) for text in part]

    return translate


def bergamot(folder: Path, precision: str, num_threads: int) -> Translate:
    """Bergamot, in Firefox's mode."""
    package = Path(sys.prefix).glob("lib/python*/site-packages/bergamot")
    sys.path.insert(0, str(next(package)))  # the package itself asks a server for models when it is imported
    import _bergamot as engine  # type: ignore[import-not-found]

    model = model_in(folder, ".bin")
    options = {
        "models": f"[{model}]",
        "vocabs": f"[{', '.join(vocabularies(folder))}]",
        "beam-size": 1,
        "skip-cost": "true",
        "max-length-break": 128,
        "mini-batch-words": 1024,
        "workspace": 128,
        "max-length-factor": 2.0,
        "cpu-threads": 0,
        "quiet": "true",
        "quiet-translation": "true",
        "ssplit-mode": "sentence",
        "gemm-precision": "int8shiftAlphaAll",
    }
    service = engine.Service(engine.ServiceConfig(numWorkers=num_threads, cacheSize=0, logLevel="off"))
    loaded = service.modelFromConfig("\n".join(f"{key}: {value}" for key, value in options.items()))
    response = engine.ResponseOptions(qualityScores=False, alignment=False, HTML=False, sentenceMappings=False)

    def translate(sentences: list[str], batch_size: int) -> list[str]:
        answers = service.translate(loaded, engine.VectorString(sentences), response)
        return [answer.target.text for answer in answers]

    return translate


ENGINES = {"verso": verso, "pymarian": pymarian, "fxtranslate": fxtranslate, "bergamot": bergamot}


def answered(translate: Translate, job: dict[str, Any]) -> dict[str, Any]:
    """Run a job."""
    sentences, batch_size = job["sentences"], job["batch_size"]
    seconds, texts = [], []
    for together in [[sentence] for sentence in sentences] if job["alone"] else [sentences]:
        began = time.perf_counter()
        texts += translate(together, batch_size)
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds, "texts": texts}


def main() -> None:
    """Answer jobs until the input ends."""
    name, precision, folder, num_threads = sys.argv[1:]
    translate = ENGINES[name](Path(folder), precision, int(num_threads))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(answered(translate, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
