"""CTranslate2, which sorts by length and splits into batches of the given size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ctranslate2

from benchmarks.contenders import Job, Row


class CTranslate2Engine:
    """A translator with its own threads; takes and gives tokens as strings."""

    def __init__(self, folder: Path, row: Row) -> None:
        self._translator = ctranslate2.Translator(
            str(folder / row.model),
            compute_type=row.precision,
            inter_threads=row.num_workers,
            intra_threads=row.num_threads,
        )
        self._pieces: list[str] = json.loads((folder / row.model / "shared_vocabulary.json").read_text())
        self._ids = {piece: token_id for token_id, piece in enumerate(self._pieces)}

    def prepare(self, sources: list[list[int]]) -> list[list[str]]:
        return [[self._pieces[token_id] for token_id in source] for source in sources]

    def translate(self, prepared: list[list[str]], job: Job) -> Any:
        return self._translator.translate_batch(
            prepared,
            max_batch_size=job.batch_size,
            beam_size=job.beam_size,
            min_decoding_length=job.min_tokens,
            max_decoding_length=job.max_tokens,
        )

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [[self._ids[piece] for piece in answer.hypotheses[0]] for answer in answers]


ENGINE = CTranslate2Engine
