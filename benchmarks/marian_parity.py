"""Imported models of Marian compared with Marian's own engines: the share of equal answers, ties, BLEU.

    python -m benchmarks.marian_parity FLOAT_FOLDER INT8_FOLDER --sentences FILE --pymarian PYTHON --bergamot PYTHON

One folder has a model as ``.npz``, the other the same model in int8, both with their vocabulary. float32 answers,
greedy and with a beam of 4, are compared token for token with pymarian's. A difference is a tie if the first differing
tokens of two greedy answers have log-probabilities closer than 1e-4, or the answers of two beams such scores. int8
answers are compared with bergamot's, the engine of Firefox's first release, computed in three ways: with its static
scales of inputs (``static``); with these and its sums of pairs of products in 16 bits, which saturate
(``static, saturating``); and with Verso's scale for each row (``rows``). bergamot saturates on CPUs without VNNI, so
there its answers are those of the second way, elsewhere those of the first.

The interpreters have pymarian 1.12 and bergamot 0.4.5 installed; without one, its part is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.command_line import parser
from benchmarks.tables import markdown
from model.artifacts.bundle import load_bundle
from model.decoding.backend import ModelToDecode, choose_backend
from model.decoding.batch import decode_in_order
from model.decoding.options import Decoding, DecodingOptions, Hypothesis
from model.decoding.sentence import DecodingRequest
from model.importing.importer import import_checkpoint
from model.importing.marian_nmt.binary import BinaryFile
from model.importing.marian_nmt.checkpoint import find_model
from model.importing.marian_nmt.description import read_description
from model.importing.marian_nmt.items import Item
from model.importing.marian_nmt.weights import MarianWeights
from model.network.quantised import Int8Linear
from model.network.transformer import Transformer
from model.scores import score

TIE = 1e-4
BEAM = 4
MAX_TOKENS = 128
"""Tokens of the longest sentence that is compared; Firefox divides longer ones."""

LEVELS = 127
ORACLE = Path(__file__).parent / "rivals" / "marian_oracle.py"


class StaticLinear(nn.Module):
    """An int8 layer with Marian's static scales of inputs, in the steps of intgemm's shifted product.

    Args:
        layer: The layer with its weights.
        alphas: For each stacked matrix, the scale of its inputs.
        multipliers: For each stacked matrix, the number that its values were multiplied by.
        saturates: Whether pairs of products are added in 16 bits, as without VNNI; otherwise sums are exact.
    """

    def __init__(
        self, layer: Int8Linear, alphas: Sequence[float], multipliers: Sequence[float], *, saturates: bool
    ) -> None:
        super().__init__()
        self.saturates = saturates
        weight: Tensor = torch.ops.quantized.linear_unpack(layer.packed)[0]
        rows = weight.int_repr()
        of_rows, per_row = (
            torch.tensor(values).repeat_interleave(len(rows) // len(values)) for values in (multipliers, alphas)
        )
        self.rows = rows.double().chunk(len(alphas))
        self.alphas = torch.tensor(alphas)
        self.unit = 1.0 / (per_row * of_rows)
        sums = rows.long().sum(dim=1).float()
        self.shifted = sums * (-1.0 * ((LEVELS / per_row) * (LEVELS / of_rows)) / LEVELS) + layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """(..., C in) to (..., C out). Sums of integers in float64 are exact."""
        parts = []
        for alpha, rows in zip(self.alphas, self.rows, strict=True):
            levels = (x * alpha).round().clamp(-LEVELS, LEVELS).double()
            parts.append(_saturated(levels + LEVELS, rows) if self.saturates else (levels + LEVELS) @ rows.t())
        return torch.cat(parts, dim=-1).float() * self.unit + self.shifted


def _saturated(levels: Tensor, rows: Tensor) -> Tensor:
    """Sums of products, each two of which are added in 16 bits with saturation: (..., C in) to (..., C out)."""
    total = levels.new_zeros(*levels.shape[:-1], len(rows))
    for column in range(0, levels.size(-1), 2):
        pair = levels[..., column : column + 2] @ rows[:, column : column + 2].t()
        total += pair.clamp(-32768, 32767)
    return total


def use_static_scales(network: Transformer, model: Path, *, saturates: bool) -> None:
    """Replace the int8 layers of a network by such with the file's scales of inputs."""
    file = BinaryFile(model)
    weights = MarianWeights(file, read_description(file))
    for path, layer in list(network.named_modules()):
        if isinstance(layer, Int8Linear):
            names = weights.matrix_names(path)
            alphas = [float(file.item(f"{name}_QuantMultA").floats()) for name in names]
            multipliers = [_multiplier(file.item(name)) for name in names]
            parent, _, name = path.rpartition(".")
            setattr(network.get_submodule(parent), name, StaticLinear(layer, alphas, multipliers, saturates=saturates))


