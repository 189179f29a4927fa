from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch

from model import TranslationOptions, Translator
from model.artifacts.bundle import load_bundle
from model.errors import (
    EmptySource,
    InvalidPrefix,
    SeveralSentences,
    SourceTooLong,
    TargetTooLong,
    UnknownHead,
)
from model.network.heads import AttentionHead, AttentionKind


@pytest.fixture(scope="module", params=["compiled", "torch", "slots"])
def translator(toy_bundle: Path, request: pytest.FixtureRequest) -> Translator:
    """One for each back-end; without a compiler both use torch."""
    bundle = load_bundle(toy_bundle, "cpu")
    return Translator(bundle, native=request.param == "compiled", slots=request.param == "slots")


def test_the_toy_was_learned(translator: Translator) -> None:
    (translation,) = translator.translate(["red cat sees old dog."], target="de")
    assert translation.text == "rot Katze sieht alt Hund."
    assert (translation.source, translation.target, translation.finish_reason, translation.score) == (
        "en",
        "de",
        "stop",
        None,
    )
    (back,) = translator.translate(["Baum mag Haus."], TranslationOptions(decoding="greedy"), target="en")
    assert back.text == "tree likes house."


def test_a_sentence_over_the_limit_is_split_and_nothing_is_lost(translator: Translator) -> None:
    text = "cat sees, dog likes house " * 20 + "x" * 200
    plan = translator.prepare(text, "en", "de")
    limit = translator.manifest.max_source_tokens
    assert all(len(sentence.token_ids) <= limit for sentence in plan.sentences)
    stored = "".join(text[sentence.start : sentence.end] for sentence in plan.sentences)
    assert stored.replace(" ", "") == text.replace(" ", "")
    (translation,) = translator.translate([text], target="de")
    assert len(translation.text.split()) >= len(plan.sentences)


def test_a_text_of_n_sentences_scores_the_mean_weighted_by_tokens(translator: Translator) -> None:
    options = TranslationOptions(return_scores=True, num_hypotheses=3)
    text, first, second = translator.translate(
        ["cat sees dog. old tree likes red house.", "cat sees dog.", "old tree likes red house."], options, target="de"
    )
    assert text.text == f"{first.text} {second.text}"
    weights = (first.num_target_tokens + 1, second.num_target_tokens + 1)
    assert first.score is not None
    assert second.score is not None
    expected = (first.score * weights[0] + second.score * weights[1]) / sum(weights)
    assert text.score == pytest.approx(expected, abs=1e-5)
    assert len(text.alternatives) == 2
    for rank, alternative in enumerate(text.alternatives):
        assert alternative.text == f"{first.alternatives[rank].text} {second.alternatives[rank].text}"


def test_a_truncated_sentence_marks_its_text(translator: Translator) -> None:
    (translation,) = translator.translate(
        ["cat. red dog sees house."], TranslationOptions(max_new_tokens=3), target="de"
    )
    assert translation.finish_reason == "length"


def test_an_alignment_links_to_the_translated_words(translator: Translator) -> None:
    text = "red cat.  old\n dog likes tree."
    (translation,) = translator.translate([text], target="de", return_alignment=True)
    assert translation.alignment is not None
    for link in translation.alignment:
        assert 0 <= link.weight <= 1
        assert text[slice(*link.source)].strip() == text[slice(*link.source)] != ""
        assert translation.text[slice(*link.target)] != ""
    assert translation.alignment[-1].target[1] == len(translation.text)


def test_tokens_in_tokens_out(translator: Translator) -> None:
    plan = translator.prepare("red cat.", "en", "de")
    plan.settle(translator.translate_tokens([plan.sentences[0].token_ids]))
    assert plan.complete().text == "rot Katze."
    with pytest.raises(EmptySource):
        translator.translate_tokens([[]])
    with pytest.raises(SourceTooLong, match="25 tokens and this model accepts 24"):
        translator.translate_tokens([[5] * 25])


