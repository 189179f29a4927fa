"""Imported models compared with transformers, with random weights: logits, searches, scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from model.decoding.options import Hypothesis
from model.importing.importer import import_checkpoint
from model.network.config import ModelConfig
from model.network.heads import AttentionHead
from model.network.steps import attention_steps
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.importing.checkpoints import make_m2m100, make_marian, padded, quiet, random_sources

pytestmark = pytest.mark.thorough

NUM_SENTENCES, FEW = 500, 100
MAX_NEW_TOKENS = 13
MARGIN = 1e-4
"""Candidates closer than this may be ranked either way (float32 sums in another order)."""

SHAPES: dict[str, Callable[[Path], Any]] = {
    "opus": make_marian,
    "opus, relu, other heads and widths in the decoder, one layer": lambda folder: make_marian(
        folder,
        activation_function="relu",
        encoder_layers=3,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_ffn_dim=96,
    ),
    "opus, untied, gelu, embeddings not scaled": lambda folder: make_marian(
        folder, tie_word_embeddings=False, activation_function="gelu", scale_embedding=False, d_model=48
    ),
    "opus, separate vocabularies": lambda folder: make_marian(folder, separate=True),
    "m2m100": make_m2m100,
    "m2m100, untied, three layers": lambda folder: make_m2m100(
        folder, tie_word_embeddings=False, encoder_layers=1, decoder_layers=3, scale_embedding=False
    ),
    "nllb": lambda folder: make_m2m100(folder, nllb=True),
}


@dataclass(frozen=True)
class Pair:
    """The same checkpoint in transformers, and imported."""

    theirs: Any
    ours: Translator
    target: str | None
    sources: list[list[int]]

    @property
    def forced(self) -> dict[str, int]:
        return (
            {}
            if self.target is None
            else {"forced_bos_token_id": self.ours.bundle.tokenizer.forced_ids(self.target)[0]}
        )


@pytest.fixture(scope="module", params=SHAPES, ids=list(SHAPES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("checkpoint")
    theirs = SHAPES[request.param](folder)
    import_checkpoint(folder, folder / "bundle.pt", "float32", report=lambda line: None)
    ours = Translator.load(folder / "bundle.pt")
    target = None if request.param.startswith("opus") else "de"
    sources = random_sources(NUM_SENTENCES, theirs.config.vocab_size, theirs.config.eos_token_id)
    # transformers reads the width of the output here, which is the target's vocabulary.
    theirs.config.vocab_size = theirs.lm_head.out_features
    return Pair(theirs, ours, target, sources)


def source_pad(pair: Pair) -> int:
    return pair.ours.bundle.tokenizer.pad_id


def test_logits_are_those_of_transformers(pair: Pair) -> None:
    ids, mask = padded(pair.sources[:40], source_pad(pair))
    target = torch.randint(4, 60, (40, 9), generator=torch.Generator().manual_seed(0))
    target[:, 0] = pair.theirs.config.decoder_start_token_id
    with torch.inference_mode():
        expected = pair.theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=target).logits
        actual = pair.ours.bundle.module.forward(ids, target)
    assert float(expected.std()) > 0.5
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_steps_of_each_layer_begin_with_the_hidden_states_of_transformers(
    pair: Pair, kind: Literal["encoder", "decoder"]
) -> None:
    ids, target = torch.tensor([pair.sources[0]]), torch.tensor([[pair.theirs.config.decoder_start_token_id, 9, 5, 7]])
    with torch.inference_mode():
        theirs = pair.theirs(input_ids=ids, decoder_input_ids=target, output_hidden_states=True)
    config = ModelConfig.from_dict(pair.ours.manifest.architecture)
    states = {"encoder": theirs.encoder_hidden_states, "decoder": theirs.decoder_hidden_states}[kind]
    # The last of their states is that of the whole stack.
    for layer, state in enumerate(states[:-1]):
        with torch.inference_mode():
            network = pair.ours.bundle.module
            steps = attention_steps(network, config, ids, target, AttentionHead(kind, layer, 1))
        torch.testing.assert_close(steps["input"], state[0], atol=1e-4, rtol=0)
        if layer == 0:
            torch.testing.assert_close(steps["embedding"] + steps["position"], state[0], atol=1e-4, rtol=0)


def generate(pair: Pair, sources: list[list[int]], **options: Any) -> tuple[list[list[list[int]]], list[list[float]]]:
    """Outputs of transformers without start, language and end token, and their scores, by sentence and rank."""
    ids, mask = padded(sources, source_pad(pair))
    count = options.get("num_return_sequences", 1)
    end = pair.theirs.config.eos_token_id
    with torch.inference_mode(), quiet():
        result = pair.theirs.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
            max_length=1 + MAX_NEW_TOKENS + len(pair.forced),
            **pair.forced,
            **options,
        )
    answers: list[list[int]] = []
    scores: list[float] = []
    for row, sequence in enumerate(result.sequences.tolist()):
        tokens = sequence[1 + len(pair.forced) :]
        answers.append(tokens[: tokens.index(end)] if end in tokens else tokens)
        if "sequences_scores" in result:
            scores.append(float(result.sequences_scores[row]))
    if not scores:  # greedy: the mean log-probability of the selected tokens, as the score of a beam of one
        renormalised = pair.theirs.generation_config.renormalize_logits
        steps = torch.stack(
            [step.log_softmax(-1) for step in (result.scores if renormalised else result.logits)], dim=1
        )
        if pair.forced:
            steps[:, 0] = 0.0
        for row, tokens in enumerate(answers):
            chosen = result.sequences[row, 1:].tolist()[: len(pair.forced) + len(tokens) + 1]
            total = sum(float(steps[row, index, token]) for index, token in enumerate(chosen))
            scores.append(total / len(chosen))
    indices = range(0, len(answers), count)
    return [answers[index : index + count] for index in indices], [scores[index : index + count] for index in indices]


def compare(actual: list[Hypothesis], expected: list[list[list[int]]], scores: list[list[float]]) -> tuple[int, int]:
    """The number of hypotheses, and how many of them differ with scores equal within :data:`MARGIN`."""
    total, ties = 0, 0
    for hypothesis, answers, their_scores in zip(actual, expected, scores, strict=True):
        ranked = [hypothesis, *hypothesis.alternatives]
        assert len(ranked) == len(answers)
        total += len(ranked)
        for item, tokens, score in zip(ranked, answers, their_scores, strict=True):
            assert item.score == pytest.approx(score, abs=MARGIN)
            ties += item.token_ids != tokens  # another output with the same score, as the previous line checked
    return total, ties


@pytest.mark.parametrize("number", [FEW, pytest.param(NUM_SENTENCES, marks=pytest.mark.slow)])
def test_greedy_answers_are_those_of_transformers(pair: Pair, number: int) -> None:
    options = TranslationOptions(decoding="greedy", max_new_tokens=MAX_NEW_TOKENS, return_scores=True)
    actual = pair.ours.translate_tokens(pair.sources[:number], options, pair.target)
    expected, scores = generate(pair, pair.sources[:number], num_beams=1)
    assert compare(actual, expected, scores) == (number, 0)


# Each value in turn with few sentences; all combinations with all sentences take minutes.
_RULES = [(0.0, False), (0.6, False), (1.0, False), (0.6, True), (1.0, True)]
_ALL = [(NUM_SENTENCES, beam_size, *rules) for beam_size in (4, 6) for rules in _RULES]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("number", "beam_size", "length_penalty", "early_stopping"),
    [
        (FEW, 4, 0.0, False),
        (FEW, 6, 0.6, True),
        (FEW, 4, 1.0, False),
        *(pytest.param(*combination, marks=pytest.mark.slow) for combination in _ALL),
    ],
)
def test_beams_n_best_and_scores_are_those_of_transformers(
    pair: Pair, number: int, beam_size: int, length_penalty: float, early_stopping: bool
) -> None:
    sources = pair.sources[:number]
    options = TranslationOptions(
        beam_size=beam_size,
        num_hypotheses=beam_size,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        max_new_tokens=MAX_NEW_TOKENS,
        return_scores=True,
    )
    actual = pair.ours.translate_tokens(sources, options, pair.target)
    expected, scores = generate(
        pair,
        sources,
        num_beams=beam_size,
        num_return_sequences=beam_size,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
    )
    total, ties = compare(actual, expected, scores)
    assert total == number * beam_size
    assert ties <= total // 200
    if length_penalty == 0.0:
        lengths = {len(item.token_ids) for best in actual for item in (best, *best.alternatives)}
        assert len(lengths) > 3, "answers should differ in length"


def test_a_sentence_decoded_alone_gets_the_output_it_gets_in_a_batch(pair: Pair) -> None:
    options = TranslationOptions(num_hypotheses=4, max_new_tokens=MAX_NEW_TOKENS, return_scores=True)
    batch = pair.ours.translate_tokens(pair.sources[:60], options, pair.target)
    for source, together in zip(pair.sources[:60], batch, strict=True):
        (alone,) = pair.ours.translate_tokens([source], options, pair.target)
        for first, other in zip([alone, *alone.alternatives], [together, *together.alternatives], strict=True):
            assert first.token_ids == other.token_ids
            assert first.score == pytest.approx(other.score, abs=1e-4)
