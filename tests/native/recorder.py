"""Records what the compiled decoder was asked and what it answered, for ``replay.cpp``."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from model.decoding.native.library import (
    PORTABLE,
    LinearSource,
    Precision,
    Request,
    TracedCandidate,
    instruction_sets,
)

_BEGIN = b"verso recording 3\n"
_END, _MODEL, _SENTENCES, _ATTENTION, _LOGITS = range(5)
"""The kinds of records, as recording.h has them."""

_FLOAT_BYTES, _INT_BYTES, _DOUBLE_BYTES = 4, 4, 8
_WEIGHT_BYTES = {Precision.FLOAT32: 4, Precision.BFLOAT16: 2, Precision.INT8: 1}


class Recorder:
    """Stands in for the library: forwards every call, and writes models, sentences and answers to a file.

    One model is used at a time, and one cohort, whose sentences all finish.

    Args:
        library: The library.
        path: The file to write.
    """

    def __init__(self, library: ctypes.CDLL, path: Path) -> None:
        self._library = library
        self._file: BinaryIO = path.open("wb")
        self._file.write(_BEGIN)
        self._model = b""  # of the current model, all but the shortlist, until something is asked of it
        self._shortlist = [b"", b"", b""]
        self._cohort: _Cohort | None = None
        self._source_vocab = self._target_vocab = 0
        self.name = ""
        """Of the next model."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def close(self) -> None:
        """Write what is left."""
        self._finish_cohort()
        self._file.write(_int32(_END))
        self._file.close()

    def verso_model(self, number: int, architecture: Any, tables: Any, linears: Any, norms: Any) -> Any:
        """Pack a model."""
        self._finish_cohort()
        shape, addresses = architecture._obj, tables._obj
        width = shape.d_model
        self._source_vocab, self._target_vocab = shape.source_vocab_size, shape.target_vocab_size
        precision = max(item.precision for item in linears)
        exact = all(item.precision != Precision.FLOAT32 for item in linears)
        fused = instruction_sets(self._library)[number].name != PORTABLE
        facts = (precision, exact, fused, addresses.precision)
        parts = [_int32(_MODEL), _array(self.name.encode(), 1), *map(_int32, facts), bytes(shape)]
        for address, rows, item_bytes in (
            (addresses.source_tokens, shape.source_vocab_size, _WEIGHT_BYTES[addresses.precision]),
            (addresses.source_positions, shape.max_positions, _FLOAT_BYTES),
            (addresses.target_tokens, shape.target_vocab_size, _WEIGHT_BYTES[addresses.precision]),
            (addresses.target_positions, shape.max_positions, _FLOAT_BYTES),
        ):
            parts.append(_array(_memory(address, rows * width * item_bytes), 1))
        parts.append(_int64(len(linears)))
        parts += [_linear(linear) for linear in linears]
        parts.append(_int64(len(norms)))
        parts += [_floats(address, width) for address in norms]
        self._model = b"".join(parts)
        self._shortlist = [_int64(0)] * 3
        return self._library.verso_model(number, architecture, tables, linears, norms)

    def verso_shorten(self, model: Any, output: Any, offsets: Any, ids: Any, always: Any, num_always: int) -> int:
        """Let sentences choose among their candidates only."""
        begins = _memory(offsets.value, (self._source_vocab + 1) * _INT_BYTES)
        num_ids = struct.unpack("<i", begins[-_INT_BYTES:])[0]
        self._shortlist = [
            _array(begins, _INT_BYTES),
            _array(_memory(ids.value, num_ids * _INT_BYTES), _INT_BYTES),
            _array(_memory(always.value, num_always * _INT_BYTES), _INT_BYTES),
        ]
        return int(self._library.verso_shorten(model, output, offsets, ids, always, num_always))

    def verso_cohort(self, model: Any, width: int, end: int, renormalise: int, never: Any, num_never: int) -> Any:
        """Make a cohort."""
        self._finish_cohort()
        self._write_model()
        self._cohort = _Cohort(_int32(width) + _int32(end) + _int32(renormalise) + _array(bytes(never), _INT_BYTES))
        return self._library.verso_cohort(model, width, end, renormalise, never, num_never)

    def verso_join(self, cohort: Any, requests: Any, number: int, tokens: int) -> int:
        """Add sentences to the cohort."""
        code = int(self._library.verso_join(cohort, requests, number, tokens))
        if code == 0 and self._cohort is not None:
            self._cohort.join(requests, tokens)
        return code

    def verso_run(self, cohort: Any, seconds: float, threads: int, *results: Any) -> int:
        """Take steps."""
        code = int(self._library.verso_run(cohort, seconds, threads, *results))
        if self._cohort is not None:
            outcomes, length, scores, candidates = (result._obj.value for result in results)
            self._cohort.finish(outcomes, length, scores, candidates)
        return code

    def verso_attention(self, model: Any, lengths: Any, number: int, tokens: Any, threads: int, weights: int) -> int:
        """Compute the attention weights of given targets."""
        code = int(self._library.verso_attention(model, lengths, number, tokens, threads, weights))
        size = sum(source * target for source, target in zip(lengths[::2], lengths[1::2], strict=True))
        self._write_pass(_ATTENTION, lengths, tokens, weights, size)
        return code

    def verso_logits(self, model: Any, lengths: Any, tokens: Any, logits: int) -> int:
        """Compute the logits of a given target."""
        code = int(self._library.verso_logits(model, lengths, tokens, logits))
        self._write_pass(_LOGITS, lengths, tokens, logits, lengths[1] * self._target_vocab)
        return code

    def _write_pass(self, kind: int, lengths: Any, tokens: Any, numbers: int, size: int) -> None:
        self._finish_cohort()
        self._write_model()
        parts = (_array(bytes(lengths), _INT_BYTES), _array(bytes(tokens), _INT_BYTES), _floats(numbers, size))
        self._file.write(_int32(kind) + b"".join(parts))

    def _write_model(self) -> None:
        self._file.write(b"".join([self._model, *self._shortlist]) if self._model else b"")
        self._model = b""

    def _finish_cohort(self) -> None:
        if self._cohort is not None:
            self._file.write(_int32(_SENTENCES) + self._cohort.to_bytes())
        self._cohort = None


