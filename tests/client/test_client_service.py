"""The client and a real application over a socket: every route, and the fields that both know."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

import verso_client
from app.http.schemas import (
    answers,
    attention,
    documents,
    memory_fields,
    models,
    problems,
    requests,
    sentences,
    translation,
)
from app.serving.detection import Detection
from model.errors import SourceTooLong
from tests.app.serving import RoteService, rote_app
from tests.client.driving import Driver
from tests.client.served import served
from verso_client import FailedTranslation, ProblemError, TextFailed

BODIES: dict[type, type[BaseModel]] = {
    verso_client.Alternative: translation.AlternativeBody,
    verso_client.AlignmentLink: translation.AlignmentLinkBody,
    verso_client.Attention: attention.AttentionResponse,
    verso_client.Candidate: answers.CandidateBody,
    verso_client.Capabilities: models.CapabilitiesBody,
    verso_client.ChangedSentences: sentences.ChangedSentencesBody,
    verso_client.Confidence: translation.ConfidenceBody,
    verso_client.Detected: answers.DetectedBody,
    verso_client.Document: documents.DocumentBody,
    verso_client.DocumentSentence: sentences.SentenceBody,
    verso_client.Done: translation.DoneEvent,
    verso_client.FailedTranslation: translation.FailedTranslationBody,
    verso_client.FieldProblem: problems.FieldProblemBody,
    verso_client.Integrity: translation.IntegrityBody,
    verso_client.Limits: models.LimitsBody,
    verso_client.Matrices: attention.AttentionMatrices,
    verso_client.MemoryCounts: documents.MemoryCountsBody,
    verso_client.MemoryUse: memory_fields.MemoryUseBody,
    verso_client.Model: models.ModelBody,
    verso_client.NumberUse: translation.NumberUseBody,
    verso_client.Problem: problems.InvalidRequestBody,
    verso_client.SearchStep: answers.SearchStepBody,
    verso_client.Sentence: translation.SentenceEvent,
    verso_client.SentenceCounts: documents.SentencesBody,
    verso_client.SentenceEdit: sentences.SentenceChangeBody,
    verso_client.SentencePage: sentences.SentencesPageBody,
    verso_client.SpanUse: translation.SpanUseBody,
    verso_client.TermUse: translation.TermUseBody,
    verso_client.Timings: translation.TimingsBody,
    verso_client.TranslateAnswer: translation.TranslateResponse,
    verso_client.TranslatedText: translation.TranslationEvent,
    verso_client.Translation: translation.TranslationBody,
    verso_client.Usage: translation.UsageBody,
    verso_client.Via: translation.ViaBody,
    verso_client.WordConfidence: translation.WordConfidenceBody,
}


@pytest.fixture
def service() -> RoteService:
    return RoteService()


@pytest.fixture
def url(service: RoteService) -> Iterator[str]:
    """The address of an application with predefined answers."""
    with served(rote_app(service), lifespan="off") as address:
        yield address


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_every_field_of_an_answer_has_a_field_in_the_client(kind: Any) -> None:
    ours = {field.name for field in dataclasses.fields(kind)}
    assert ours - {"request_id"} == set(BODIES[kind].model_fields) - {"type"}


def test_every_field_of_a_request_is_an_option_of_the_client() -> None:
    translate = set(requests.TranslateRequest.model_fields) - {"text"}
    assert set(verso_client.TranslateOptions.__annotations__) == translate
    assert set(verso_client.MemoryOptions.__annotations__) == set(documents.DocumentRequest.model_fields)
    assert set(verso_client.AttentionOptions.__annotations__) == set(requests.AttentionRequest.model_fields) - {"text"}


def test_what_is_asked_for_comes_back(driver: Driver, url: str, service: RoteService) -> None:
    result = driver.run(
        url,
        lambda client: client.translate(
            "good",
            target="de",
            num_hypotheses=2,
            return_scores=True,
            return_alignment=True,
            return_confidence=True,
            protect=["x+"],
            glossary=[{"source": "a", "target": "b"}],
            target_prefix="GO",
            return_search=True,
        ),
    )
    (translation,) = result.results
    assert result.text == "GOOD"
    assert translation.alternatives[0].text == "good 1"
    assert translation.score == -0.5
    assert translation.alignment[0].source == (0, 1)
    assert translation.confidence.words[0].target == (0, 4)
    assert translation.integrity.spans[0].restored
    assert translation.glossary[0].status == "used"
    assert result.request_id
    assert service.calls[0]["options"].glossary[0].target == "b"
    assert service.calls[0]["options"].target_prefix == "GO"
    first, second = translation.search
    assert [hypothesis.text for hypothesis in first.hypotheses] == ["Gu", "Ha"]
    assert (second.step, second.hypotheses[0].parent, second.hypotheses[0].finished) == (1, 1, True)


def test_a_text_fails_alone(driver: Driver, url: str, service: RoteService) -> None:
    service.errors["long"] = SourceTooLong(99, 64)
    result = driver.run(url, lambda client: client.translate(["a", "long"], target="de"))
    assert isinstance(result.translations[1], FailedTranslation)
    with pytest.raises(TextFailed) as caught:
        result.texts  # noqa: B018 - it raises
    assert caught.value.request_id == result.request_id
    with pytest.raises(ProblemError) as refused:
        driver.run(url, lambda client: client.translate("long", target="de"))
    assert (refused.value.code, refused.value.status) == ("source_too_long", 422)


def test_the_id_of_a_refused_request_and_its_fields_are_those_of_the_service(driver: Driver, url: str) -> None:
    with pytest.raises(ProblemError) as caught:
        driver.run(url, lambda client: client.translate("a", target="de", beam_size=0))
    assert caught.value.errors[0].field == "beam_size"
    assert re.fullmatch("[0-9a-f]{32}", caught.value.request_id or "")


def test_a_loading_service_is_asked_again(driver: Driver, url: str, service: RoteService) -> None:
    service.state = "loading"
    with pytest.raises(ProblemError) as caught:
        driver.run(url, lambda client: client.models())
    assert caught.value.code == "not_ready"
    assert len(driver.slept) == 3
    assert min(driver.slept) >= 5.0


def test_attention_is_the_same_as_json_and_as_arrays(driver: Driver, url: str) -> None:
    request = {"target": "de", "kinds": ["encoder", "cross"], "layers": [1]}
    result = driver.run(url, lambda client: client.attention("two words", **request))
    arrays = driver.run(url, lambda client: client.attention_arrays("two words", **request))
    assert result.decoder is None
    np.testing.assert_allclose(np.array(result.cross.weights), arrays["cross"], atol=1e-6)
    assert arrays["cross"].shape == (1, 4, 2, 2)
    assert list(arrays["source_tokens"]) == list(result.source_tokens) == ["two", "words"]


def test_steps_are_the_same_as_json_and_as_arrays(driver: Driver, url: str) -> None:
    request = {"target": "de", "steps": {"kind": "decoder", "layer": 0, "head": 1}}
    steps = driver.run(url, lambda client: client.attention("two words", **request)).steps
    arrays = driver.run(url, lambda client: client.attention_arrays("two words", **request))
    np.testing.assert_allclose(np.array(steps.result), arrays["steps_result"], atol=1e-6)
    assert [row[-1] for row in steps.masked] == [None, None]
    assert np.isneginf(arrays["steps_masked"]).tolist() == [[False, True]] * 2
    assert (steps.kind, steps.normed_output, "steps_normed_output" in arrays) == ("decoder", None, False)


def test_the_language_of_a_text_is_detected(driver: Driver, url: str, service: RoteService) -> None:
    service.detected = Detection("en", 0.9, ("en",))
    result = driver.run(url, lambda client: client.detect("good"))
    assert (result.language, result.confidence) == ("en", 0.9)
    assert service.calls[0]["texts"] == ["good"]
    service.detected = None
    assert driver.run(url, lambda client: client.detect("!")) is None
