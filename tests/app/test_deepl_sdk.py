"""DeepL's own SDK for Python against a running service; nothing but the address is changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deepl
import pytest
from deepl.api_data import ModelType, MultilingualGlossaryDictionaryEntries

from tests.app.memories.test_tmx import HEAD, TAIL, tu
from tests.app.process import Process, running
from tests.waiting import until

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running() as process:
        process.wait_until_ready()
        yield process.address


@pytest.fixture
def client(address: str) -> Iterator[deepl.DeepLClient]:
    client: Any = deepl.DeepLClient("any key", server_url=address)
    client._client._session.trust_env = False
    yield client
    client.close()


def test_texts_are_translated(client: deepl.DeepLClient) -> None:
    item = client.translate_text("Good morning.", source_lang="EN", target_lang="DE")
    assert isinstance(item, deepl.TextResult)
    assert (item.text, item.detected_source_lang, item.billed_characters) == ("GOOD MORNING.", "EN", 13)
    several = client.translate_text(["a", "b"], source_lang="DE", target_lang="EN-GB", context="Letters.")
    assert isinstance(several, list)
    assert [result.text for result in several] == ["A", "B"]


def test_all_options_are_taken(client: deepl.DeepLClient) -> None:
    result = client.translate_text(
        '<p>one <x id="12"></x> two</p><raw>three</raw>',
        source_lang="EN",
        target_lang="DE",
        split_sentences=deepl.SplitSentences.NO_NEWLINES,
        preserve_formatting=True,
        formality=deepl.Formality.PREFER_LESS,
        tag_handling="xml",
        tag_handling_version="v2",
        outline_detection=False,
        non_splitting_tags="span",
        splitting_tags=["p"],
        ignore_tags=["raw", "x"],
        model_type=ModelType.QUALITY_OPTIMIZED,
        extra_body_parameters={"debug": "1"},
    )
    assert isinstance(result, deepl.TextResult)
    assert result.text == '<p>ONE <x id="12"></x> TWO</p><raw>three</raw>'
    assert result.model_type_used == "quality_optimized"


def test_languages_and_usage_are_listed(client: deepl.DeepLClient) -> None:
    sources, targets = client.get_source_languages(), client.get_target_languages()
    assert [(source.code, source.name, source.supports_formality) for source in sources] == [
        ("DE", "German", None),
        ("EN", "English", None),
    ]
    assert [(target.code, target.supports_formality) for target in targets] == [
        ("DE", False),
        ("EN-GB", False),
        ("EN-US", False),
    ]
    before = client.get_usage().character
    assert before.valid and before.count is not None and not before.limit_reached
    client.translate_text("😀 four", source_lang="EN", target_lang="DE")
    assert client.get_usage().character.count == before.count + 6


def test_glossaries_of_both_versions_are_stored_and_used(client: deepl.DeepLClient) -> None:
    assert {(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()} == {
        ("en", "de"),
        ("de", "en"),
    }
    entries = {"artist": "Maler", "prize": "Gewinn"}
    glossary = client.create_glossary("Art", "EN", "DE", entries)
    assert client.get_glossary(glossary.glossary_id).entry_count == 2
    assert client.get_glossary_entries(glossary) == entries
    assert [item.name for item in client.list_glossaries()] == ["Art"]
    result = client.translate_text_with_glossary("The artist", glossary)
    assert isinstance(result, deepl.TextResult)
    assert result.text == "THE Maler"
    client.delete_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)

    both = [
        MultilingualGlossaryDictionaryEntries("EN", "DE", entries),
        MultilingualGlossaryDictionaryEntries("DE", "EN", {"Maler": "artist"}),
    ]
    product = client.create_multilingual_glossary("Both", both)
    more = MultilingualGlossaryDictionaryEntries("EN", "DE", {"fox": "Fuchs"})
    assert client.update_multilingual_glossary_dictionary(product, more).dictionaries[0].entry_count == 3
    assert client.update_multilingual_glossary_name(product, "New").name == "New"
    assert client.replace_multilingual_glossary_dictionary(product, more).entry_count == 1
    (stored,) = client.get_multilingual_glossary_entries(product, "EN", "DE").dictionaries
    assert str(stored.entries) == "fox\tFuchs"
    client.delete_multilingual_glossary_dictionary(product, source_lang="EN", target_lang="DE")
    assert len(client.get_multilingual_glossary(product.glossary_id).dictionaries) == 1
    client.delete_multilingual_glossary(product)
    assert client.list_multilingual_glossaries() == []


def test_translation_memories_are_imported_used_listed_and_exported(
    client: deepl.DeepLClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The SDK looks every 5 seconds whether a job is done.
    monkeypatch.setattr("deepl.deepl_client.time.sleep", lambda _: None)
    source, target = tmp_path / "manuals.tmx", tmp_path / "exported.tmx"
    units = [("Close the lid.", "Deckel zu."), ("Open + close.", "Auf und zu."), ("Other.", "Anderes.")]
    source.write_text(HEAD + "".join(tu(*unit) for unit in units) + TAIL, encoding="utf-8")
    job = client.import_translation_memory_from_filepath(source, display_name="Manuals")
    assert job.result is not None and job.result.skipped_segment_count == 0
    (memory,) = client.list_translation_memories(page=0, page_size=5)
    assert memory.translation_memory_id == job.result.translation_memory_id
    assert (memory.name, memory.segment_count, memory.target_languages) == ("Manuals", 3, ["de"])
    assert memory.source_language == "en-US" and memory.creation_time is not None
    assert client.get_translation_memory(memory).name == "Manuals"

    result = client.translate_text(
        "Close the lid. Now.",
        source_lang="EN",
        target_lang="DE",
        translation_memory=memory,
        translation_memory_threshold=80,
    )
    assert isinstance(result, deepl.TextResult) and result.text == "Deckel zu. NOW."

    first = client.list_translation_memory_segments(memory, page_size=2)
    rest = client.list_translation_memory_segments(memory, page_size=2, page_cursor=first.next_page_cursor)
    segments = [*first, *rest]
    assert [(segment.source_text, segment.targets[0].target_text) for segment in segments] == units
    assert rest.next_page_cursor is None and first.segment_count == 3
    filtered = client.list_translation_memory_segments(memory, filter_text="n + C")
    assert [segment.source_text for segment in filtered] == ["Open + close."]
    assert not len(client.list_translation_memory_segments(memory, filter_text="n + C", filter_case_sensitive=True))

    assert client.export_translation_memory_to_filepath(memory, target).done
    assert "<seg>Deckel zu.</seg>" in target.read_text(encoding="utf-8")
    source.write_text("<tmx>", encoding="utf-8")
    with pytest.raises(deepl.DeepLException, match="not well-formed XML"):
        client.import_translation_memory_from_filepath(source)
    with pytest.raises(deepl.DeepLException):
        client.upload_translation_memory_file(f"{client.server_url}/v3/translation_memories/uploads/wrong", b"x")
    client.delete_translation_memory(memory)
    assert client.list_translation_memories() == []
    with pytest.raises(deepl.DeepLException, match="no translation memory"):
        client.translate_text("a", source_lang="EN", target_lang="DE", translation_memory=memory)


def test_documents_are_translated(client: deepl.DeepLClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The SDK looks every 5 seconds whether a document is done.
    sleep = time.sleep
    monkeypatch.setattr("deepl.translator.time.sleep", lambda _: sleep(0.05))
    source, target = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text("# One\n\n- two `x`\n", encoding="utf-8")
    status = client.translate_document_from_filepath(source, target, source_lang="EN", target_lang="DE")
    assert status.done and status.billed_characters
    assert target.read_text(encoding="utf-8") == "# ONE\n\n- TWO `x`\n"
    with pytest.raises(deepl.DeepLException, match="Invalid file extension"):
        client.translate_document_upload(b"a", filename="a.invalid", target_lang="DE")


def test_errors_are_raised_as_the_sdk_documents_them(client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match=r"target_lang.*not supported"):
        client.translate_text("a", target_lang="XX")
    with pytest.raises(deepl.DeepLException, match="Target language 'EN-US' doesn't support formality"):
        client.translate_text("a", source_lang="DE", target_lang="EN-US", formality="more")
    with pytest.raises(deepl.DeepLException, match="same source"):
        client._create_glossary("Twice", "EN", "DE", "tsv", "a\tb\na\tc")
    client.headers = {"Authorization": "Bearer x"}
    with pytest.raises(deepl.AuthorizationException):
        client.get_usage()


def test_a_client_that_gives_up_and_repeats_gets_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence waits at a gate until the SDK has repeated its request; it is decoded once."""
    monkeypatch.setattr(deepl.http_client, "min_connection_timeout", 0.5)
    repeated = threading.Event()
    with (
        running(FAKE_STEP_GATE=str(tmp_path)) as process,
        ThreadPoolExecutor(1) as pool,
    ):
        process.wait_until_ready()
        client: Any = deepl.DeepLClient("any key", server_url=process.address)
        client._client._session.trust_env = False
        send = client._client._internal_request

        def note(*arguments: Any, **named: Any) -> Any:
            if (tmp_path / "reached").exists():
                repeated.set()
            return send(*arguments, **named)

        monkeypatch.setattr(client._client, "_internal_request", note)
        task = pool.submit(client.translate_text, "one two", source_lang="EN", target_lang="DE")
        until(repeated.is_set, lambda: "a repeated request")
        (tmp_path / "open").touch()
        result = task.result()
        client.close()
        assert isinstance(result, deepl.TextResult) and result.text == "ONE TWO"
        assert sentences_decoded(process) == 1


def sentences_decoded(process: Process) -> int:
    with process.new_client() as client:
        lines = client.get("/metrics").text.splitlines()
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("verso_sentences_total{")))


@pytest.mark.slow
def test_a_request_that_comes_before_the_models_are_loaded_is_answered_when_they_are(tmp_path: Path) -> None:
    gate = tmp_path / "loaded"
    with running(FAKE_LOAD_GATE=str(gate)) as process, ThreadPoolExecutor(1) as pool, process.new_client() as client:
        body = {"text": ["a"], "target_lang": "DE", "source_lang": "EN"}
        headers = {"Authorization": "DeepL-Auth-Key any"}
        task = pool.submit(client.post, "/v2/translate", json=body, headers=headers)
        with process.new_client() as other:
            assert other.get("/readyz").status_code == 503
        gate.touch()
        assert task.result().json()["translations"][0]["text"] == "A"