def test_attention_rows_sum_to_one(translator: Translator) -> None:
    attention = translator.attention("red cat sees dog.", target="de")
    assert attention.translation == "rot Katze sieht Hund."
    rows, columns = len(attention.target_tokens), len(attention.source_tokens)
    assert attention.encoder.shape == (1, 2, columns, columns)
    assert attention.decoder.shape == (1, 2, rows, rows)
    assert attention.cross.shape == (1, 2, rows, columns)
    for weights in (attention.encoder, attention.decoder, attention.cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert (attention.decoder[0].triu(diagonal=1) == 0).all()
    assert attention.target_tokens[-1] == "</s>"
    assert attention.decoder_input_tokens == ["<s>", *attention.target_tokens[:-1]]


def test_attention_of_a_given_translation(translator: Translator) -> None:
    attention = translator.attention("red cat.", target="de", target_text="Baum Baum")
    assert attention.translation == "Baum Baum"
    assert attention.cross.shape[2] == len(attention.target_tokens)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_attention_shows_the_steps_of_a_head(translator: Translator, kind: AttentionKind) -> None:
    attention = translator.attention("red cat sees dog.", target="de", steps=AttentionHead(kind, 0, 1))
    assert attention.steps is not None
    torch.testing.assert_close(attention.steps["weights"], getattr(attention, kind)[0, 1], atol=1e-6, rtol=0)
    rows, columns = attention.labels(kind)
    assert attention.steps["embedding"].shape == (len(rows), translator.manifest.architecture["d_model"])
    assert attention.steps["scores"].shape == (len(rows), len(columns))
    assert torch.isneginf(attention.steps["masked"]).equal(
        torch.ones(len(rows), len(columns)).triu(diagonal=1).bool()
        if kind == "decoder"
        else torch.zeros(len(rows), len(columns)).bool()
    )
    assert translator.attention("red cat sees dog.", target="de").steps is None


def test_the_position_of_a_row_is_that_of_its_decoder_input_token(translator: Translator) -> None:
    attention = translator.attention(
        "cat.", target="de", target_text="Katze Katze", steps=AttentionHead("decoder", 0, 0)
    )
    assert attention.steps is not None
    same = [index for index, token in enumerate(attention.decoder_input_tokens) if token.endswith("Katze")]
    assert len(same) == 2
    torch.testing.assert_close(attention.steps["embedding"][same[0]], attention.steps["embedding"][same[1]])
    assert not torch.equal(attention.steps["position"][same[0]], attention.steps["position"][same[1]])


@pytest.mark.parametrize(("layer", "head", "part"), [(1, 0, "layer 1"), (0, 2, "head 2")])
def test_steps_of_a_head_that_does_not_exist_are_refused(
    translator: Translator, layer: int, head: int, part: str
) -> None:
    with pytest.raises(UnknownHead, match=part):
        translator.attention("red cat.", target="de", steps=AttentionHead("cross", layer, head))


def test_attention_refuses_what_is_not_one_sentence_of_the_right_length(translator: Translator) -> None:
    with pytest.raises(EmptySource):
        translator.attention(" \n", target="de")
    with pytest.raises(SeveralSentences, match="2 sentences"):
        translator.attention("Red cat. Old dog.", target="de")
    with pytest.raises(SourceTooLong):
        translator.attention("cat " * 30, target="de")
    with pytest.raises(TargetTooLong):
        translator.attention("cat", target="de", target_text="Katze " * 80)


def test_many_texts_give_the_outputs_of_single_texts(translator: Translator) -> None:
    texts = ["red cat.", "old dog likes tree. house.", "", "tree sees house."] * 5
    together = translator.translate(texts, target="de")
    assert [result.text for result in together[:4]] * 5 == [result.text for result in together]
    assert [translator.translate([text], target="de")[0].text for text in texts[:4]] == [
        result.text for result in together[:4]
    ]


def test_each_text_may_have_options_of_its_own(translator: Translator) -> None:
    each = [TranslationOptions(), TranslationOptions(max_new_tokens=1)]
    translation, cut = translator.translate(["red cat sees old dog."] * 2, each, target="de")
    assert (translation.text, translation.finish_reason) == ("rot Katze sieht alt Hund.", "stop")
    assert cut.finish_reason == "length"
    with pytest.raises(ValueError, match="shorter"):
        translator.translate(["cat"] * 3, each, target="de")


def test_warming_up_leaves_no_state(translator: Translator) -> None:
    translator.warm_up([1, 3])
    assert translator.translate(["cat."], target="de")[0].text == "Katze."


@pytest.mark.parametrize("protect", ["auto", "none"])
@pytest.mark.parametrize("text", ["red ca\udfff", "ca\ud800"])
def test_unpaired_surrogates_are_translated_like_any_unknown_character(
    text: str, protect: Literal["auto", "none"], toy_bundle: Path
) -> None:
    translator = Translator(load_bundle(toy_bundle))
    options = TranslationOptions(protect=protect, return_alignment=True, max_new_tokens=5)
    (translation,) = translator.translate([text], options, "en", "de")
    translation.text.replace("\ud800", "").replace("\udfff", "").encode()
    with pytest.raises(InvalidPrefix):
        translator.translate([text], TranslationOptions(target_prefix="\udbff"), "en", "de")
