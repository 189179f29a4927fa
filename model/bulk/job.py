"""What one run of bulk translation does with every text."""

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
        bundle: The bundle; each machine has it at this path.
        sha256: Its digest.
        device: ``cpu`` or ``cuda``.
        num_threads: Processor threads of a worker.
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
        """What translations depend on; options that have their default are left out."""
        defaults = TranslationOptions()
        chosen = {
            one.name: value
            for one in fields(TranslationOptions)
            if (value := getattr(self.options, one.name)) != getattr(defaults, one.name)
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
