"""Promises about the repository itself."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for folder in ("app", "model", "scripts") for path in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names of everything a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", sorted((ROOT / "model").rglob("*.py")), ids=lambda path: path.name)
def test_the_model_knows_nothing_of_http(path: Path) -> None:
    assert not imported(path) & {"app", "fastapi", "starlette", "uvicorn", "httpx"}


def test_the_transformer_is_our_own() -> None:
    for path in SOURCES:
        assert not re.search(
            r"nn\.(Transformer|MultiheadAttention|TransformerEncoder)", path.read_text(encoding="utf-8")
        ), path


def test_every_dependency_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[=><]", name)[0].replace("-", "_") for name in project["dependencies"]}
    declared |= {"yaml", "starlette", "app", "model", "PIL"}
    for path in SOURCES:
        for name in imported(path):
            assert name in declared or name in __import__("sys").stdlib_module_names, f"{path.name}: {name}"


def test_torch_is_pinned_exactly() -> None:
    assert '"torch==2.13.0"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_what_ships_is_small_and_has_its_card() -> None:
    shipped = ROOT / "model" / "pretrained"
    assert sum(path.stat().st_size for path in shipped.rglob("*") if path.is_file()) <= 60_000_000
    card = (shipped / "CARD.md").read_text(encoding="utf-8")
    for word in ("CC BY-SA 4.0", "Tatoeba", "BConTrasT", "MLQE-PE", "nrefs:1|case:mixed", "configs/verso-en-de.yaml"):
        assert word in card, word


def test_the_compose_file_serves_safely() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert set(services) == {"verso", "verso-gpu"}
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert float(service["stop_grace_period"].removesuffix("s")) > 30
    assert services["verso-gpu"]["profiles"] == ["gpu"]
    assert "HEALTHCHECK" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_every_setting_is_documented_for_operators() -> None:
    from app.settings import ENV_PREFIX, Settings

    text = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for name in Settings.model_fields:
        assert f"`{ENV_PREFIX}{name.upper()}`" in text, name


def test_links_between_documents_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "model").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} -> {target}"


def test_the_gate_is_what_the_readme_says() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in gate
    assert "make check" in gate
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=False).returncode == 0
