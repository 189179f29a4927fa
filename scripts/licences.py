"""Write docs/licences.md: the licence of every package that the service installs, as the packages state it.

Run ``python -m scripts.licences`` where all packages of locks/constraints.txt are installed.
tests/test_supply_chain.py fails if the page does not match the locked versions, or a licence does not fit Apache-2.0.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
LOCKS = ("locks/service.lock", "locks/torch.lock", "locks/compiler.lock")

ACCEPTED = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "MIT", "MIT-CMU"),
        *("MPL-2.0", "PSF-2.0", "Zlib", "LLVM-exception", "NVIDIA"),
    )
)
"""Licences whose works may be served with the project. Those of MPL-2.0 are unchanged; NVIDIA's permit use."""

_CLASSIFIERS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Names of licences that are no identifiers of SPDX."""

_NOT_INSTALLED = {"triton": "MIT", "nvidia-": "NVIDIA", "cuda-": "NVIDIA", "ziglang": "MIT"}
"""By the beginning of their names: packages of the CUDA build of torch, and the compiler, as their pages state it."""

_HEADER = """\
# Licences

Written by `python -m scripts.licences` from what the packages of [locks/service.lock](../locks/service.lock),
[locks/torch.lock](../locks/torch.lock) and [locks/compiler.lock](../locks/compiler.lock)
state. Verso itself is Apache-2.0, the shipped weights are CC BY-SA 4.0
([card](../model/pretrained/CARD.md)), and fastText's model of 176 languages is CC BY-SA 3.0
([its folder](../app/serving/language_identification/README.md)). Swagger UI, the only code that is copied into the
repository, is Apache-2.0 ([its folder](../app/http/static/swagger-ui/README.md)). "NVIDIA" is a licence of NVIDIA that
permits use; only the CUDA build of torch needs these packages. ziglang is a C++ compiler, installed only where there
is no other; it links LLVM's C++ library (Apache-2.0 WITH LLVM-exception) into what it compiles, as in the wheels and in
the image. What only tests, checks and documents need is not installed for serving and not listed.

| package | version | licence |
|---|---|---|
"""


def locked() -> Iterator[tuple[str, str]]:
    """Names and versions of the packages that the service installs."""
    for lock in LOCKS:
        yield from re.findall(r"^([\w.-]+)==([^ ]+)", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE)


def licence(name: str) -> str:
    """The licence of an installed package, as an expression of SPDX where it states one."""
    for beginning, value in _NOT_INSTALLED.items():
        if name.startswith(beginning):
            return value
    metadata = importlib.metadata.metadata(name)
    stated = [
        *(metadata[key] for key in ("License-Expression", "License") if key in metadata),
        *(line.split(" :: ")[-1] for line in metadata.get_all("Classifier") or () if line.startswith("License ::")),
    ]
    candidates = [_CLASSIFIERS.get(name, name) for name in stated if name]
    fitting = (candidate for candidate in candidates if is_accepted(candidate))
    # A whole text instead of a name is no use here.
    return next(fitting, min(candidates, key=len, default="unstated"))


def is_accepted(expression: str) -> bool:
    """Whether a licence permits what the project does: all parts of "AND", one of each "OR".

    Args:
        expression: An expression of SPDX.
    """
    tokens = re.findall(r"[()]|[^\s()]+", expression)
    return _either(tokens) and not tokens


def _either(tokens: list[str]) -> bool:
    accepted = _all(tokens)
    while tokens[:1] == ["OR"]:
        tokens.pop(0)
        accepted = _all(tokens) or accepted
    return accepted


def _all(tokens: list[str]) -> bool:
    accepted = _is_term(tokens)
    while tokens[:1] in (["AND"], ["WITH"]):
        tokens.pop(0)
        accepted = _is_term(tokens) and accepted
    return accepted


def _is_term(tokens: list[str]) -> bool:
    if not tokens:
        return False
    first = tokens.pop(0)
    if first != "(":
        return first in ACCEPTED
    accepted = _either(tokens)
    return tokens[:1] == [")"] and tokens.pop(0) == ")" and accepted


def page() -> str:
    """The page."""
    return _HEADER + "".join(f"| {name} | {version} | {licence(name)} |\n" for name, version in sorted(locked()))


def main() -> int:
    """Write it; 1 if a licence does not fit."""
    PAGE.write_text(page(), encoding="utf-8")
    refused = [(name, licence(name)) for name, _ in locked() if not is_accepted(licence(name))]
    for name, stated in refused:
        print(f"{name}: {stated} is not among the accepted licences", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
