"""Confidence: the probabilities of words against the model's own softmax, spans, uncovered words, calibrated scores."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from model import TranslationOptions, Translator
from model.artifacts.bundle import Bundle, load_bundle
from model.decoding.eager import teacher_forcing
from model.decoding.options import Hypothesis
from model.errors import ArtifactError
from model.translation.confidence import (
    NOTHING_TRANSLATED,
    UNCALIBRATED,
    Calibration,
    Confidence,
    Evidence,
    Feature,
    word_confidences,
    word_gains,
)
from model.translation.results import Translation

TEXT = "red cat sees old dog."


@pytest.fixture(scope="module")
def bundle(toy_bundle: Path) -> Bundle:
    return load_bundle(toy_bundle, "cpu")


@pytest.fixture(scope="module")
def translator(bundle: Bundle) -> Translator:
    return Translator(bundle)


def with_manifest(bundle: Bundle, **changes: Any) -> Translator:
    return Translator(replace(bundle, manifest=replace(bundle.manifest, **changes)))


def translate(translator: Translator, text: str, **options: Any) -> tuple[Translation, Confidence]:
    (translation,) = translator.translate([text], TranslationOptions(**options), target="de", return_confidence=True)
    assert translation.confidence is not None
    return translation, translation.confidence


def log_softmax_of(bundle: Bundle, source: list[int], target: list[int]) -> Tensor:
    """Log-probability of each token of a target, computed with torch from the logits of a single pair."""
    inputs = torch.tensor([[bundle.tokenizer.start_id, *target[:-1]]])
    with torch.inference_mode():
        logits = bundle.module.forward(torch.tensor([source]), inputs)
    return logits[0].log_softmax(dim=-1)[torch.arange(len(target)), torch.tensor(target)]


def made_of(log_probs: list[float], gains: list[float] | None = None) -> Evidence:
    """The evidence of a translation of 12 characters; each token is a word."""
    return Evidence(torch.tensor(log_probs), None if gains is None else torch.tensor(gains), 10, 12, tuple(log_probs))


def test_a_word_has_the_product_of_the_probabilities_of_its_tokens(bundle: Bundle, translator: Translator) -> None:
    plan = translator.prepare(TEXT, "en", "de")
    translator.decode([plan])
    target = [*plan.hypotheses[0].token_ids, bundle.tokenizer.end_id]
    log_probs = log_softmax_of(bundle, plan.sentences[0].token_ids, target)
    by_word: list[float] = []
    for piece, log_prob in zip(bundle.tokenizer.target_pieces(target[:-1]), log_probs.tolist(), strict=False):
        if piece.startswith("\u2581"):
            by_word.append(0.0)
        by_word[-1] += log_prob
    translation, confidence = translate(translator, TEXT)
    assert len(by_word) == len(translation.text.split()) < len(target) - 1, "some words have several tokens"
    assert [word.probability for word in confidence.words] == pytest.approx(
        [math.exp(logarithm) for logarithm in by_word], abs=1e-4
    )
    assert confidence.score == pytest.approx(math.exp(log_probs.mean()), abs=1e-4)


def test_without_calibration_the_score_is_the_one_of_the_decoder(translator: Translator) -> None:
    for text in (TEXT, "tree.", "house likes red dog."):
        translation, confidence = translate(translator, text, return_scores=True)
        assert translation.score is not None, "mean log-probability of the tokens"
        assert confidence.score == pytest.approx(math.exp(translation.score), abs=1e-3)


def test_the_words_are_those_between_white_space(translator: Translator) -> None:
    text = "  red cat.  old\n dog likes tree.\n\n"
    translation, confidence = translate(translator, text)
    assert [translation.text[slice(*word.target)] for word in confidence.words] == translation.text.split()
    assert all(0.0 <= word.probability <= 1.0 for word in confidence.words)


def test_a_translation_is_the_same_with_and_without_confidence(translator: Translator) -> None:
    texts = [TEXT, "", "tree. house likes red dog."]
    plain = translator.translate(texts, target="de")
    translations = translator.translate(texts, target="de", return_confidence=True)
    assert [translation.confidence for translation in plain] == [None] * 3
    assert [replace(translation, confidence=None) for translation in translations] == plain


def test_the_score_of_a_text_is_the_mean_of_its_sentences_weighted_by_tokens(translator: Translator) -> None:
    first, second = "cat.", "old dog sees house."
    weights = []
    scores = []
    for text in (first, second):
        translation, confidence = translate(translator, text)
        weights.append(translation.num_target_tokens + 1)
        scores.append(confidence.score)
    _, full = translate(translator, f"{first} {second}")
    expected = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
    assert full.score == pytest.approx(expected, abs=1e-3)


def test_a_text_without_words_to_translate_is_certain(translator: Translator) -> None:
    for text in ("", " \n", "42 — 7"):
        assert translate(translator, text)[1] == NOTHING_TRANSLATED


def test_a_cut_translation_has_no_end_token(bundle: Bundle, translator: Translator) -> None:
    plan = translator.prepare(TEXT, "en", "de", TranslationOptions(max_new_tokens=3))
    translator.decode([plan])
    (hypothesis,) = plan.hypotheses
    assert hypothesis.finish_reason == "length"
    (confidences,) = translator.confidence(plan)
    expected = log_softmax_of(bundle, plan.sentences[0].token_ids, hypothesis.token_ids)
    torch.testing.assert_close(confidences.log_probs, expected, atol=1e-5, rtol=0)


def test_an_answer_that_is_cut_before_its_first_token_has_the_confidence_zero(bundle: Bundle) -> None:
    translator = with_manifest(bundle, decoding={"force_end": True})
    translation, confidence = translate(translator, TEXT, max_new_tokens=1)
    assert (translation.text, translation.num_target_tokens) == ("", 0)
    assert (confidence.score, confidence.words) == (0.0, ())


@pytest.mark.parametrize("calibration", [Calibration(), Calibration(0.5, {"mean_probability": 1.0})])
def test_an_empty_answer_counts_as_one_token_in_the_score_of_a_text(calibration: Calibration) -> None:
    full, empty = made_of([-0.1, -0.2, -0.3]), Evidence(torch.empty(0), None, 10, 0, ())
    assert calibration.sentence_score(empty) == 0.0
    expected = calibration.sentence_score(full) * 3 / 4
    assert calibration.text_score([full, empty]) == pytest.approx(expected, abs=1e-4)


def test_words_in_capitals_have_their_own_spans(bundle: Bundle) -> None:
    folding = with_manifest(bundle, fold_capitals=True)
    translation, confidence = translate(folding, "RED CAT SEES OLD DOG. tree.")
    assert translation.text.split()[0].isupper()
    assert [translation.text[slice(*word.target)] for word in confidence.words] == translation.text.split()
    small = translate(folding, "Red cat sees old dog. tree.")[1]
    assert [word.probability for word in confidence.words] == [word.probability for word in small.words]


def test_sentences_have_the_same_evidence_by_each_back_end_and_in_any_batch(
    toy_bundle: Path, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = translator.prepare("red cat. old dog likes tree. house.", "en", "de")
    translator.decode([plan])
    confidences = translator.confidence(plan)
    by_torch = Translator.load(toy_bundle, native=False)
    together = by_torch.confidence(plan)
    monkeypatch.setattr(teacher_forcing, "_LOGITS_AT_ONCE", 1)
    for other in (together, by_torch.confidence(plan)):
        for first, same in zip(confidences, other, strict=True):
            torch.testing.assert_close(first.log_probs, same.log_probs, atol=1e-4, rtol=0)
            assert first.gains is not None and same.gains is not None
            torch.testing.assert_close(first.gains, same.gains, atol=1e-4, rtol=0)


def test_gains_compare_the_source_given_the_translation_with_the_source_given_nothing(
    bundle: Bundle, translator: Translator
) -> None:
    plan = translator.prepare(TEXT, "en", "de")
    translator.decode([plan])
    source = plan.sentences[0].token_ids
    tokenizer = bundle.tokenizer
    answer = tokenizer.encode(tokenizer.decode(plan.hypotheses[0].token_ids), "en", "de")
    with_answer = log_softmax_of(bundle, answer, source[1:-1])
    without = log_softmax_of(bundle, tokenizer.encode("", "en", "de"), source[1:-1])
    (confidences,) = translator.confidence(plan)
    assert confidences.gains is not None
    torch.testing.assert_close(confidences.gains[1:-1], with_answer - without, atol=1e-4, rtol=0)
    assert confidences.gains[[0, -1]].isinf().all(), "markers"


def test_a_word_that_the_translation_leaves_out_is_uncovered(bundle: Bundle, translator: Translator) -> None:
    text = "red cat sees old house."
    plan = translator.pipeline.prepare(text, "en", "de", TranslationOptions())
    plan.settle([Hypothesis(bundle.tokenizer.encode_target("rot Katze sieht Haus.")[:-1], None, "stop")])
    gains = {text[slice(*span)]: gain for span, gain in plan.source_gains(translator.confidence(plan))}
    assert list(gains) == text.split()
    assert min(gains, key=gains.__getitem__) == "old"
    bound = sum(sorted(gains.values())[:2]) / 2
    marking = with_manifest(bundle, confidence={"coverage_bound": bound})
    twice = marking.prepare(f"tree.\n  {text}", "en", "de")
    tree = Hypothesis(bundle.tokenizer.encode_target("Baum.")[:-1], None, "stop")
    twice.settle([tree, plan.hypotheses[0]])
    confidence = twice.complete(evidence=marking.confidence(twice)).confidence
    assert confidence is not None and confidence.uncovered is not None
    assert [twice.text[slice(*span)] for span in confidence.uncovered] == ["old"]


def test_a_model_that_does_not_translate_back_knows_no_uncovered_words(bundle: Bundle) -> None:
    one_way = with_manifest(bundle, pairs=(("en", "de"),))
    confidence = translate(one_way, TEXT)[1]
    assert confidence.uncovered is None
    assert confidence.words == translate(Translator(bundle), TEXT)[1].words
    assert translate(one_way, " ")[1] == NOTHING_TRANSLATED


def test_a_translation_longer_than_the_encoder_is_scored(bundle: Bundle, translator: Translator) -> None:
    plan = translator.prepare("cat.", "en", "de")
    most = bundle.manifest.max_target_tokens
    # Encoded as a source it has a marker and an end token besides.
    ids = bundle.tokenizer.encode_target("Katze " * most)[: most - 1]
    plan.settle([Hypothesis(ids, None, "length")])
    (confidences,) = translator.confidence(plan)
    assert len(confidences.log_probs) == most - 1
    assert confidences.gains is not None and confidences.gains[1:-1].isfinite().all()


def test_bytes_and_spaces_belong_to_the_word_they_make() -> None:
    # "Ende" | " " | three bytes that cover nothing | the last byte, which covers the character | "."
    spans = [(0, 4), (5, 5), (5, 5), (5, 5), (5, 5), (5, 6), (6, 7)]
    log_probs = [-1.0, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6, -9.0]
    words = list(word_confidences(made_of(log_probs), "Ende 🎉.", spans, 100))
    assert [word.target for word in words] == [(100, 104), (105, 107)]
    assert [word.probability for word in words] == pytest.approx([math.exp(-1.0), math.exp(-2.1)], abs=1e-4)


def test_punctuation_alone_is_never_uncovered() -> None:
    spans = [(0, 0), (0, 1), (2, 3), (4, 5), (5, 5)]
    evidence = made_of([-1.0], [math.inf, -5.0, -5.0, 1.0, math.inf])
    assert list(word_gains(evidence, "a – b", spans, 7)) == [((7, 8), -5.0), ((11, 12), 1.0)]
    assert list(word_gains(made_of([-1.0]), "a – b", spans, 0)) == []


def test_a_calibrated_score_is_the_logistic_function_of_the_features() -> None:
    evidence = made_of([math.log(0.5), math.log(0.25)], [math.inf, 2.0, 4.0, math.inf])
    features: dict[Feature, float] = {
        "weakest_words": math.log(0.125) / 2,
        "weakest_word_probability": 0.25,
        "weakest_gain": 2.0,
        "mean_probability": 0.375,
        "log_prob_per_character": math.log(0.125) / 13,
        "log_source_characters": math.log(11),
        "log_length_ratio": math.log(13 / 11),
        "mean_gain": 3.0,
    }
    assert evidence.features() == pytest.approx(features, abs=1e-6)
    weights = dict(zip(features, (0.9, 4.0, 0.2, 2.0, 3.0, -0.5, 0.7, 0.1), strict=True))
    logit = -1.0 + sum(weights[name] * value for name, value in features.items())
    assert Calibration(-1.0, weights).sentence_score(evidence) == pytest.approx(1 / (1 + math.exp(-logit)))
    assert UNCALIBRATED.sentence_score(evidence) == pytest.approx(math.sqrt(0.125))
    for extreme in (-1e6, 1e6):
        assert Calibration(extreme, weights).sentence_score(evidence) in (0.0, 1.0)


def test_calibrations_of_earlier_releases_keep_their_scores(bundle: Bundle) -> None:
    weights = {
        "mean_probability": 6.0,
        "log_prob_per_character": 2.5,
        "log_source_characters": 1.7,
        "log_length_ratio": 1.4,
        "mean_gain": 0.3,
    }
    earlier = with_manifest(bundle, confidence={"intercept": -9.0, "weights": weights, "adequate_chrf": 30.0})
    plan = earlier.prepare(TEXT, "en", "de")
    earlier.decode([plan])
    (evidence,) = earlier.confidence(plan)
    assert evidence.gains is not None
    source, target = len(TEXT) + 1, len(plan.complete().text) + 1
    logit = (
        -9.0
        + 6.0 * float(evidence.log_probs.exp().mean())
        + 2.5 * float(evidence.log_probs.sum()) / target
        + 1.7 * math.log(source)
        + 1.4 * math.log(target / source)
        + 0.3 * float(evidence.gains[1:-1].mean())
    )
    assert plan.score_of([evidence]) == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-4)


def test_a_translation_is_as_weak_as_its_three_weakest_words() -> None:
    strong = [-0.1] * 5
    (one,), (two,) = (
        [made_of(log_probs).features()] for log_probs in ([*strong, -2.0], [*strong, *strong, -0.1, -2.0])
    )
    assert one["weakest_words"] == pytest.approx((-2.0 - 0.1 - 0.1) / 3) == two["weakest_words"]
    assert made_of([-1.0]).features()["weakest_words"] == pytest.approx(-1.0), "fewer than three words"
    excluded = made_of([-1e9], [math.inf, -1e9, 0.5, math.inf]).features()
    assert [excluded["weakest_words"], excluded["weakest_gain"]] == pytest.approx([math.log(1e-4), -10.0])


def test_the_words_of_the_evidence_are_those_of_the_answer(translator: Translator) -> None:
    plan = translator.prepare(TEXT, "en", "de")
    translator.decode([plan])
    (evidence,) = translator.confidence(plan)
    _, confidence = translate(translator, TEXT)
    assert [math.exp(log_prob) for log_prob in evidence.word_log_probs] == pytest.approx(
        [word.probability for word in confidence.words], abs=1e-4
    )


def test_a_rescaled_calibration_ranks_alike() -> None:
    evidence = [made_of([-0.1 * number], [1.0 + number]) for number in range(1, 5)]
    calibration = Calibration(1.0, {"weakest_words": 2.0, "weakest_gain": 0.5}, coverage_bound=0.7)
    rescaled = calibration.rescaled(0.3, 2.0)
    assert [rescaled.logit(item) for item in evidence] == pytest.approx(
        [0.3 + 2.0 * calibration.logit(item) for item in evidence]
    )
    assert rescaled.coverage_bound == 0.7


def test_a_calibration_in_the_manifest_is_used(bundle: Bundle) -> None:
    certain = with_manifest(
        bundle, confidence={"intercept": 2.0, "weights": {"mean_probability": 0.0}, "more": "facts"}
    )
    assert translate(certain, TEXT)[1].score == pytest.approx(1 / (1 + math.exp(-2.0)), abs=1e-4)


def test_a_calibration_round_trips_through_the_manifest(bundle: Bundle) -> None:
    calibration = Calibration(0.5, {"mean_gain": 1.0, "mean_probability": -2.0}, -0.25)
    assert replace(bundle.manifest, confidence=asdict(calibration)).calibration == calibration
    assert replace(bundle.manifest, confidence={}).calibration == UNCALIBRATED


@pytest.mark.parametrize(
    ("confidence", "fault"),
    [
        ({"weights": {"beauty": 1.0}}, "wrong: weights.beauty.*; upgrade Verso"),
        ({"weights": [1.0]}, "wrong: weights"),
        ({"weights": {"mean_gain": "much"}}, "wrong: weights.mean_gain"),
        ({"intercept": None}, "wrong: intercept"),
    ],
)
def test_a_calibration_that_cannot_be_read_is_refused(confidence: dict[str, Any], fault: str, bundle: Bundle) -> None:
    with pytest.raises(ArtifactError, match=f"confidence is {fault}"):
        _ = replace(bundle.manifest, confidence=confidence).calibration
