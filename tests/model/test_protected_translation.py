"""Protected spans through whole translations: each comes back exactly once, whatever the model writes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from model.artifacts.bundle import Bundle, load_bundle
from model.artifacts.loaded_network import LoadedNetwork
from model.artifacts.manifest import Manifest
from model.artifacts.pretrained import build_pretrained
from model.importing.importer import import_checkpoint
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.glossary import GlossaryTerm
from model.text.symbols import placeholder
from model.text.tokenizer_training import learn_tokenizer
from model.translation.capabilities import Capabilities
from model.translation.options import TranslationOptions
from model.translation.results import Translation
from model.translator import Translator
from tests.model.importing.checkpoints import make_marian

WORDS = ["red", "cat", "sees", "old", "dog", "house,", "likes", "Tree", "(and)", "dog.", "tree!", "cat:", "–"]
SPANS = [
    "{name}", "{{x}}", "${x}", "%s", "%1$s", "%(x)d", '<x id="1"/>', "<b>", "</b>", "\\n", "@user", "#tag", ":smile:",
    "https://example.com/a_(b)?c=d&e", "www.example.com", "me@example.com", "/usr/bin/env", "docs/guide.md", "v1.2.3",
    "`code, and. more`", "😀", "👍🏽", "🇩🇪", "👩‍👩‍👧", "1️⃣", "你好", "привет", "ก็",
]  # fmt: skip
GREEDY = TranslationOptions(decoding="greedy")


def told_model(characters: str = "", *, ends: bool = False) -> Translator:
    """Random weights behind a vocabulary with symbols: a model that can be told everything, and heeds nothing.

    Args:
        characters: Characters that its vocabulary has beside those of its text.
        ends: Whether it writes the placeholders it is given, and nothing else.
    """
    text = ["the red cat sees the old dog, house likes tree (and) more: one!", "die rote Katze mag den alten Hund."]
    tokenizer = learn_tokenizer(
        [*text, *WORDS] * 3,
        370 + len(characters),
        ["de", "en"],
        reserve_symbols=True,
        normalisation="nfc",
        required_characters=characters,
    )
    config = ModelConfig(
        source_vocab_size=tokenizer.vocab_size,
        target_vocab_size=tokenizer.vocab_size,
        d_model=32,
        num_heads=2,
        d_ff=32,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.0,
    )
    torch.manual_seed(3)
    manifest = Manifest(
        name="told",
        pairs=(("en", "de"), ("de", "en")),
        architecture=config.to_dict(),
        precision="float32",
        max_source_tokens=60,
        max_target_tokens=100,
        licence="none",
        fold_capitals=True,
        retry_loops=True,
        capabilities=Capabilities(16, ("de",), True),
    )
    module = Transformer(config, tokenizer.pad_id).eval()
    if ends:
        with torch.no_grad():
            module.output.bias[tokenizer.end_id] = 100
            module.output.bias[[tokenizer.symbol_id(placeholder(number)) for number in range(16)]] = 50
    return Translator(Bundle(LoadedNetwork(module), tokenizer, manifest, torch.device("cpu"), ""))


@pytest.fixture(scope="module", params=["told", "toy", "imported"])
def translator(
    request: pytest.FixtureRequest, toy_bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> Translator:
    if request.param == "toy":
        return Translator(load_bundle(toy_bundle, "cpu"))
    return told_model() if request.param == "told" else imported_model(tmp_path_factory.mktemp("opus"))


def imported_model(folder: Path) -> Translator:
    """Random weights in an imported model, which has no placeholders."""
    make_marian(folder)
    import_checkpoint(folder, folder / "bundle.verso", "float32", report=lambda line: None)
    return Translator.load(folder / "bundle.verso")


def assert_whole(source: str, result: Translation, spans: Sequence[str]) -> None:
    """Each protected span of the source is in the translation exactly once, where the answer says it is."""
    if result.integrity is None:
        assert not spans
        return
    protected = [source[slice(*use.source)] for use in result.integrity]
    for span in spans:
        assert any(span in item for item in protected), f"{span!r} is not protected in {source!r}"
    for use in result.integrity:
        assert result.text[slice(*use.target)] == source[slice(*use.source)]
    places = sorted(use.target for use in result.integrity)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(places))
    outside = "".join(
        result.text[start:end]
        for start, end in zip([0, *(end for _, end in places)], [*(start for start, _ in places), None], strict=True)
    )
    for span in spans:
        assert span not in outside
    assert "\ufffd" not in result.text


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text with spans of all kinds among its words, and those spans."""
    parts = draw(st.lists(st.sampled_from(WORDS) | st.sampled_from(SPANS), min_size=1, max_size=14))
    separators = draw(
        st.lists(st.sampled_from([" ", " ", " ", "  ", "\n", "\n\n- "]), min_size=len(parts), max_size=len(parts))
    )
    text = "".join(part + separator for part, separator in zip(parts, separators, strict=True))
    # Code may contain words, so that a text has no closing backtick too many.
    return text, [part for part in parts if part in SPANS]


