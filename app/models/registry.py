"""The loaded models, and the choice of one for a language pair."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from app.models.in_flight import RunningRequests
from model.errors import UnsupportedPair
from model.languages import LanguagePairs, closest, merge, standard_code

if TYPE_CHECKING:
    from app.models.bundles import StoredBundle
    from model.artifacts.manifest import Manifest
    from model.translator import Translator

Pair = tuple[str, str]

_PAIRS_CACHED = 1000
"""Size of the cache of resolved pairs."""


class ServedModel(Protocol):
    """A model that translates, in this process or another one."""

    @property
    def manifest(self) -> Manifest:
        """The metadata of its bundle."""
        ...

    @property
    def name(self) -> str:
        """Its unique name."""
        ...

    @property
    def device(self) -> str:
        """The device it is on."""
        ...

    @property
    def num_bytes(self) -> int:
        """Memory that it takes when it is loaded, estimated."""
        ...

    @property
    def in_memory(self) -> bool | None:
        """Whether it is loaded; None if that is not known here."""
        ...


ModelT = TypeVar("ModelT", bound=ServedModel)


@dataclass(eq=False)
class LoadedModel:
    """A model of this process, which serves requests.

    Args:
        loaded: The model; None while it is not in memory (:mod:`app.models.residency`).
        requests: The requests that use it.
        bundle: The bundle that it is loaded from on its first use; None for a model that stays in memory.
        digest: The digest of its bundle; None before its first use.
    """

    loaded: Translator | None
    requests: RunningRequests = field(default_factory=RunningRequests)
    bundle: StoredBundle | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        """Note the digest of a model that is in memory."""
        if self.loaded is not None:
            self.digest = self.loaded.sha256

    @property
    def translator(self) -> Translator:
        """The model, which is in memory: it stays, or is in use."""
        assert self.loaded is not None
        return self.loaded

    @property
    def manifest(self) -> Manifest:
        """The metadata of its bundle."""
        return self.translator.manifest if self.bundle is None else self.bundle.manifest

    @property
    def name(self) -> str:
        """Its unique name."""
        return self.manifest.name

    @property
    def device(self) -> str:
        """The device it is on."""
        return self.translator.device if self.bundle is None else self.bundle.device

    @property
    def num_bytes(self) -> int:
        """Memory that it takes when it is loaded, estimated."""
        return self.translator.bundle.num_bytes if self.bundle is None else self.bundle.num_bytes

    @property
    def in_memory(self) -> bool:
        """Whether it is loaded."""
        return self.loaded is not None


class Registry(Generic[ModelT]):
    """The loaded models, in the order they were loaded. Belongs to the event loop."""

    def __init__(self) -> None:
        """Empty."""
        self._models: list[ModelT] = []
        self._pairs = LanguagePairs()
        # Resolving codes takes a tenth of the time of a short request, and callers use few different codes.
        self._find_cached = functools.lru_cache(_PAIRS_CACHED)(self._find)

    def __iter__(self) -> Iterator[ModelT]:
        """The models in order."""
        return iter(self._models)

    def __len__(self) -> int:
        """Number of models."""
        return len(self._models)

    @property
    def names(self) -> list[str]:
        """Names of the models, in order."""
        return [model.name for model in self._models]

    @property
    def pairs(self) -> LanguagePairs:
        """All supported language pairs, for messages and language detection."""
        return self._pairs

    def add(self, model: ModelT) -> LanguagePairs:
        """Add a model, which serves requests from now on.

        Returns:
            Pairs of the model that are never used, because an earlier model serves them.
        """
        shadowed = merge(_in_common(model.manifest.directions, other.manifest.directions) for other in self._models)
        self._models.append(model)
        self._changed()
        return shadowed

    def remove(self, name: str) -> ModelT | None:
        """Remove a model, so that it gets no new requests.

        Returns:
            The model, or None if no model has this name.
        """
        model = next((loaded for loaded in self._models if loaded.name == name), None)
        if model is not None:
            self._models.remove(model)
            self._changed()
        return model

    def find(self, source: str | None, target: str | None) -> tuple[ModelT, Pair]:
        """The model that serves a request, and the language pair in that model's spelling.

        Args:
            source: Language of the text in any spelling, or None for any language.
            target: Target language, likewise.

        Raises:
            UnsupportedPair: No pair matches, or several do.
        """
        return self._find_cached(source, target)

    def _changed(self) -> None:
        self._pairs = merge(model.manifest.directions for model in self._models)
        self._find_cached.cache_clear()

    def _find(self, source: str | None, target: str | None) -> tuple[ModelT, Pair]:
        if source is None and target is None and len(self._pairs.any_to_any) > 2:
            raise UnsupportedPair(source, target, self._pairs)  # instead of building a list of thousands of pairs
        matches = [(model, pair) for model in self._models for pair in model.manifest.directions.find(source, target)]
        # If codes of several models match the requested code, such as pt and pt-BR, the closest code is chosen.
        for side, code in enumerate((source, target)):
            if code is not None and len(_distinct(matches)) > 1:
                nearest = closest(code, tuple(pair[side] for _, pair in matches))
                standard = None if nearest is None else standard_code(nearest)
                matches = [(model, pair) for model, pair in matches if standard_code(pair[side]) == standard]
        if len(_distinct(matches)) != 1:
            raise UnsupportedPair(source, target, self._pairs)
        return matches[0]


def _standard_pair(pair: Pair) -> Pair:
    return standard_code(pair[0]), standard_code(pair[1])


def _distinct(matches: Sequence[tuple[ServedModel, Pair]]) -> set[Pair]:
    """The distinct pairs; different spellings, such as en-de and eng-deu, count as one pair."""
    return {_standard_pair(pair) for _, pair in matches}


def _in_common(new: LanguagePairs, old: LanguagePairs) -> LanguagePairs:
    """The pairs that two models share, in the new model's spelling."""
    old = LanguagePairs(
        tuple(_standard_pair(pair) for pair in old.pairs), tuple(standard_code(code) for code in old.any_to_any)
    )
    languages = tuple(code for code in new.any_to_any if standard_code(code) in old.any_to_any)
    group = {standard_code(code): code for code in new.any_to_any}
    return LanguagePairs(
        (
            *(pair for pair in new.pairs if _standard_pair(pair) in old),
            *((group[a], group[b]) for a, b in old.pairs if a in group and b in group),
        ),
        languages if len(languages) > 1 else (),
    )
