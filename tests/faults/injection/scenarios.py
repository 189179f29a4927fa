"""All scenarios, by name."""

from __future__ import annotations

import importlib

from tests.faults.injection.scenario import Scenario

SCENARIOS = {
    "keys": ("keys", "Keys"),
    "usage": ("usage", "Requests"),
    "documents": ("documents", "Documents"),
    "glossaries": ("glossaries", "Glossaries"),
    "memories": ("memories", "Memories"),
    "bundles": ("artifacts", "Bundles"),
    "checkpoints": ("artifacts", "Checkpoints"),
    "decoder": ("caches", "CompiledDecoder"),
    "pulled": ("caches", "PulledModels"),
    "training": ("training", "TrainingRun"),
}
"""The module and the class of each: only what is run is imported."""

PLANTED = "careless"
"""A scenario whose mistakes must be found; it runs only if it is named."""

_ALL = {**SCENARIOS, PLANTED: ("careless", "CarelessStore")}


def scenario(name: str) -> Scenario:
    """A scenario.

    Args:
        name: Its name.
    """
    module, kind = _ALL[name]
    made: Scenario = getattr(importlib.import_module(f"tests.faults.injection.{module}"), kind)()
    return made
