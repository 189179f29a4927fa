"""Checkpoint to bundle: scripted, brought to its precision, compared with the eager model, then written.

Everything here that touches ``torch.jit`` is deprecated by torch and kept because TorchScript is what a bundle is;
see docs/decisions/0002.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from model.bundle import FORMAT_VERSION, MANIFEST, Manifest, Precision, check_device, read_tokenizer
from model.decoding.batch import decode_in_order
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.options import DecodingOptions
from model.decoding.search import StepModel
from model.decoding.shortlist import SHORTLIST, Shortlist
from model.errors import ArtifactError
from model.network.config import ModelConfig
from model.network.layers import Dropout
from model.network.padding import pad
from model.network.quantised import Int8Linear, activation_levels, int8_is_supported
from model.network.transformer import Transformer
from model.text.tokenizer import TextTokenizer
from model.training.checkpoint import Checkpoint, load_checkpoint

_CODE_BYTES = 2_000_000
"""What a bundle's code and manifest take at most."""

PRETRAINED = Path(__file__).parent / "pretrained" / "verso-en-de.pt"
"""The translator that ships, as a checkpoint; :func:`pretrained_shortlist` lies beside it."""

_DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.float32,
}

LOGIT_BOUNDS: dict[str, float] = {"float32": 1e-4, "float16": 0.02, "bfloat16": 0.1, "int8": 0.25}
"""Largest root-mean-square (float32: largest) difference of logits from the eager float32 model."""

BLEU_BOUND = 1.5
"""Most BLEU a lower precision may lose on the held-out sample."""

TIE_MARGIN = 1e-4
"""Two tokens whose logits are closer than this may change places between implementations."""


_EXPORTED = (
    Transformer.encode,
    Transformer.project_memory,
    Transformer.step,
    Transformer.step_slots,
    Transformer.attend,
)
for _method in _EXPORTED:
    # Marked here and not where they are written, so that the model knows nothing of TorchScript.
    torch.jit.export(_method)


def script(transformer: Transformer, precision: Precision) -> Any:
    """A scripted copy of a model in a precision, on the CPU.

    Raises:
        DeviceError: int8 on a processor without int8 kernels.
    """
    return script_in_place(copy.deepcopy(transformer), precision)


def script_in_place(transformer: Transformer, precision: Precision) -> Any:
    """As :func:`script`, of the model itself, which is of no use afterwards: no second copy is held in memory.

    Raises:
        DeviceError: int8 on a processor without int8 kernels.
    """
    served = transformer.cpu().eval()
    _replace_modules(served, precision)
    served.requires_grad_(False)
    served.to(_DTYPES[precision])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated.*")
        return torch.jit.script(served)


def _replace_modules(module: nn.Module, precision: Precision) -> None:
    for name, child in module.named_children():
        if isinstance(child, Dropout):
            # It only trains; TorchScript need not understand its dice.
            setattr(module, name, nn.Identity())
        elif isinstance(child, nn.Linear) and precision == "int8":
            setattr(module, name, Int8Linear(child))
        else:
            _replace_modules(child, precision)


@dataclass(frozen=True)
class Comparison:
    """How far a scripted model is from the eager float32 one, on held-out sentences.

    Args:
        max_logit_error: Largest absolute difference of a logit.
        rms_logit_error: Root mean square of the differences.
        num_sentences: Sentences decoded, all directions.
        num_identical: Of these, with identical greedy tokens.
        num_ties: Of the others, those whose first different token was a tie (:data:`TIE_MARGIN`).
        bleu: By direction: float32 eager and this model, greedy.
    """

    max_logit_error: float
    rms_logit_error: float
    num_sentences: int
    num_identical: int
    num_ties: int
    bleu: dict[str, tuple[float, float]]

    def to_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "max_logit_error": round(self.max_logit_error, 7),
            "rms_logit_error": round(self.rms_logit_error, 7),
            "sentences": self.num_sentences,
            "identical_to_float32": self.num_identical,
            "ties": self.num_ties,
            "greedy_bleu_float32_and_this": {pair: [round(x, 2) for x in both] for pair, both in self.bleu.items()},
        }