def _multiplier(item: Item) -> float:
    """The multiplier that engines use: that of the file, and for an embedding that of its dequantised values."""
    assert item.multiplier is not None
    return float(LEVELS / item.floats().abs().max()) if "Wemb" in item.name else float(item.multiplier)


@dataclass(frozen=True)
class Study:
    """The sentences, and what both sides are asked for.

    Args:
        sentences: The sentences.
        references: Their translations; empty for no BLEU.
        folder: A folder for bundles and lists of sentences.
    """

    sentences: list[str]
    references: list[str]
    folder: Path

    def bundle(self, model: Path, precision: Any) -> Path:
        """A model imported in data form."""
        out = self.folder / f"{precision}.verso"
        import_checkpoint(model, out, precision, report=lambda line: None)
        return out

    def ask(self, interpreter: Path, oracle: str, folder: Path, beam: int) -> list[dict[str, Any]]:
        """The answers of an engine."""
        sentences = self.folder / "sentences.txt"
        sentences.write_text("\n".join(self.sentences) + "\n", encoding="utf-8")
        command = [str(interpreter), str(ORACLE), oracle, str(folder), str(sentences), str(beam)]
        # Some engines write to standard output themselves.
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def bleu(self, texts: Sequence[str]) -> str:
        """BLEU against the references."""
        return f"{score(list(texts), self.references).bleu:.2f}" if self.references else ""


def answers(
    bundle: Any, network: Transformer, sources: Sequence[list[int]], beam: int, *, native: bool
) -> list[Hypothesis]:
    """Decode sentences, each with at most twice its tokens."""
    manifest = bundle.manifest
    model = ModelToDecode(
        network, bundle.tokenizer, bundle.policy, manifest.architecture, manifest.precision, 512, bundle.device
    )
    backend = choose_backend(model, native=native)
    decoding: Decoding = "greedy" if beam == 1 else "beam"
    requests = [
        DecodingRequest(0, ids, DecodingOptions(decoding=decoding, beam_size=beam, max_new_tokens=2 * len(ids)), ())
        for ids in sources
    ]
    outcomes = decode_in_order(backend.cohort, requests, max_rows=64)
    hypotheses = [outcome.hypothesis for outcome in outcomes]
    assert all(hypothesis is not None for hypothesis in hypotheses)
    return hypotheses  # type: ignore[return-value]


def is_tie(
    network: Transformer, start_id: int, source: list[int], ours: list[int], theirs: list[int], beam: int
) -> bool:
    """Whether two answers, with their end tokens, differ by no more than rounding."""
    with torch.inference_mode():
        scores = []
        for ids in (ours, theirs):
            logits = network.forward(torch.tensor([source]), torch.tensor([[start_id, *ids[:-1]]]))[0]
            scores.append(logits.log_softmax(dim=-1)[range(len(ids)), ids])
    if beam > 1:
        return abs(float(scores[0].mean() - scores[1].mean())) < TIE
    first = next(index for index, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other)
    return abs(float(scores[0][first] - scores[1][first])) < TIE


