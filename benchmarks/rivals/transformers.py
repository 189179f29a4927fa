"""transformers' generate, with batches of sentences of similar length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import MarianMTModel

from benchmarks.contenders import Job, Row, in_batches

transformers.logging.set_verbosity_error()


class TransformersEngine:
    """A Marian model of transformers."""

    def __init__(self, folder: Path, row: Row) -> None:
        torch.set_num_threads(row.num_threads)
        self._model: Any = MarianMTModel.from_pretrained(folder / row.model).eval()

    def prepare(self, sources: list[list[int]]) -> list[list[int]]:
        return sources

    def translate(self, prepared: list[list[int]], job: Job) -> Any:
        answers: dict[int, Any] = {}
        for indices in in_batches(prepared, job.batch_size):
            length = len(prepared[indices[-1]])
            pad = self._model.config.pad_token_id
            ids = torch.tensor([prepared[index] + [pad] * (length - len(prepared[index])) for index in indices])
            with torch.inference_mode():
                batch = self._model.generate(
                    input_ids=ids,
                    attention_mask=(ids != pad).long(),
                    num_beams=job.beam_size,
                    do_sample=False,
                    length_penalty=1.0,
                    early_stopping=False,
                    min_new_tokens=job.min_tokens,
                    max_new_tokens=job.max_tokens,
                )
            answers.update(zip(indices, batch, strict=True))
        return [answers[index] for index in range(len(prepared))]

    def token_ids(self, answers: Any) -> list[list[int]]:
        return [answer.tolist()[1:] for answer in answers]


ENGINE = TransformersEngine