def check(translator: Translator, number: int, options: TranslationOptions) -> None:
    # Shrinking would translate for minutes.
    @settings(max_examples=number, phases=[Phase.explicit, Phase.generate])
    @given(batch=st.lists(texts(), min_size=10, max_size=10), to_german=st.booleans())
    def run(batch: list[tuple[str, list[str]]], to_german: bool) -> None:
        source, target = translator.manifest.pairs[0 if to_german else -1]
        translations = translator.translate([text for text, _ in batch], options, source, target)
        reference = translator.pipeline.tokenizer.known_characters
        for (text, spans), first in zip(batch, translations, strict=True):
            spans = [span for span in spans if not (span.isalpha() and reference.includes(span))]
            assert_whole(text, first, spans)
            for other in first.alternatives:
                for span in spans:
                    assert other.text.count(span) == text.count(span)

    run()


def test_every_span_comes_back_exactly_once(translator: Translator) -> None:
    check(translator, 6, TranslationOptions(beam_size=2, num_hypotheses=2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["told", "shipped", "imported"])
def test_every_span_of_twenty_thousand_texts_comes_back_exactly_once(name: str, tmp_path: Path) -> None:
    if name == "shipped":
        translator = Translator.load(build_pretrained("cpu", tmp_path, report=lambda line: None))
    else:
        translator = told_model() if name == "told" else imported_model(tmp_path)
    # Ten texts for each example; random weights write until they are cut.
    check(translator, 2000, TranslationOptions(decoding="greedy", max_new_tokens=None if name == "shipped" else 30))


@pytest.mark.parametrize("text", ["{x}", "😀 {x}\n@user", "42 {x}"])
def test_a_text_of_spans_alone_is_unchanged_and_intact(text: str, translator: Translator) -> None:
    (translation,) = translator.translate([text], GREEDY, *translator.manifest.pairs[0])
    assert translation.text == text
    assert translation.integrity is not None and not any(use.restored for use in translation.integrity)


def test_a_text_without_spans_has_no_integrity_and_is_translated_as_without_protection(translator: Translator) -> None:
    text = "red cat sees old dog."
    pair = translator.manifest.pairs[0]
    (translation,) = translator.translate([text], GREEDY, *pair)
    assert translation.integrity is None
    assert [translation] == translator.translate([text], TranslationOptions(decoding="greedy", protect="none"), *pair)


def test_places_and_links_are_in_characters_of_the_texts(translator: Translator) -> None:
    text = "  red cat. see {x} old dog!\n\n{y}\nred {z} tree."
    (translation,) = translator.translate([text], GREEDY, *translator.manifest.pairs[0], return_alignment=True)
    assert_whole(text, translation, ["{x}", "{y}", "{z}"])
    assert translation.alignment is not None
    for link in translation.alignment:
        assert 0 <= link.source[0] < link.source[1] <= len(text)
        assert 0 <= link.target[0] < link.target[1] <= len(translation.text)


def test_patterns_of_the_caller_replace_the_default(translator: Translator) -> None:
    text = "red cat AB-12 sees {x} dog"
    pair = translator.manifest.pairs[0]
    for protect, spans in ((("AB-[0-9]+",), ["AB-12"]), (("auto", "AB-[0-9]+"), ["AB-12", "{x}"])):
        (translation,) = translator.translate([text], TranslationOptions(decoding="greedy", protect=protect), *pair)
        assert_whole(text, translation, spans)


def test_an_answer_that_is_cut_has_its_spans(translator: Translator) -> None:
    text = "red cat {x} sees {y} old dog {z} house likes tree"
    options = TranslationOptions(decoding="greedy", max_new_tokens=2)
    (translation,) = translator.translate([text], options, *translator.manifest.pairs[0])
    assert translation.num_target_tokens <= 2
    assert_whole(text, translation, ["{x}", "{y}", "{z}"])


@pytest.mark.parametrize("length", [30, 320, 3000])
def test_a_span_longer_than_a_sentence_may_be_comes_back(length: int, translator: Translator) -> None:
    url = "https://example.com/" + "a/b-" * (length // 4) + "c"
    for text in (f"{'the cat ' * 10}{url}{' sees the old dog' * 15}", f"{'d' * 59}–{url} red cat."):
        (translation,) = translator.translate([text], GREEDY, *translator.manifest.pairs[0])
        assert_whole(text, translation, [url])


def test_attention_shows_the_translation_with_its_spans(translator: Translator) -> None:
    attention = translator.attention("red {x} cat", GREEDY, *translator.manifest.pairs[0])
    assert attention.translation == translator.translate(["red {x} cat"], GREEDY, *translator.manifest.pairs[0])[0].text
    assert attention.translation.count("{x}") == 1
    assert attention.cross.size(2) == len(attention.target_tokens)
    assert attention.cross.size(3) == len(attention.source_tokens)


def test_terms_and_spans_go_together(translator: Translator) -> None:
    glossary = (GlossaryTerm("cat", "Kater"), GlossaryTerm("dog", "Köter"))
    options = TranslationOptions(decoding="greedy", glossary=glossary)
    text = "red cat {x} sees {y} old dog."
    (translation,) = translator.translate([text], options, *translator.manifest.pairs[0])
    assert_whole(text, translation, ["{x}", "{y}"])
    assert translation.glossary is not None
    assert [text[slice(*use.source)] for use in translation.glossary] == ["cat", "dog"]
    for use, term in zip(translation.glossary, glossary, strict=True):
        if use.status == "replaced":
            assert use.target is not None and translation.text[slice(*use.target)] == term.target


def test_layout_comes_back(toy_bundle: Path) -> None:
    translator = Translator(load_bundle(toy_bundle, "cpu"))
    text = "# red cat.\n\n  - old dog\u00a0sees red house.\n  - tree  likes cat.\n1.\tred cat.\told tree.\n[ ] dog."
    (translation,) = translator.translate([text], GREEDY, "en", "de")
    assert translation.text == (
        "# rot Katze.\n\n  - alt Hund\u00a0sieht rot Haus.\n  - Baum  mag Katze.\n1.\trot Katze.\talt Baum.\n[ ] Hund."
    )
    table = "| red cat. | {x} | old dog. |\n|---|---|---|\n| tree | | `a | b` sees |\n"
    (translation,) = translator.translate([table], GREEDY, "en", "de")
    assert translation.text.startswith("| rot Katze. | {x} | alt Hund. |\n|---|---|---|\n| Baum")
    assert translation.text.count("|") == table.count("|")
    (plain,) = translator.translate([text], TranslationOptions(decoding="greedy", protect="none"), "en", "de")
    assert "\u00a0" not in plain.text
