"""The settings of a run of bulk translation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from model.bulk.rows import Columns
from model.translation.options import TranslationOptions


@dataclass(frozen=True)
class Job:
    """How texts are translated.

    Args:
        bundle: The bundle, at the same path on each machine.
        sha256: Its digest.
        device: ``cpu`` or ``cuda``.
        num_threads: CPU threads of a worker.
        shortlist: Whether sentences choose their tokens from the bundle's vocabulary shortlist.
        source: Language of the texts.
        target: Language of the translations.
        options: How to decode them.
        columns: The names of columns.
        max_characters: Longest text that is translated.
    """

    bundle: Path
    sha256: str
    device: str
    num_threads: int
    shortlist: bool
    source: str
    target: str
    options: TranslationOptions
    columns: Columns
    max_characters: int

    @property
    def recorded(self) -> dict[str, Any]:
        """The settings that translations depend on, without options that have their default."""
        defaults = TranslationOptions()
        chosen = {
            option.name: value
            for option in fields(TranslationOptions)
            if (value := getattr(self.options, option.name)) != getattr(defaults, option.name)
        }
        if self.options.glossary:
            chosen["glossary"] = [asdict(term) for term in self.options.glossary]
        return {
            "model": self.sha256,
            "source": self.source,
            "target": self.target,
            "shortlist": self.shortlist,
            "max_characters": self.max_characters,
            "columns": asdict(self.columns),
            **chosen,
        }
