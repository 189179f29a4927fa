from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from model.config import ModelConfig
from model.embeddings import Embedding, sinusoidal_positions
from model.errors import ConfigError
from model.masks import padding_mask
from model.transformer import Transformer
from tests.model.torch_layers import randomise, small_config, torch_logits

PAD = 0
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2], [4, 3, 2, PAD, PAD, PAD], [11, 2, PAD, PAD, PAD, PAD]])
TARGET = torch.tensor([[1, 12, 13, 14, 15], [1, 16, 17, PAD, PAD], [1, 18, 19, 3, PAD]])


def transformer(**changes: Any) -> tuple[Transformer, ModelConfig]:
    config = small_config(**changes)
    made = Transformer(config, PAD).eval()
    randomise(made)
    return made, config


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_logits_are_those_of_torchs_layers_with_the_same_weights(norm: str, share: bool) -> None:
    ours, config = transformer(norm=norm, share_embeddings=share, tie_output=share)
    expected = torch_logits(ours, config, SOURCE, TARGET)
    real = TARGET != PAD
    torch.testing.assert_close(ours(SOURCE, TARGET)[real], expected[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_a_cached_step_is_the_full_pass_at_every_position(norm: str) -> None:
    ours, config = transformer(norm=norm)
    full = ours(SOURCE, TARGET)  # (B, T, V)
    cross_cache = ours.project_memory(ours.encode(SOURCE))
    batch, length = TARGET.shape
    width = config.d_model // config.num_heads
    self_cache = torch.zeros(config.decoder_layers, 2, batch, config.num_heads, length, width)
    for column in range(length):
        logits = ours.step(
            TARGET[:, column : column + 1],
            torch.tensor(column),
            self_cache,
            cross_cache,
            column,
            torch.ones(1, 1, 1, column + 1, dtype=torch.bool),
            padding_mask(SOURCE, PAD),
        )
        torch.testing.assert_close(logits[:, 0], full[:, column], atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_rows_that_started_later_and_share_a_sentence_step_as_if_alone() -> None:
    ours, config = transformer()
    beam = 3
    source = SOURCE[:2]
    targets = torch.randint(3, 20, (2, beam, 6), generator=torch.Generator().manual_seed(0))
    starts = [0, 2]  # the second sentence joined two columns later
    cross_cache = ours.project_memory(ours.encode(source))
    width = config.d_model // config.num_heads
    cache = torch.randn(config.decoder_layers, 2, 2 * beam, config.num_heads, 6, width)  # garbage before the start
    for column in range(6):
        places = torch.tensor([[max(0, column - start)] for start in starts])  # (B, 1)
        tokens = targets.gather(2, places.unsqueeze(1).expand(2, beam, 1)).squeeze(2)
        seen = torch.arange(column + 1) >= torch.tensor(starts).unsqueeze(1)
        # A row that has not begun looks at its newest column only, and its answer is thrown away.
        seen[:, -1] = True
        logits = ours.step(
            tokens,
            places,
            cache,
            cross_cache,
            column,
            seen.repeat_interleave(beam, 0).view(2 * beam, 1, 1, column + 1),
            padding_mask(source, PAD),
        )
        for sentence, start in enumerate(starts):
            if column < start:
                continue
            for row in range(beam):
                prefix = targets[sentence : sentence + 1, row, : column - start + 1]
                alone = ours(source[sentence : sentence + 1], prefix)[0, -1]
                torch.testing.assert_close(logits[sentence, row], alone, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_padding_changes_nothing() -> None:
    ours, _ = transformer()
    alone = ours(SOURCE[2:, :2], TARGET[2:, :4])
    torch.testing.assert_close(ours(SOURCE, TARGET)[2:, :4], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_all_weights_sum_to_one_and_padding_gets_none(norm: str) -> None:
    ours, _ = transformer(norm=norm)
    encoder, decoder, cross = ours.attend(SOURCE, TARGET)
    assert encoder.shape == (3, 2, 4, 6, 6)
    assert decoder.shape == (3, 3, 4, 5, 5)
    assert cross.shape == (3, 3, 4, 5, 6)
    for weights in (encoder, decoder, cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    source_pad = (SOURCE == PAD).view(3, 1, 1, 1, 6)
    target_pad = (TARGET == PAD).view(3, 1, 1, 1, 5)
    assert (encoder.masked_select(source_pad) == 0).all()
    assert (cross.masked_select(source_pad) == 0).all()
    assert (decoder.masked_select(target_pad) == 0).all()
    assert (decoder.triu(1) == 0).all()


@torch.inference_mode()
def test_the_weights_shown_are_the_weights_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from model import attention

    ours, _ = transformer()
    used: list[torch.Tensor] = []
    original = attention.attention_weights

    def spy(query: torch.Tensor, key: torch.Tensor, may_attend: torch.Tensor) -> torch.Tensor:
        used.append(original(query, key, may_attend))
        return used[-1]

    monkeypatch.setattr(attention, "attention_weights", spy)
    ours(SOURCE[:1], TARGET[:1])
    monkeypatch.undo()
    encoder, decoder, cross = ours.attend(SOURCE[:1], TARGET[:1])
    for layer in range(2):
        torch.testing.assert_close(encoder[0, layer], used[layer][0])
    for layer in range(3):
        torch.testing.assert_close(decoder[0, layer], used[2 + 2 * layer][0])
        torch.testing.assert_close(cross[0, layer], used[3 + 2 * layer][0])


def test_tied_and_shared_tables_are_one_parameter() -> None:
    tied, _ = transformer()
    assert tied.output.weight is tied.target_embedding.tokens.weight is tied.source_embedding.tokens.weight
    free, _ = transformer(share_embeddings=False, tie_output=False)
    assert free.output.weight is not free.target_embedding.tokens.weight
    assert free.source_embedding.tokens.weight is not free.target_embedding.tokens.weight


def test_positions_are_the_paper_s_sines_and_cosines() -> None:
    table = sinusoidal_positions(300, 8)
    for position, column in ((0, 0), (3, 2), (299, 5), (17, 7)):
        angle = position / 10000 ** ((column - column % 2) / 8)
        expected = math.cos(angle) if column % 2 else math.sin(angle)
        assert float(table[position, column]) == pytest.approx(expected, abs=1e-6)


def test_an_embedding_is_scaled_and_placed() -> None:
    embedding = Embedding(10, 16, 5)
    found = embedding(torch.tensor([[3, 3]]), torch.tensor([0, 4]))
    expected = embedding.tokens.weight[3] * 4.0 + embedding.positions[4]
    torch.testing.assert_close(found[0, 1], expected)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_heads": 3}, "does not divide d_model 16"),
        ({"d_model": 15, "num_heads": 5}, "must be even"),
        ({"dropout": 1.0}, "below 1"),
        ({"activation": "tanh"}, "'relu', 'silu' or 'gelu'"),
        ({"norm": "middle"}, "'pre' or 'post'"),
        ({"encoder_layers": 0}, "encoder_layers is 0"),
        ({"d_ff": 2.5}, "d_ff is 2.5"),
        ({"target_vocab_size": 30}, "share_embeddings"),
    ],
)
def test_an_impossible_architecture_is_refused_by_name(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        small_config(**wrong)


def test_an_architecture_survives_json_and_unknown_fields_are_named() -> None:
    config = small_config(norm="post")
    assert ModelConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ConfigError, match="layers_of_encoder"):
        ModelConfig.from_dict({**config.to_dict(), "layers_of_encoder": 3})
    with pytest.raises(ConfigError, match="not fully described"):
        ModelConfig.from_dict({"d_model": 8})
