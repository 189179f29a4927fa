"""The loaded models, and the choice of one for a language pair."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

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
    def engine(self) -> str:
        """The name of the engine it is in: only models of one engine translate a text in two legs."""
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

    @property
    def engine(self) -> str:
        """The engine of this process, which has no name."""
        return ""


class Leg(NamedTuple, Generic[ModelT]):
    """A model, and a language pair in its spelling.

    Args:
        model: The model.
        source: The language that it reads.
        target: The language that it writes.
    """

    model: ModelT
    source: str
    target: str


class Registry(Generic[ModelT]):
    """The loaded models, in the order they were loaded. Belongs to the event loop.

    Args:
        pivot: The language through which pairs without a model are translated in two legs; None for none.
    """

    def __init__(self, pivot: str | None = None) -> None:
        self._pivot = pivot
        self._models: list[ModelT] = []
        # Resolving codes takes a tenth of the time of a short request, and callers use few different codes.
        self._route_cached = functools.lru_cache(_PAIRS_CACHED)(self._route)

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

    @functools.cached_property
    def pairs(self) -> LanguagePairs:
        """All supported language pairs, for messages and language detection."""
        return merge([*(model.manifest.directions for model in self._models), self.pivoted])

    @functools.cached_property
    def pivoted(self) -> LanguagePairs:
        """The language pairs that are translated in two legs, and others of the same languages."""
        if (pivot := self._pivot) is None:
            return LanguagePairs()
        return merge(
            _reachable(merge(model.manifest.directions for model in models), pivot) for models in self._by_engine()
        )

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
        if source is None and target is None and len(self.pairs.any_to_any) > 2:
            raise UnsupportedPair(source, target, self.pairs)  # instead of building a list of thousands of pairs
        match = _match(self._models, source, target)
        if match is None:
            raise UnsupportedPair(source, target, self.pairs)
        return match.model, (match.source, match.target)

    def route(self, source: str | None, target: str | None) -> tuple[Leg[ModelT], ...]:
        """As :meth:`find`; for a pair without a model two legs, from the source to the pivot language and on.

        Args:
            source: Language of the text in any spelling. None has no route in two legs.
            target: Target language, likewise.

        Raises:
            UnsupportedPair: No pair matches, in one leg or two, or several do.
        """
        return self._route_cached(source, target)

    def _changed(self) -> None:
        for name in ("pairs", "pivoted"):
            self.__dict__.pop(name, None)
        self._route_cached.cache_clear()

    def _by_engine(self) -> list[list[ModelT]]:
        engines: dict[str, list[ModelT]] = {}
        for model in self._models:
            engines.setdefault(model.engine, []).append(model)
        return list(engines.values())

    def _route(self, source: str | None, target: str | None) -> tuple[Leg[ModelT], ...]:
        try:
            model, pair = self.find(source, target)
        except UnsupportedPair:
            if self._pivot is None or source is None or target is None or _matches(self._models, source, target):
                raise
            for models in self._by_engine():
                first = _match(models, source, self._pivot)
                second = _match(models, self._pivot, target)
                if first and second and standard_code(first.source) != standard_code(second.target):
                    return first, second
            raise
        return (Leg(model, *pair),)


def _matches(models: Iterable[ModelT], source: str | None, target: str | None) -> list[Leg[ModelT]]:
    """The models with a pair that matches a request."""
    return [Leg(model, *pair) for model in models for pair in model.manifest.directions.find(source, target)]


def _match(models: Iterable[ModelT], source: str | None, target: str | None) -> Leg[ModelT] | None:
    """The model that serves a request; None if no pair matches, or several do."""
    matches = _matches(models, source, target)
    # If codes of several models match the requested code, such as pt and pt-BR, the closest code is chosen.
    for code, spelled in ((source, operator.attrgetter("source")), (target, operator.attrgetter("target"))):
        if code is not None and len(_distinct(matches)) > 1:
            nearest = closest(code, tuple(map(spelled, matches)))
            standard = None if nearest is None else standard_code(nearest)
            matches = [match for match in matches if standard_code(spelled(match)) == standard]
    return matches[0] if len(_distinct(matches)) == 1 else None


def _reachable(direct: LanguagePairs, pivot: str) -> LanguagePairs:
    """The pairs that models translate in two legs; languages with both directions are all of them, with the pivot's.

    Args:
        direct: The pairs of the models.
        pivot: The pivot language.
    """
    pivots = [code for code in direct.languages if closest(pivot, (code,)) is not None]
    group = direct.any_to_any if set(pivots).intersection(direct.any_to_any) else ()
    sources = dict.fromkeys([*(source for source, target in direct.pairs if target in pivots), *group])
    targets = dict.fromkeys([*(target for source, target in direct.pairs if source in pivots), *group])
    both = [code for code in sources if code in targets and code not in pivots]
    members = frozenset([*both, *pivots] if len(both) > 1 else ())
    direct_pairs = set(direct.pairs)
    pairs = (
        (source, target)
        for source in sources
        for target in targets
        if standard_code(source) != standard_code(target)
        and (source, target) not in direct_pairs
        and not members.issuperset((source, target))
        and not set(pivots).intersection((source, target))
    )
    return LanguagePairs(tuple(pairs), (*both, *pivots[:1]) if members else ())


def _standard_pair(pair: Pair) -> Pair:
    return standard_code(pair[0]), standard_code(pair[1])


def _distinct(matches: Sequence[Leg[ModelT]]) -> set[Pair]:
    """The distinct pairs; different spellings, such as en-de and eng-deu, count as one pair."""
    return {_standard_pair((match.source, match.target)) for match in matches}


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
