"""``verso``: its commands, its help, and what the help imports."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from app.commands.main import COMMANDS, main
from app.version import DISTRIBUTION
from model.commands import table

ROOT = Path(__file__).resolve().parents[2]
RUN = [sys.executable, "-c", "import sys; from app.commands.main import main; sys.exit(main())"]
PATIENCE_S = 60.0

EVERY_COMMAND = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


def verso(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False, encoding="utf-8"
    )


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as remaining:
        main([*arguments, "--help"])
    assert remaining.value.code == 0
    return capsys.readouterr().out


def commands_named(text: str) -> set[str]:
    """The words after ``verso`` at the beginning of a command line."""
    text = text.replace("exec verso ", "exec SERVICE ")  # the service of docker compose has the same name
    return set(re.findall(r"(?:^|[|=\w] |')\s*verso ([a-z]+)", text, flags=re.MULTILINE))


def test_the_distribution_has_a_console_script() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["verso"].partition(":")
    assert getattr(importlib.import_module(module), function) is main
    assert project["name"] == DISTRIBUTION != "verso"


def test_verso_has_the_commands_of_the_service_and_all_of_the_model() -> None:
    names = [command.name for command in COMMANDS]
    assert len(set(names)) == len(names)
    assert {command.name for command in table.COMMANDS} < set(names)
    assert "serve" in names
    for command in COMMANDS:
        assert command.module.rpartition(".")[2].rstrip("_") == command.name
    modules = {path.stem for path in (ROOT / "model" / "commands").glob("*.py")} - {
        "__init__",
        "table",
        "models",
        "bulk",
    }
    assert {command.module for command in table.COMMANDS} == {f"model.commands.{name}" for name in modules}


def test_help_lists_every_command_with_a_description_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    output = help_of(capsys)
    assert "positional arguments" not in output
    for command in COMMANDS:
        assert f"{command.group}:\n" in output
        assert re.search(
            rf"^  {command.name} +{re.escape(command.help)}\n +{re.escape(command.example)}$", output, re.M
        )
        assert f"verso {command.name}" in command.example


@EVERY_COMMAND
def test_the_help_of_a_command_names_it_and_has_an_example(
    command: table.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    output = help_of(capsys, command.name)
    assert output.startswith(f"usage: verso {command.name} ")
    assert "example" in output
    assert "python -m" not in output
    examples = commands_named(output.partition("example")[2])
    assert command.name in examples
    assert examples <= {command.name for command in COMMANDS}


def test_help_and_version_import_neither_torch_nor_the_service() -> None:
    code = (
        "import sys; from app.commands.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'pydantic', 'uvicorn', 'fastapi', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    for arguments in (["--help"], ["--version"]):
        run = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        assert "verso" in run.stdout


def test_the_help_of_every_command_answers_without_torch() -> None:
    code = (
        "import sys; from app.commands.main import COMMANDS, main\n"
        "for command in COMMANDS:\n"
        "    try: main([command.name, '--help'])\n"
        "    except SystemExit: pass\n"
        "    assert not {'torch', 'fastapi'} & set(sys.modules), command.name"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=PATIENCE_S, check=True, stdout=subprocess.DEVNULL)


def test_serving_imports_no_command_of_the_model() -> None:
    code = "import sys, app.__main__; assert not [name for name in sys.modules if name.startswith('model.commands')]"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=PATIENCE_S, check=True)


def test_without_a_command_the_help_is_printed_and_the_exit_code_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "verso serve" in capsys.readouterr().err


def test_an_unknown_command_is_refused_with_exit_code_2() -> None:
    run = verso("trnslate")
    assert run.returncode == 2
    assert "'trnslate'" in run.stderr and "'translate'" in run.stderr