class _Cohort:
    """The sentences of a cohort, and their answers.

    Args:
        properties: Of the cohort, as they are written.
    """

    def __init__(self, properties: bytes) -> None:
        self._properties = properties
        self._joins: list[bytes] = []
        self._answers: list[bytes] = []
        self._traced: dict[int, bool] = {}
        """Of each sentence, whether its search is wanted."""

    def join(self, requests: Sequence[Request], tokens: int) -> None:
        size = sum(
            request.num_source + 1 + request.num_forced + request.num_prefix + request.num_once for request in requests
        )
        self._joins.append(
            _array(bytes(requests), ctypes.sizeof(Request)) + _array(_memory(tokens, size * _INT_BYTES), _INT_BYTES)
        )
        self._traced.update((item.key, bool(item.return_search)) for item in requests)

    def finish(self, outcomes: int | None, length: int, scores: int | None, candidates: int | None) -> None:
        """Take the answers of a call, in the encoding that cohort.h describes."""
        numbers = struct.unpack(f"<{length}i", _memory(outcomes, length * _INT_BYTES))
        position = num_scores = num_candidates = 0  # read so far
        while position < length:
            low, high, num_hypotheses = numbers[position : position + 3]
            key = (high << 32) | (low & 0xFFFFFFFF)
            begin = position + 2
            position += 3
            for _ in range(num_hypotheses):
                position += 2 + numbers[position + 1]
            traced = 0
            if num_hypotheses and self._traced[key]:
                traced = numbers[position]
                position += 1
            candidate_bytes = ctypes.sizeof(TracedCandidate)
            self._answers.append(
                _int64(key)
                + _array(struct.pack(f"<{position - begin}i", *numbers[begin:position]), _INT_BYTES)
                + _array(_memory(scores, num_hypotheses * _DOUBLE_BYTES, num_scores * _DOUBLE_BYTES), _DOUBLE_BYTES)
                + _array(
                    _memory(candidates, traced * candidate_bytes, num_candidates * candidate_bytes), candidate_bytes
                )
            )
            num_scores += num_hypotheses
            num_candidates += traced

    def to_bytes(self) -> bytes:
        joins, answers = (_int64(len(part)) + b"".join(part) for part in (self._joins, self._answers))
        return self._properties + joins + answers


def _linear(item: LinearSource) -> bytes:
    weights = _array(_memory(item.weights, item.outputs * item.inputs * _WEIGHT_BYTES[Precision(item.precision)]), 1)
    scales, biases = (_floats(address, item.outputs) for address in (item.scales, item.biases))
    return b"".join(map(_int32, (item.outputs, item.inputs, item.precision))) + weights + scales + biases


def _floats(address: int | None, number: int) -> bytes:
    return _array(_memory(address, number * _FLOAT_BYTES if address else 0), _FLOAT_BYTES)


def _array(content: bytes, item_bytes: int) -> bytes:
    return _int64(len(content) // item_bytes) + content


def _memory(address: int | None, size: int, offset: int = 0) -> bytes:
    return ctypes.string_at(address + offset, size) if address and size else b""


def _int32(number: int) -> bytes:
    return struct.pack("<i", number)


def _int64(number: int) -> bytes:
    return struct.pack("<q", number)
