"""Answers of Marian's own engines, one JSON object a line; a program for an interpreter of its own.

    PYTHON marian_oracle.py pymarian FOLDER SENTENCES BEAM     float32, of the .npz in the folder
    PYTHON marian_oracle.py bergamot FOLDER SENTENCES BEAM     int8 with static scales, of the .bin in the folder

It imports nothing of this repository: bergamot 0.4.5 has wheels for Python 3.10 only. Each sentence is translated
alone, because int8 answers of these engines may depend on the batch. An answer has at most twice the tokens of its
source.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def vocabularies(folder: Path) -> list[str]:
    """The SentencePiece models of source and target."""
    names = sorted(str(path) for path in folder.glob("*.spm"))
    return names * 2 if len(names) == 1 else names


def pymarian(folder: Path, sentences: list[str], beam: int) -> Iterator[dict[str, Any]]:
    """Pieces and sums of log-probabilities."""
    from pymarian import Translator

    (model,) = folder.glob("*.npz")
    translator = Translator(
        models=str(model),
        vocabs=vocabularies(folder),
        beam_size=beam,
        normalize=1,
        max_length_factor=2,
        max_length=1000,
        mini_batch=1,
        maxi_batch=1,
        cpu_threads=1,
        n_best=True,
        no_spm_decode=True,
        allow_special=True,  # single bytes, which it forbids otherwise
        quiet=True,
    )
    for sentence in sentences:
        (line,) = translator.translate([sentence])[0:1]
        _, pieces, features, *_ = line.split(" ||| ")
        yield {"pieces": pieces.split(), "score": float(features.split("=")[1])}


def bergamot(folder: Path, sentences: list[str], beam: int) -> Iterator[dict[str, Any]]:
    """Texts."""
    # The package itself asks a server for models when it is imported; its module does not.
    package = Path(sys.prefix).glob("lib/python*/site-packages/bergamot")
    sys.path.insert(0, str(next(package)))
    import _bergamot as engine  # type: ignore[import-not-found]

    (model,) = folder.glob("*.bin")
    options = {
        "models": f"[{model}]",
        "vocabs": f"[{', '.join(vocabularies(folder))}]",
        "beam-size": beam,
        "normalize": 1.0,
        "word-penalty": 0,
        "max-length-break": 128,
        "mini-batch-words": 1024,
        "workspace": 128,
        "max-length-factor": 2.0,
        "skip-cost": str(beam == 1).lower(),
        "cpu-threads": 0,
        "quiet": "true",
        "quiet-translation": "true",
        "alignment": "soft",
        "ssplit-mode": "sentence",
        "gemm-precision": "int8shiftAlphaAll",
    }
    service = engine.Service(engine.ServiceConfig(numWorkers=1, cacheSize=0, logLevel="off"))
    loaded = service.modelFromConfig("\n".join(f"{key}: {value}" for key, value in options.items()))
    response = engine.ResponseOptions(qualityScores=False, alignment=False, HTML=False, sentenceMappings=True)
    for sentence in sentences:
        (answer,) = service.translate(loaded, engine.VectorString([sentence]), response)
        yield {"text": answer.target.text}


def main() -> None:
    """Print an answer for each sentence."""
    name, folder, sentences, beam = sys.argv[1:]
    oracle = {"pymarian": pymarian, "bergamot": bergamot}[name]
    for answer in oracle(Path(folder), Path(sentences).read_text(encoding="utf-8").splitlines(), int(beam)):
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
