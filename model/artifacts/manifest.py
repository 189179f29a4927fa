"""The metadata of a bundle."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pydantic

from model.artifacts.format import FORMAT, FORMAT_VERSION, READABLE_VERSIONS
from model.decoding.policy import DecodingPolicy
from model.errors import ArtifactError
from model.languages import LanguagePairs
from model.network.config import ModelConfig
from model.text.symbols import NUM_PLACEHOLDERS
from model.translation.capabilities import Capabilities
from model.translation.confidence import Calibration

Precision = Literal["float32", "float16", "bfloat16", "int8"]


@dataclass(frozen=True)
class Manifest:
    """The metadata of a bundle.

    Args:
        name: The model's name, as responses give it.
        pairs: (source, target) languages it translates, one by one.
        architecture: The fields of :class:`model.network.config.ModelConfig`.
        precision: Of its weights and products.
        max_source_tokens: Longest sentence it accepts, markers included.
        max_target_tokens: Longest translation it gives.
        licence: Of the weights.
        languages: Languages that it translates in all combinations, besides ``pairs``.
        tokenizer: Which tokenizer the vocabulary files belong to, and how languages are given to it.
        decoding: The fields of :class:`model.decoding.policy.DecodingPolicy`.
        attribution: Sources that the licence requires to be named.
        training: The settings of its training.
        scores: Corpus scores with their signatures, by test set and direction.
        precision_report: Differences of this precision from float32, measured at export.
        shortlist: How its vocabulary shortlist was learned; empty where it has none.
        fold_capitals: Whether the case of a translation follows that of its source (:mod:`model.text.case_folding`).
        confidence: How confidences are computed (:class:`model.translation.confidence.Calibration`), and how that was
            learned; empty where the model was not calibrated.
        retry_loops: Whether repetition loops and empty outputs are decoded a second time
            (:mod:`model.decoding.repetition_guard`).
        capabilities: The options it supports.
        format: Marks bundles among TorchScript archives.
        format_version: Of this layout.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    architecture: dict[str, Any]
    precision: Precision
    max_source_tokens: int
    max_target_tokens: int
    licence: str
    languages: tuple[str, ...] = ()
    tokenizer: dict[str, Any] = field(default_factory=dict)
    decoding: dict[str, Any] = field(default_factory=dict)
    attribution: tuple[str, ...] = ()
    training: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    precision_report: dict[str, Any] = field(default_factory=dict)
    shortlist: dict[str, Any] = field(default_factory=dict)
    confidence: dict[str, Any] = field(default_factory=dict)
    fold_capitals: bool = False
    retry_loops: bool = False
    capabilities: Capabilities = field(default_factory=Capabilities)
    format: str = FORMAT
    format_version: int = FORMAT_VERSION

    @classmethod
    def of_checkpoint(cls, facts: dict[str, Any], config: ModelConfig, precision: Precision) -> Manifest:
        """The manifest of a bundle made from a checkpoint.

        Args:
            facts: The checkpoint's.
            config: Its architecture.
            precision: Of the bundle.
        """
        settings = facts.get("settings", {})
        return cls(
            name=facts["name"],
            pairs=tuple((source, target) for source, target in facts["pairs"]),
            architecture=config.to_dict(),
            precision=precision,
            # Sentences longer than those of training are split instead.
            max_source_tokens=min(settings.get("max_tokens_per_sentence", config.max_positions), config.max_positions),
            max_target_tokens=config.max_positions,
            licence=facts.get("licence", "unstated"),
            attribution=tuple(facts.get("attribution", ())),
            tokenizer=facts.get("tokenizer", {}),
            decoding=facts.get("decoding", {}),
            training={**settings, "steps": facts.get("step")},
            scores=facts.get("scores", {}),
            confidence=facts.get("confidence", {}),
            fold_capitals=settings.get("fold_capitals", False),
            retry_loops=settings.get("retry_loops", False),
            capabilities=Capabilities.learned(
                settings.get("controls", {}), [target for _, target in facts["pairs"]], NUM_PLACEHOLDERS
            ),
        )

    @property
    def directions(self) -> LanguagePairs:
        """All it translates: ``pairs``, and ``languages`` to each other."""
        return LanguagePairs(self.pairs, self.languages)

    @property
    def translates_back(self) -> bool:
        """Whether it has the opposite of each of its pairs, and one vocabulary for sources and targets."""
        return bool(self.architecture.get("share_embeddings")) and all(
            (target, source) in self.directions for source, target in self.pairs
        )

    @property
    def policy(self) -> DecodingPolicy:
        """The rules it is decoded by.

        Raises:
            ArtifactError: ``decoding`` has an unknown field or a value out of bounds.
        """
        return DecodingPolicy.from_dict(self.decoding)

    @property
    def calibration(self) -> Calibration:
        """How its confidences are computed; other keys of ``confidence`` say how that was learned.

        Raises:
            ArtifactError: ``confidence`` has an unknown feature or a value of another type.
        """
        try:
            return pydantic.TypeAdapter(Calibration).validate_python(self.confidence)
        except pydantic.ValidationError as error:
            raise ArtifactError(
                f"The manifest's confidence is {_first_fault(error)}; upgrade Verso, or calibrate the model again."
            ) from error

    def to_json(self) -> str:
        """The manifest as it is stored in the bundle."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read a manifest.

        Raises:
            ArtifactError: It is foreign, of a newer format, or incomplete.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"The bundle's manifest is damaged ({error}); export it again.") from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise ArtifactError("The file is an archive but not a Verso bundle; make one with 'verso export'.")
        if values.get("format_version") not in READABLE_VERSIONS:
            raise ArtifactError(
                f"The bundle has format version {values.get('format_version')!r} and this release reads "
                f"up to {max(READABLE_VERSIONS)}: upgrade Verso, or export the bundle again with this release."
            )
        try:
            # Strict JSON has lists where the fields are tuples, and refuses numbers in place of text.
            manifest = _adapter().validate_json(text, strict=True)
        except pydantic.ValidationError as error:
            raise ArtifactError(f"The bundle's manifest is {_first_fault(error)}; export it again.") from error
        if not manifest.pairs and len(manifest.languages) < 2:
            raise ArtifactError("The bundle's manifest names no pair of languages; export it again.")
        return manifest


@functools.cache
def _adapter() -> pydantic.TypeAdapter[Manifest]:
    """Validates the fields of a manifest; made once, because it takes milliseconds."""
    return pydantic.TypeAdapter(Manifest)


def _first_fault(error: pydantic.ValidationError) -> str:
    """The first fault, such as ``incomplete: it has no 'name'`` or ``wrong: name: Input should be a valid string``."""
    fault = error.errors()[0]
    field_name = ".".join(map(str, fault["loc"]))
    if fault["type"] == "missing":
        return f"incomplete: it has no {field_name!r}"
    return f"wrong: {field_name}: {fault['msg']}"