def export_bundle(
    checkpoint: Checkpoint,
    precision: Precision,
    out: Path,
    *,
    device: str = "cpu",
    shortlist: Shortlist | None = None,
    report: Callable[[str], None] = print,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda items, label, total: items,
) -> Manifest:
    """Make a bundle, after it has been compared with the eager model.

    Args:
        checkpoint: The trained model; its facts name a held-out sample to compare on.
        precision: Of the bundle.
        out: The file to write; replaced whole or not at all.
        device: Where to compare: float16 is compared faster on a GPU.
        shortlist: A vocabulary shortlist for the bundle to carry.
        report: Takes a line of news.
        progress: Wraps an iterable with a label and a length in a progress bar.

    Raises:
        ArtifactError: The scripted model strays too far from the eager one, or the file cannot be written.
        DeviceError: The device is missing or cannot run this precision.
    """
    where = check_device(device, precision)
    transformer = checkpoint.build()
    module = script(transformer, precision)
    manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, precision)
    sample: list[tuple[str, str]] = [(left, right) for left, right in checkpoint.facts.get("dev_sample", [])]
    if sample:
        languages = tuple(checkpoint.facts["settings"]["languages"])
        comparison = compare(
            transformer.to(where), module.to(where), checkpoint.tokenizer, manifest, sample, languages, progress
        )
        report(f"{precision} against eager float32: {comparison.to_dict()}")
        _refuse_strays(comparison, precision)
        manifest = replace(
            manifest,
            precision_report={**comparison.to_dict(), "activation_levels": activation_levels()}
            if precision == "int8"
            else comparison.to_dict(),
        )
    else:
        report("The checkpoint carries no held-out sample (dev_sample): nothing was compared.")
    files = dict(checkpoint.vocabulary_files)
    if shortlist is not None:
        config = checkpoint.config
        shortlist.check(config.source_vocab_size, config.target_vocab_size, checkpoint.tokenizer.end_id)
        manifest = replace(manifest, shortlist=shortlist.facts)
        files[SHORTLIST] = shortlist.to_bytes()
    write_bundle(module.cpu(), manifest, files, out)
    report(f"{out}: {out.stat().st_size / 1e6:.1f} MB")
    return manifest


def compare(
    eager: Transformer,
    module: Any,
    tokenizer: TextTokenizer,
    manifest: Manifest,
    sample: Sequence[tuple[str, str]],
    languages: Sequence[str],
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]],
) -> Comparison:
    """Run the eager and the scripted model over the same sentences.

    Args:
        eager: The float32 model.
        module: The scripted one, on the same device.
        tokenizer: Of both.
        manifest: Of the bundle to be.
        sample: Sentences in the order of ``languages``.
        languages: The two languages.
        progress: Wraps an iterable in a progress bar.
    """
    from model.training.evaluation import bleu_units, score  # sacrebleu is needed here only

    device = eager.output.weight.device
    squares, count, largest = 0.0, 0, 0.0
    identical, ties, total = 0, 0, 0
    bleu: dict[str, tuple[float, float]] = {}
    for source_language, target_language in manifest.pairs:
        ordered = [pair if source_language == languages[0] else pair[::-1] for pair in sample]
        sources = [
            tokenizer.encode(source, target_language, source_language)[: manifest.max_source_tokens]
            for source, _ in ordered
        ]
        prefix = tokenizer.target_prefix(target_language)
        targets = [
            [tokenizer.start_id, *prefix, *tokenizer.encode_target(target)][: manifest.max_target_tokens]
            for _, target in ordered
        ]
        with torch.inference_mode():
            for start in range(0, len(sources), 50):
                source = pad(sources[start : start + 50], tokenizer.pad_id).to(device)
                target = pad(targets[start : start + 50], tokenizer.pad_id).to(device)
                counts = target != tokenizer.pad_id
                difference = (module.forward(source, target).float() - eager(source, target))[counts]
                squares += float(difference.square().sum())
                count += difference.numel()
                largest = max(largest, float(difference.abs().max()))
        decoded: list[list[list[int]]] = []
        for model, label in ((eager, "float32 eager"), (module, manifest.precision)):
            label = f"{source_language}-{target_language} {label}"
            decoded.append(_decode(model, tokenizer, sources, prefix, manifest, device, label, progress))
        for source_ids, expected, found in zip(sources, *decoded, strict=True):
            total += 1
            identical += expected == found
            ties += expected != found and _is_tie(eager, source_ids, prefix, expected, found, tokenizer, device)
        references = [target for _, target in ordered]
        bleu[f"{source_language}-{target_language}"] = tuple(  # type: ignore[assignment]
            score([tokenizer.decode(ids) for ids in answers], references, tokenize=bleu_units(tokenizer)).bleu
            for answers in decoded
        )
    return Comparison(largest, (squares / max(count, 1)) ** 0.5, total, identical, ties, bleu)