def compare_float(study: Study, folder: Path, interpreter: Path) -> list[list[str]]:
    """Rows of the table: float32 against pymarian."""
    bundle = load_bundle(study.bundle(folder, "float32"))
    tokenizer = bundle.tokenizer
    sources = [tokenizer.encode(sentence, "") for sentence in study.sentences]
    rows = []
    for beam in (1, BEAM):
        theirs = study.ask(interpreter, "pymarian", folder, beam)
        ours = answers(bundle, bundle.module, sources, beam, native=True)
        num_equal = num_ties = 0
        for source, answer, hypothesis in zip(sources, theirs, ours, strict=True):
            pieces = tokenizer.target_pieces(hypothesis.token_ids)
            if pieces == answer["pieces"]:
                num_equal += 1
                continue
            ids = {
                piece: token_id
                for token_id, piece in enumerate(tokenizer.target_pieces(range(tokenizer.largest_ids[1] + 1)))
            }
            closed = (
                [*hypothesis.token_ids, tokenizer.end_id],
                [*(ids[p] for p in answer["pieces"]), tokenizer.end_id],
            )
            num_ties += is_tie(bundle.module, tokenizer.start_id, source, *closed, beam)
        texts = [tokenizer.decode(hypothesis.token_ids) for hypothesis in ours]
        name = "greedy" if beam == 1 else f"beam {beam}"
        rows.append([f"float32, {name}", "pymarian", f"{num_equal} of {len(ours)}", str(num_ties), study.bleu(texts)])
    return rows


def compare_int8(study: Study, folder: Path, interpreter: Path | None) -> list[list[str]]:
    """Rows of the table: int8 with static scales and with Verso's, against bergamot."""
    path = study.bundle(folder, "int8")
    model = find_model(folder)
    assert model is not None
    theirs = None if interpreter is None else study.ask(interpreter, "bergamot", folder, 1)
    rows = []
    for name in ("static", "static, saturating", "rows"):
        bundle = load_bundle(path)
        if name != "rows":
            use_static_scales(bundle.module, model, saturates="saturating" in name)
        sources = [bundle.tokenizer.encode(sentence, "") for sentence in study.sentences]
        ours = answers(bundle, bundle.module, sources, 1, native=name == "rows")
        texts = [bundle.tokenizer.decode(hypothesis.token_ids) for hypothesis in ours]
        equal = ""
        if theirs is not None:
            num_equal = sum(one == other["text"] for one, other in zip(texts, theirs, strict=True))
            equal = f"{num_equal} of {len(ours)}"
        rows.append([f"int8, {name}, greedy", "bergamot", equal, "", study.bleu(texts)])
    if theirs is not None:
        rows.append(["bergamot itself", "", "", "", study.bleu([answer["text"] for answer in theirs])])
    return rows


def main() -> None:
    """Run the study."""
    arguments = _parser().parse_args()
    sentences = arguments.sentences.read_text(encoding="utf-8").splitlines()
    references = arguments.references.read_text(encoding="utf-8").splitlines() if arguments.references else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        bundle = load_bundle(Study([], [], folder).bundle(arguments.int8, "int8"))
        kept = [n for n, line in enumerate(sentences) if len(bundle.tokenizer.encode(line, "")) <= MAX_TOKENS]
        study = Study([sentences[n] for n in kept], [references[n] for n in kept] if references else [], folder)
        rows = compare_float(study, arguments.float, arguments.pymarian) if arguments.pymarian else []
        rows += compare_int8(study, arguments.int8, arguments.bergamot)
    print(markdown(["answers", "compared with", "equal", "ties", "BLEU"], rows))


def _parser() -> argparse.ArgumentParser:
    result = parser(__doc__)
    result.add_argument("float", type=Path, metavar="FLOAT_FOLDER", help="folder of the model as .npz")
    result.add_argument("int8", type=Path, metavar="INT8_FOLDER", help="folder of the same model in int8")
    result.add_argument("--sentences", type=Path, required=True, metavar="FILE", help="source sentences, one a line")
    result.add_argument("--references", type=Path, metavar="FILE", help="their translations, for BLEU")
    result.add_argument("--pymarian", type=Path, metavar="PYTHON", help="an interpreter that has pymarian")
    result.add_argument("--bergamot", type=Path, metavar="PYTHON", help="an interpreter that has bergamot")
    return result


if __name__ == "__main__":
    main()
