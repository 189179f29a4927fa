"""Mozilla's registry of the models of Firefox Translations: which there are, and where their files are.

The registry is a JSON object with ``models``: for each pair a list of models, one for each architecture
(mozilla/translations, db/updater.py). Its content is not trusted: a model is used only if all that is needed of it has
the expected form, and paths are used as paths below the registry's own address, whatever ``baseUrl`` says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from model.artifacts.pulled import ARCHITECTURES
from model.errors import ArtifactError
from model.importing.hub import HubFile
from model.languages import standard_code
from model.process.files import is_digest

MAX_MODEL_BYTES = 500_000_000
"""Weights that are larger are refused; the published ones have 17 to 43 MB."""

_VOCABULARIES = ({"vocab": "vocab"}, {"srcVocab": "srcvocab", "trgVocab": "trgvocab"})
"""The names of vocabularies in the registry and in the names of files: one for both languages, or one for each."""

_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{4})?")
_PATH = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)*\.gz", re.ASCII)
_ARCHITECTURE = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_WORDS = re.compile(r"[\w.-][\w .-]{0,40}", re.ASCII)


@dataclass(frozen=True)
class PublishedModel:
    """A model of the registry.

    Args:
        source: The language it translates from, in the registry's spelling.
        target: The language it translates into.
        architecture: ``tiny``, ``base-memory``, ``base``, or a later one.
        status: Its state of release, such as ``Release Desktop``; empty if it has none.
        weights: Its weights.
        vocabularies: Its vocabulary, or those of its source and target.
        scores: Its scores on FLORES-200+ that Mozilla published, by metric.
    """

    source: str
    target: str
    architecture: str
    status: str
    weights: HubFile
    vocabularies: tuple[HubFile, ...]
    scores: dict[str, float]

    @property
    def pair(self) -> str:
        """Its pair as :class:`model.artifacts.pulled.PulledName` has it: in lower case, with hyphens."""
        return f"{self.source}-{self.target}".lower().replace("_", "-")

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Its direction, in standard codes."""
        return ((standard_code(self.source), standard_code(self.target)),)

    @property
    def version(self) -> str:
        """The digest of its weights."""
        assert self.weights.sha256 is not None
        return self.weights.sha256

    @property
    def is_released(self) -> bool:
        """Whether a release of Firefox has it."""
        return self.status.startswith("Release")

    @property
    def rank(self) -> tuple[bool, int]:
        """Orders the models of a pair: released ones first, then by architecture, the best first."""
        is_known = self.architecture in ARCHITECTURES
        return not self.is_released, ARCHITECTURES.index(self.architecture) if is_known else len(ARCHITECTURES)


class Registry:
    """The models of the registry.

    Args:
        content: Its text.
        address: Where it is from, for messages.

    Raises:
        ArtifactError: It is not a registry.
    """

    def __init__(self, content: bytes, address: str) -> None:
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"{address} is not JSON ({error}); is it a registry of Firefox's models?") from error
        listed = values.get("models") if isinstance(values, dict) else None
        if not isinstance(listed, dict):
            raise ArtifactError(f"{address} has no object 'models'; is it a registry of Firefox's models?")
        self._address = address
        self._models: dict[str, list[PublishedModel]] = {}
        for entry in (entry for entries in listed.values() if isinstance(entries, list) for entry in entries):
            model = _published(entry)
            if model is not None:
                self._models.setdefault(model.pair, []).append(model)
        for of_pair in self._models.values():
            of_pair.sort(key=lambda model: model.rank)

    @property
    def models(self) -> list[PublishedModel]:
        """All models, by pair, the best of each pair first."""
        return [model for pair in sorted(self._models) for model in self._models[pair]]

    def pairs(self, revision: str) -> list[str]:
        """The pairs that have a model of a revision."""
        return [pair for pair in sorted(self._models) if any(_is_of(revision, model) for model in self._models[pair])]

    def find(self, pair: str, revision: str) -> PublishedModel:
        """The model of a pair.

        Args:
            pair: The pair, in lower case.
            revision: Its architecture, the digest of its weights, or ``best``: the best architecture of those that
                Firefox has released, or of all if it has released none.

        Raises:
            ArtifactError: There is none.
        """
        of_pair = self._models.get(pair)
        if of_pair is None:
            some = ", ".join(sorted(self._models)[:8])
            raise ArtifactError(
                f"{self._address} has no model {pair}; it has {len(self._models)} pairs ({some}, ...), and 'verso pull "
                "--list firefox' lists them."
            )
        for model in of_pair:
            if _is_of(revision, model):
                return model
        raise ArtifactError(
            f"{self._address} has no model {revision} of {pair}; it has {', '.join(_architectures(of_pair))}."
        )


def _architectures(models: Iterable[PublishedModel]) -> list[str]:
    return [model.architecture for model in models]


def _is_of(revision: str, model: PublishedModel) -> bool:
    return revision in ("best", model.architecture, model.version)


def _published(entry: object) -> PublishedModel | None:
    """A model of the registry, or None if anything that is needed of it has another form."""
    if not isinstance(entry, dict) or not isinstance(files := entry.get("files"), dict):
        return None
    source, target = _text(entry, "sourceLanguage", _CODE), _text(entry, "targetLanguage", _CODE)
    architecture = _text(entry, "architecture", _ARCHITECTURE)
    if source is None or target is None or architecture is None:
        return None
    suffix = f"{source}{target}"
    weights = _weights(files.get("model"), f"model.{suffix}.intgemm.alphas.bin")
    for names in _VOCABULARIES:
        found = [_file(files.get(name), f"{stem}.{suffix}.spm") for name, stem in names.items()]
        vocabularies = tuple(file for file in found if file is not None)
        if weights is not None and len(vocabularies) == len(names):
            return PublishedModel(
                source,
                target,
                architecture,
                _text(entry, "releaseStatus", _WORDS) or "",
                weights,
                vocabularies,
                _scores(entry.get("metrics")),
            )
    return None


def _text(values: dict[str, Any], name: str, form: re.Pattern[str]) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) and form.fullmatch(value) else None


def _file(value: object, name: str) -> HubFile | None:
    path = _text(value, "path", _PATH) if isinstance(value, dict) else None
    return None if path is None or len(path) > 500 else HubFile(name, 0, path=path)


def _weights(value: object, name: str) -> HubFile | None:
    file = _file(value, name)
    if file is None or not isinstance(value, dict):
        return None
    size, digest = value.get("uncompressedSize"), value.get("uncompressedHash")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= MAX_MODEL_BYTES:
        return None
    return (
        HubFile(name, size, digest.lower(), path=file.path) if isinstance(digest, str) and is_digest(digest) else None
    )


def _scores(metrics: object) -> dict[str, float]:
    values = metrics.get("flores200-plus") if isinstance(metrics, dict) else None
    if not isinstance(values, dict):
        return {}
    numbers = {
        name: value for name, value in values.items() if isinstance(value, int | float) and _WORDS.fullmatch(name)
    }
    return {name: float(value) for name, value in numbers.items() if abs(value) < 1000}
