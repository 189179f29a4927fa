"""Every command that a document shows exists, takes the options that are shown, and succeeds where it is cheap.

Requests by curl are sent to a service. A block that cannot be sent has ``<!-- not run: REASON -->`` before it. All
other commands are checked and not run, as they take minutes, files of the reader's, or other machines: ``verso`` parses
its arguments, targets of make, modules, their options, scripts and markers of pytest exist. Decisions and the changelog
are history: what they name may be gone.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from app.commands import main as verso
from app.settings import ENV_PREFIX, Settings
from model.commands import table
from tests.server import Server, served
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        *("*.md", "docs/*.md", "docs/integrations/*.md"),
        *("benchmarks/*.md", "client/*.md", "model/pretrained/*.md", "data/*/*.md"),
    )
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
ELSEWHERE = frozenset(
    {
        *("docker", "kubectl", "prometheus", "promtool", "ray", "serve", "torchrun"),
        *(".", "cd", "echo", "export", "git", "grep", "pip", "pre-commit", "python3", "sha256sum"),
    }
)
"""Programs of others, which are not checked."""

OWN = frozenset({"benchmarks", "docs", "scripts", "tests"})
"""Folders whose modules are run by name."""

_BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]+) -->\n)?^ *```(?:bash|sh)\n(?P<text>.*?)^ *```", re.M | re.S
)
_INLINE = re.compile(r"`((?:make|verso|python -m|\.venv/bin/python -m) [^`\n]+)`")
_OPERATORS = {"|", "&&", "||", ";", "(", ")", "<", ">"}


@dataclass(frozen=True)
class Block:
    """A block of shell commands.

    Args:
        document: Its path.
        line: The line it begins at.
        text: The commands.
        reason: Why it is not run; None if it is.
    """

    document: str
    line: int
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks() -> Iterator[Block]:
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            yield Block(document, text.count("\n", 0, match.start("text")), match["text"], match["reason"])


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a script: words without comments, redirections and assignments."""
    text = re.sub(r'"\$\([^()]*\)"', "SUBSTITUTED", text.replace("\\\n", " "))
    text = re.sub(r"\$\([^()]*\)", "", text)  # options that a loop writes
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        command: list[str] = []
        words = list(lexer)
        for index, word in enumerate([*words, ";"]):
            if word in _OPERATORS - {"<", ">"}:
                if command:
                    yield command
                command = []
            elif word not in _OPERATORS and (index == 0 or words[index - 1] not in ("<", ">")):
                command.append(word)


def without_settings(command: list[str]) -> list[str]:
    """The command without the variables set before it, of which those of the service must exist."""
    while command and (match := re.match(r"([A-Z_]+)=", command[0])):
        name = match[1]
        if name.startswith(ENV_PREFIX):
            assert name.removeprefix(ENV_PREFIX).lower() in Settings.model_fields, name
        command = command[1:]
    return command


@cache
def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


@cache
def markers() -> set[str]:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    return {line.partition(":")[0] for line in options["markers"]}


def source_of(module: str) -> str:
    """The text of a module, or of the module that runs a package."""
    path = ROOT / module.replace(".", "/")
    file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    assert file.is_file(), f"there is no module {module}"
    return file.read_text(encoding="utf-8")


def check_make(words: list[str]) -> None:
    for word in words:
        name, equals, _ = word.partition("=")
        if equals:
            assert re.search(rf"\b{name}\b", makefile()) or name.startswith(ENV_PREFIX), f"make knows no {name}"
        else:
            assert re.search(rf"^{re.escape(name)}:", makefile(), re.M), f"there is no target {name}"


def check_pytest(words: list[str]) -> None:
    for index, word in enumerate(words):
        if words[index - 1] == "-m" and word:
            assert set(re.findall(r"\w+", word)) - {"not", "and", "or"} <= markers(), word
        elif word.startswith("tests"):
            assert (ROOT / word).exists(), word


def check_module(words: list[str]) -> None:
    module, *rest = words
    if module == "pytest":
        check_pytest(rest)
    elif module in ("model", "app"):
        check_verso(rest)
    elif module.partition(".")[0] in OWN and module.islower():
        source = source_of(module)
        if "benchmarks.command_line" in source:
            source += source_of("benchmarks.command_line")
        if "model.commands" in source:
            source += "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("model/commands/*.py"))
        for option in (word.partition("=")[0] for word in rest if word.startswith("--") and word != "--help"):
            assert f'"{option}"' in source, f"{module} has no option {option}"


@cache
def help_of(name: str) -> str:
    """The help of a command of ``verso``, and its source, which has the options of its own commands."""
    (command,) = (command for command in verso.COMMANDS if command.name == name)
    parser = argparse.ArgumentParser()
    command.load().add_arguments(parser)
    return parser.format_help() + source_of(command.module)


def check_verso(words: list[str]) -> None:
    """The command exists, with the options that are shown; the text may leave out others that it needs."""
    name = next((word for word in words if not word.startswith("-")), None)
    if name is None or not re.fullmatch("[a-z]+", name):
        return  # "verso --version", or a placeholder
    assert name in {command.name for command in verso.COMMANDS}, f"there is no command verso {name}"
    for option in (word.partition("=")[0] for word in words if re.match("--[a-z]", word)):
        assert option == "--help" or re.search(rf"{option}\b", help_of(name)), f"verso {name} has no option {option}"


def check(command: list[str]) -> None:
    """Fail if a command cannot be what it is meant to be."""
    command = without_settings(command)
    if not command:
        return
    program, words = command[0], command[1:]
    if re.search(r"(^|/)python$", program):
        if words[0] == "-m":
            check_module(words[1:])
    elif program.endswith(("bin/verso", "bin/pip")) or program == "verso":
        if program.endswith("verso"):
            check_verso(words)
    elif program == "make":
        check_make(words)
    elif program.startswith("scripts/"):
        assert (ROOT / program).is_file(), program
    else:
        assert program in ELSEWHERE | {"curl"}, f"{program} is not known to this test"


@pytest.mark.parametrize("block", list(blocks()), ids=str)
def test_the_commands_of_a_block_exist(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "run", lambda arguments: 0)
    for command in commands(block.text):
        check(command)
        command = without_settings(command)
        if command and command[0] == "verso" and not {"--help", "--version"} & set(command):
            assert verso.main(command[1:]) == 0, command


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_within_the_text_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for span in _INLINE.findall(_BLOCK.sub("", text)):
        for command in commands(span.partition("...")[0]):
            check(command)


def curl_blocks() -> Iterator[Block]:
    for block in blocks():
        if any(command[0] == "curl" for command in commands(block.text)):
            yield block


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A service with a toy model."""
    (*_, release) = sorted((ROOT / "tests" / "releases").glob("*/toy-float32.pt"))
    with served(release, VERSO_DEADLINE_S=str(PATIENCE_S)) as running:
        yield running


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("block", [block for block in curl_blocks() if block.reason is None], ids=str)
def test_the_requests_of_a_block_are_answered(block: Block, server: Server, tmp_path: Path) -> None:
    address = server.address.removeprefix("http://")
    lines = [line for line in block.text.replace("\\\n", " ").splitlines() if line.lstrip().startswith("curl ")]
    script = re.sub(r"(localhost|HOST):8000", address, "\n".join(lines)).replace("curl ", "curl --fail-with-body ")
    process = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    assert process.returncode == 0, (script, process.stdout[:1000], process.stderr)