def _decode(
    model: StepModel,
    tokenizer: TextTokenizer,
    sources: Sequence[list[int]],
    prefix: tuple[int, ...],
    manifest: Manifest,
    device: torch.device,
    label: str,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]],
) -> list[list[int]]:
    outcomes = decode_in_order(
        lambda width: TorchCohort(
            TorchState(model, width, tokenizer.pad_id, device),
            tokenizer,
            width,
            manifest.max_target_tokens,
            device,
            manifest.policy,
        ),
        sources,
        DecodingOptions(decoding="greedy"),
        target_prefixes=[prefix] * len(sources),
        progress=lambda items, total: progress(items, label, total),
    )
    answers: list[list[int]] = []
    for outcome in outcomes:
        if outcome.hypothesis is None:
            raise ArtifactError(f"{label}: a held-out sentence could not be decoded: {outcome.error}")
        answers.append(outcome.hypothesis.token_ids)
    return answers


@torch.inference_mode()
def _is_tie(
    eager: Transformer,
    source_ids: list[int],
    prefix: tuple[int, ...],
    expected: list[int],
    found: list[int],
    tokenizer: TextTokenizer,
    device: torch.device,
) -> bool:
    """Whether the first token that differs was decided by less than :data:`TIE_MARGIN`."""
    expected, found = [*expected, tokenizer.end_id], [*found, tokenizer.end_id]
    place = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
    if place is None:
        return False
    before = torch.tensor([[tokenizer.start_id, *prefix, *expected[:place]]], device=device)
    logits = eager(torch.tensor([source_ids], device=device), before)[0, -1]
    return bool((logits[expected[place]] - logits[found[place]]).abs() < TIE_MARGIN)


def _refuse_strays(comparison: Comparison, precision: Precision) -> None:
    error = comparison.max_logit_error if precision == "float32" else comparison.rms_logit_error
    bound = LOGIT_BOUNDS[precision]
    if not error <= bound:
        raise ArtifactError(
            f"The {precision} bundle's logits are {error:.3g} off float32, more than {bound}; nothing was written."
        )
    if precision == "float32":
        different = comparison.num_sentences - comparison.num_identical - comparison.num_ties
        if different:
            raise ArtifactError(
                f"The scripted model gave other tokens than the eager one for {different} of "
                f"{comparison.num_sentences} sentences; nothing was written."
            )
    for pair, (full, this) in comparison.bleu.items():
        if full - this > BLEU_BOUND:
            raise ArtifactError(
                f"The {precision} bundle loses {full - this:.1f} BLEU on {pair}, more than {BLEU_BOUND}; "
                "nothing was written. Choose another precision."
            )


