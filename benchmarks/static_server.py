"""A typical simple translation server: FastAPI, a queue, and static batches for CTranslate2.

    python -m benchmarks.static_server --model FOLDER --port 8001 --workers 2 --threads 1

Requests wait in one queue. A worker takes the first, waits up to 10 ms for others, takes at most 32, and translates
them as one batch. The batch is answered when its last sentence is finished; requests that arrive meanwhile wait for the
next batch. While a worker is busy the queue fills, so that under load batches are full without waiting. Every worker of
CTranslate2 has its own batch. With ``--max-batch 1 --wait-ms 0 --workers 1`` it translates one sentence at a time.

It supports the part of the service's API that the load test uses, and translates a text as one sentence.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.shipped import SPM

END = "</s>"


class Request(BaseModel):
    """The fields that are read; others are ignored."""

    text: str
    target: str
    max_new_tokens: int = 256


class Translation(BaseModel):
    """The translation of a text."""

    text: str


class Answer(BaseModel):
    """A response in the format of the service."""

    translations: list[Translation]


@dataclass(frozen=True)
class Item:
    """A waiting sentence.

    Args:
        pieces: Its tokens, including marker and end token.
        max_new_tokens: Maximal number of tokens of its output.
        answer: Future of the output tokens.
    """

    pieces: list[str]
    max_new_tokens: int
    answer: asyncio.Future[list[str]]


class StaticBatcher:
    """A queue whose items are translated in static batches.

    Args:
        translate: Translates a batch; called on a thread.
        num_workers: Number of concurrent batches.
        max_batch: Maximal number of items of a batch.
        wait_s: Maximal time the first item waits for others, in seconds.
    """

    def __init__(
        self, translate: Callable[[Sequence[Item]], list[list[str]]], num_workers: int, max_batch: int, wait_s: float
    ) -> None:
        self._translate = translate
        self._num_workers = num_workers
        self._max_batch = max_batch
        self._wait_s = wait_s
        self._queue: asyncio.Queue[Item] = asyncio.Queue()

    async def answer(self, pieces: list[str], max_new_tokens: int) -> list[str]:
        """The output tokens of a sentence."""
        item = Item(pieces, max_new_tokens, asyncio.get_running_loop().create_future())
        self._queue.put_nowait(item)
        return await item.answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the workers within the block."""
        with ThreadPoolExecutor(self._num_workers) as pool:
            workers = [asyncio.create_task(self._work(pool)) for _ in range(self._num_workers)]
            yield
            for worker in workers:
                worker.cancel()

    async def _work(self, pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            try:
                async with asyncio.timeout(self._wait_s):
                    while len(batch) < self._max_batch:
                        batch.append(await self._queue.get())
            except TimeoutError:
                pass  # the waiting time is over
            try:
                answers = await loop.run_in_executor(pool, self._translate, batch)
            except (RuntimeError, ValueError) as error:  # of CTranslate2; the next batch may succeed
                for item in batch:
                    item.answer.set_exception(error)
                continue
            for item, answer in zip(batch, answers, strict=True):
                item.answer.set_result(answer)


def create_app(
    model: Path, num_workers: int, num_threads: int, max_batch: int, wait_s: float, beam_size: int
) -> FastAPI:
    """Create the server.

    Args:
        model: CTranslate2's model, with the SentencePiece model next to it.
        num_workers: Number of concurrent batches.
        num_threads: Threads per worker.
        max_batch: Maximal number of sentences of a batch.
        wait_s: Maximal time the first sentence waits for others, in seconds.
        beam_size: 1 is greedy.
    """
    translator = ctranslate2.Translator(
        str(model), compute_type="int8", inter_threads=num_workers, intra_threads=num_threads
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model / SPM))

    def translate(batch: Sequence[Item]) -> list[list[str]]:
        results = translator.translate_batch(
            [item.pieces for item in batch],
            beam_size=beam_size,
            # CTranslate2 has one limit for the whole batch.
            max_decoding_length=max(item.max_new_tokens for item in batch),
        )
        return [result.hypotheses[0][: item.max_new_tokens] for result, item in zip(results, batch, strict=True)]

    batcher = StaticBatcher(translate, num_workers, max_batch, wait_s)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with batcher.running():
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/livez")
    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/translate")
    async def translate_text(request: Request) -> Answer:
        pieces = [f"<2{request.target}>", *processor.EncodeAsPieces(request.text), END]
        answer = await batcher.answer(pieces, request.max_new_tokens)
        return Answer(translations=[Translation(text=processor.DecodePieces(answer))])

    return app


def main() -> int:
    """Serve until a signal stops the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of CTranslate2's model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2, help="batches at once; default 2")
    parser.add_argument("--threads", type=int, default=1, help="for each; default 1")
    parser.add_argument("--max-batch", type=int, default=32, help="most sentences in one; default 32")
    parser.add_argument("--wait-ms", type=float, default=10.0, help="for others to come; default 10")
    parser.add_argument("--beam-size", type=int, default=4, help="1 is greedy; default 4")
    arguments = parser.parse_args()
    app = create_app(
        arguments.model,
        arguments.workers,
        arguments.threads,
        arguments.max_batch,
        arguments.wait_ms / 1000,
        arguments.beam_size,
    )
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=arguments.port,
        access_log=False,
        log_level="warning",
        timeout_keep_alive=30,  # like Verso's: a closed connection would count as an error of this server
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
