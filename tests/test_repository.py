"""Tests of the repository itself."""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for folder in ("app", "model", "scripts") for path in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names of the packages a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_the_transformer_is_implemented_here() -> None:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert not re.match(r"Transformer|MultiheadAttention", node.attr), f"{path.name}:{node.lineno}"


def test_no_compiled_library_is_in_the_repository() -> None:
    tracked = subprocess.run(["git", "ls-files", "*.so"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert tracked == ""


def test_imported_packages_are_the_declared_ones() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, extras = content["project"], content["project"]["optional-dependencies"]
    expected = [*project["dependencies"], *extras["telemetry"], *extras["ray"], *extras["mcp"]]
    expected += content["dependency-groups"]["data"]  # of scripts/data
    declared = {re.split(r"[=><\[]", name)[0].replace("-", "_") for name in expected}
    used = (
        set().union(*map(imported, SOURCES))
        - set(sys.stdlib_module_names)
        - {"app", "model", "scripts", "tests", "verso_client"}
        - {"babel"}  # of the group "test": scripts/quantity_names.py writes a table with it
    )
    # Some packages have another name than their module.
    packages = {
        "yaml": "pyyaml",
        "lingua": "lingua_language_detector",
        "re2": "google_re2",
        "fasttext": "fasttext_predict",
        "markdown_it": "markdown_it_py",
    }
    starlette_reads_forms_with = {"python_multipart"}
    ray_serve_imports = {"grpcio_reflection", "jinja2", "mmh3", "watchfiles"}
    of_opentelemetry = {"opentelemetry_sdk", "opentelemetry_exporter_otlp_proto_http"}
    if "opentelemetry" in used:
        used = (used - {"opentelemetry"}) | of_opentelemetry
    indirectly = starlette_reads_forms_with | ray_serve_imports
    assert {packages.get(name, name) for name in used} | indirectly == declared


def test_the_client_imports_the_packages_it_declares_and_the_optional_ones() -> None:
    project = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [Requirement(name).name for name in project["dependencies"]] == ["httpx"]
    used = set().union(*map(imported, (ROOT / "client" / "verso_client").glob("*.py")))
    assert used - set(sys.stdlib_module_names) == {"verso_client", "httpx", "numpy", "tqdm"}
    assert (ROOT / "client" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_torch_is_pinned_exactly_and_in_one_place() -> None:
    assert '"torch==2.13.0"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in ("Dockerfile", "docker-compose.yml", "Makefile", "scripts/install_torch.py"):
        assert "2.13" not in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_lock_file_has_an_exact_version_of_every_dependency_that_pyproject_allows() -> None:
    locked = {}
    for line in (ROOT / "locks/constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        pinned = Requirement(line)  # refuses options, such as the address of an index
        assert re.fullmatch(r"==[^+*,]+", str(pinned.specifier)), line
        locked[canonicalize_name(pinned.name)] = str(pinned.specifier).removeprefix("==")
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, groups = content["project"], content["dependency-groups"]
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for declared in itertools.chain(
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *groups.values(),
        client["dependencies"],
    ):
        required = Requirement(declared)
        assert required.specifier.contains(locked[canonicalize_name(required.name)]), declared


def test_the_changelog_begins_with_the_version_or_what_follows_it() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert version in headings[:2]
    assert headings[0] in (version, "Unreleased")


def test_the_lock_file_of_the_checks_of_the_page_has_exact_versions_and_no_address_of_a_registry() -> None:
    folder = ROOT / "scripts" / "page"
    expected = json.loads((folder / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name, version in expected.items():
        assert packages[f"node_modules/{name}"]["version"] == version, name
    for path, package in packages.items():
        if path:
            assert package["integrity"].startswith("sha512-") and "resolved" not in package, path


def test_the_shipped_model_is_small_and_has_a_card() -> None:
    shipped = ROOT / "model" / "pretrained"
    assert sum(path.stat().st_size for path in shipped.rglob("*") if path.is_file()) <= 60_000_000
    card = (shipped / "CARD.md").read_text(encoding="utf-8")
    for word in (
        "CC BY-SA 4.0",
        "Tatoeba",
        "BConTrasT",
        "MLQE-PE",
        "nrefs:1|case:mixed",
        "configs/verso-en-de/continued.yaml",
    ):
        assert word in card, word


def test_the_compose_file_serves_safely() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert set(services) == {"verso", "verso-gpu"}
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        grace_s = re.search(r"(\d+)s", service["stop_grace_period"])
        assert grace_s
        assert int(grace_s[1]) > 30
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("${BIND_ADDRESS:-127.0.0.1}:") for port in service["ports"])
        assert "*" not in service["environment"]["VERSO_ALLOWED_HOSTS"]
    assert services["verso-gpu"]["profiles"] == ["gpu"]
    assert services["verso-gpu"]["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]


def in_bytes(value: str) -> int:
    """A size of a compose file, which may be the default of a variable: ``${NAME:-4g}``."""
    match = re.fullmatch(r"(?:\$\{\w+:-)?(\d+)([mg])\}?", value)
    assert match, value
    return int(match[1]) * {"m": 2**20, "g": 2**30}[match[2]]


@pytest.mark.parametrize("file", ["docker-compose.yml", "deploy/nginx/compose.yml"])
def test_containers_have_limits_and_the_service_has_room_for_documents_within_them(file: str) -> None:
    from app.documents.file_worker import MEMORY_BYTES, MEMORY_PER_BYTE
    from app.settings import Settings

    file_bytes = MEMORY_BYTES + MEMORY_PER_BYTE * Settings().max_document_bytes
    for name, service in yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"].items():
        memory_bytes, pids = in_bytes(service["mem_limit"]), str(service["pids_limit"])
        (temporary_bytes,) = (in_bytes(re.findall(r"^/tmp:size=(\w+),", line)[0]) for line in service["tmpfs"])
        assert int(re.findall(r"\d+", pids)[0]) >= 32
        if name == "nginx":
            assert temporary_bytes < memory_bytes
        else:
            # A request's file and one of a document, a full temporary folder, and a gigabyte for the rest.
            assert 2 * file_bytes + temporary_bytes + 2**30 <= memory_bytes


def test_every_setting_reaches_the_container() -> None:
    from app.settings import ENV_PREFIX, Settings

    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    # Address, cache and built-in bundle of a container are fixed in the image.
    settable = set(Settings.model_fields) - {"host", "port", "cache_dir", "auto_bundle"}
    for service in services.values():
        ours = {name for name in service["environment"] if name.startswith(ENV_PREFIX)}
        assert ours == {f"{ENV_PREFIX}{name.upper()}" for name in settable}
        assert {"HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"} <= set(service["environment"])


def test_the_image_runs_unprivileged_and_has_a_health_check() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert lines.index("USER verso") < lines.index('CMD ["python", "-m", "app"]')
    assert "STOPSIGNAL SIGTERM" in lines
    assert any(line.startswith("HEALTHCHECK") for line in lines)
    assert any("/readyz" in line for line in lines)


def test_the_image_is_built_from_files_that_exist_and_reach_the_build() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    received = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    for pattern in " ".join(copied).split():
        assert list(ROOT.glob(pattern)), pattern
        assert any(fnmatch(pattern, name) or pattern.startswith(f"{name}/") for name in received), pattern


def test_the_documented_settings_are_those_of_the_code() -> None:
    from app.settings import AUTO, ENV_PREFIX, Settings

    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row.startswith("| `VERSO_")]
    expected = []
    for name, field in Settings.model_fields.items():
        default = AUTO if name in ("max_batch_tokens", "max_batch_rows") else field.default
        shown = "" if default in (None, "") else f"`{default}`"
        expected.append([f"`{ENV_PREFIX}{name.upper()}`", shown, " ".join((field.description or "").split())])
    assert [[variable, default, meaning] for variable, default, _, meaning in rows] == expected


def test_links_between_documents_resolve() -> None:
    folders = [ROOT / "docs", ROOT / "model", ROOT / "client"]
    for path in [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} -> {target}"


def test_the_index_of_decisions_has_every_record_with_its_title() -> None:
    folder = ROOT / "docs" / "decisions"
    index = re.findall(
        r"^\| \[(\d{4})\]\((.*?)\) \| (.*?) \|", (folder / "README.md").read_text(encoding="utf-8"), re.M
    )
    assert [f"# {number}. {title}" for number, _, title in index] == [
        (folder / name).read_text(encoding="utf-8").splitlines()[0] for _, name, _ in index
    ]
    assert [name for _, name, _ in index] == sorted(path.name for path in folder.glob("[0-9]*.md"))


STAGES_OF_SHIPPED = {"general", "continued", "focused", "cooldown", "phrases", "phrases-and-chat", "long", "finish"}


@pytest.mark.parametrize(
    ("name", "pattern", "stages"),
    [
        ("train_everyday.sh", r"\$stages/(\w+)\.yaml", {"stem", "sibling", "middle", "chat"}),
        ("train_shipped.sh", r"^train ([\w-]+)", STAGES_OF_SHIPPED),
    ],
)
def test_the_configurations_of_the_training_scripts_exist(name: str, pattern: str, stages: set[str]) -> None:
    script = ROOT / "scripts" / name
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    assert set(re.findall(pattern, script.read_text(encoding="utf-8"), re.MULTILINE)) == stages
    assert all((ROOT / "configs" / "verso-en-de" / f"{stage}.yaml").is_file() for stage in stages)


def yields_inside(source: str) -> list[tuple[str, str]]:
    """Generators and the contexts they yield in, without ``aclosing``; context managers are no such generators."""
    results: list[tuple[str, str]] = []

    def visit(node: ast.AST, function: str, contexts: list[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                continue
            if isinstance(child, ast.Yield | ast.YieldFrom):
                results.extend((function, context) for context in contexts)
            inside = contexts
            if isinstance(child, ast.With | ast.AsyncWith):
                entered = [ast.unparse(item.context_expr) for item in child.items]
                inside = [*contexts, *(entry for entry in entered if not entry.startswith("aclosing("))]
            visit(child, function, inside)

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(entry).rpartition(".")[2] for entry in node.decorator_list}
            if not decorators & {"contextmanager", "asynccontextmanager"}:
                visit(node, node.name, [])
    return results


@pytest.mark.parametrize("path", sorted((ROOT / "app").rglob("*.py")), ids=lambda path: path.name)
def test_no_generator_of_the_service_yields_in_a_context_that_may_cancel_its_task(path: Path) -> None:
    """A timer, for example, would cancel whatever the task does between two elements (PEP 789)."""
    assert yields_inside(path.read_text(encoding="utf-8")) == []