def write_bundle(module: Any, manifest: Manifest, files: Mapping[str, bytes], out: Path) -> None:
    """Write a bundle, without the paths of the machine that made it; ``out`` is replaced whole or not at all.

    Args:
        module: The scripted model, on the CPU.
        manifest: What the bundle says about itself.
        files: Vocabulary files by name.
        out: The file.

    Raises:
        ArtifactError: The disk is full or the folder cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_beside(out) as unfinished, tempfile.TemporaryDirectory(prefix=".", dir=out.parent) as folder:
            raw = Path(folder) / out.name
            _reserve(raw, _num_bytes(module) + sum(map(len, files.values())) + _CODE_BYTES)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated.*")
                torch.jit.save(module, str(raw), _extra_files={MANIFEST: manifest.to_json(), **files})
            _strip_source_paths(raw, unfinished)
            os.replace(unfinished, out)
    except (OSError, RuntimeError) as error:
        raise ArtifactError(f"The bundle {out} could not be written: {error}.") from error


def add_shortlist(bundle: Path, shortlist: Shortlist, out: Path) -> None:
    """Write a copy of a bundle that carries a vocabulary shortlist; ``out`` is replaced whole or not at all.

    Args:
        bundle: The bundle; one it carries already is replaced.
        shortlist: For this bundle's model.
        out: The file to write, which may be the bundle itself.

    Raises:
        ArtifactError: The bundle is missing, damaged or foreign, the shortlist is another model's, the disk is full, or
            the folder cannot be written.
    """
    manifest, tokenizer = read_tokenizer(bundle)
    config = ModelConfig.from_dict(manifest.architecture)
    shortlist.check(config.source_vocab_size, config.target_vocab_size, tokenizer.end_id)
    contents = {
        MANIFEST: replace(manifest, shortlist=shortlist.facts).to_json().encode(),
        SHORTLIST: shortlist.to_bytes(),
    }
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_beside(out) as unfinished:
            _copy_archive(bundle, unfinished, contents)
            os.replace(unfinished, out)
    except OSError as error:
        raise ArtifactError(f"The bundle {out} could not be written: {error}.") from error


def _num_bytes(module: Any) -> int:
    """What the weights of a scripted model take in a file."""
    tables = {tensor.data_ptr(): tensor.nbytes for tensor in [*module.parameters(), *module.buffers()]}
    packed = (part.packed for part in module.modules() if hasattr(part, "packed"))
    return sum(tables.values()) + sum(torch.ops.quantized.linear_unpack(one)[0].numel() for one in packed)


def _reserve(path: Path, num_bytes: int) -> None:
    """See that a file of this size can be written: torch ends the whole process where its writer finds a disk full.

    Raises:
        OSError: There is no room.
    """
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, max(num_bytes, 1))
    path.unlink()


@contextlib.contextmanager
def _temporary_beside(path: Path) -> Iterator[Path]:
    """A name in the same folder, so that the finished file can be moved in one step; gone in the end."""
    handle, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".unfinished", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    # mkstemp makes files only their owner reads; a bundle is read by the service's user too.
    temporary.chmod(0o644)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _strip_source_paths(source: Path, target: Path) -> None:
    """Copy an archive without its ``.debug_pkl`` members, which hold paths of the building machine."""
    _copy_archive(source, target, {}, without=".debug_pkl")


def _copy_archive(source: Path, target: Path, extra: Mapping[str, bytes], without: str | None = None) -> None:
    """Copy an archive, with fixed dates, so that the same module gives the same bytes.

    Args:
        source: The archive.
        target: The file to write.
        extra: Extra files it is to hold, in place of its own of that name.
        without: Members whose names end so are left out.
    """
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy_:
        folder = archive.namelist()[0].split("/")[0]
        replaced = {f"{folder}/extra/{name}": content for name, content in extra.items()}
        for name, added in replaced.items():
            copy_.writestr(zipfile.ZipInfo(name), added)
        for member in archive.infolist():
            left_out = without is not None and member.filename.endswith(without)
            if left_out or member.filename in replaced:
                continue
            # Piece by piece: an embedding may be as large as the memory that is left.
            plain = zipfile.ZipInfo(member.filename)
            with archive.open(member) as content, copy_.open(plain, "w", force_zip64=member.file_size >= 2**31) as sink:
                shutil.copyfileobj(content, sink, 2**20)


def preferred_precision(device: str) -> Precision:
    """What serves fastest on a device: float16 on a GPU, int8 on an x86 processor, float32 on others."""
    if torch.device(device).type == "cuda":
        return "float16"
    return "int8" if int8_is_supported() else "float32"


def default_cache_dir() -> Path:
    """Where bundles built at start are kept: ``$XDG_CACHE_HOME/verso`` or ``~/.cache/verso``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verso"


def build_pretrained(
    device: str,
    cache_dir: Path | None = None,
    *,
    precision: Precision | None = None,
    report: Callable[[str], None] = print,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda items, label, total: items,
) -> Path:
    """The bundle of the translator that ships, built on first use and kept.

    Args:
        device: ``cpu`` or ``cuda``.
        cache_dir: Where bundles are kept; :func:`default_cache_dir` by default.
        precision: Other than the preferred one.
        report: Takes a line of news.
        progress: Wraps an iterable in a progress bar.

    Returns:
        Path of the bundle. Its name holds a digest of the weights, so that an upgrade builds anew.

    Raises:
        ArtifactError: The weights are missing or damaged, or the folder cannot be written.
        DeviceError: The device is not there.
    """
    chosen = precision or preferred_precision(device)
    check_device(device, chosen)
    if not PRETRAINED.is_file():
        raise ArtifactError(
            f"The shipped weights are missing: {PRETRAINED} is not there; check out the whole repository."
        )
    shortlist = pretrained_shortlist()
    digest = hashlib.sha256(PRETRAINED.read_bytes())
    if shortlist is not None:
        digest.update(shortlist.to_bytes())
    methods = " ".join(method.__name__ for method in _EXPORTED)
    digest.update(f"{FORMAT_VERSION} {torch.__version__} {activation_levels()} {methods}".encode())
    path = (cache_dir or default_cache_dir()) / f"{PRETRAINED.stem}-{chosen}-{digest.hexdigest()[:12]}.pt"
    if not path.is_file():
        report(f"building the {chosen} bundle {path}, once")
        export_bundle(
            load_checkpoint(PRETRAINED),
            chosen,
            path,
            device=device,
            shortlist=shortlist,
            report=report,
            progress=progress,
        )
    return path


def pretrained_shortlist() -> Shortlist | None:
    """The vocabulary shortlist of the translator that ships, which lies beside its weights; None where there is none.

    Raises:
        ArtifactError: It is damaged.
    """
    path = PRETRAINED.with_suffix(f".{SHORTLIST}")
    return Shortlist.from_bytes(path.read_bytes()) if path.is_file() else None
