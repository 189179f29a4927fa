"""The whole model compared with torch's parts with the same weights, and cached steps with the full pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.network.config import ModelConfig
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.masks import padding_mask
from model.network.transformer import Transformer
from tests.model.torch_layers import (
    randomise,
    small_config,
    torch_decoder_layer,
    torch_encoder_layer,
    torch_logits,
)

PAD = 0
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2], [4, 3, 2, PAD, PAD, PAD], [11, 2, PAD, PAD, PAD, PAD]])
TARGET = torch.tensor([[1, 12, 13, 14, 15], [1, 16, 17, PAD, PAD], [1, 18, 19, 3, PAD]])


def transformer(**changes: Any) -> tuple[Transformer, ModelConfig]:
    config = small_config(**changes)
    model = Transformer(config, PAD).eval()
    randomise(model)
    return model, config


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_logits_are_those_of_torchs_layers_with_the_same_weights(norm: str, share: bool) -> None:
    ours, config = transformer(norm=norm, share_embeddings=share, tie_output=share)
    expected = torch_logits(ours, config, SOURCE, TARGET)
    real = TARGET != PAD
    torch.testing.assert_close(ours(SOURCE, TARGET)[real], expected[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
@torch.inference_mode()
def test_every_activation_gives_torchs_logits(activation: str) -> None:
    ours, config = transformer(activation=activation)
    expected = torch_logits(ours, config, SOURCE, TARGET)
    real = TARGET != PAD
    torch.testing.assert_close(ours(SOURCE, TARGET)[real], expected[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_logits_are_those_of_torchs_whole_transformer(norm: str) -> None:
    ours, config = transformer(norm=norm)
    first, second = ours.encoder[0], ours.decoder[0]
    assert isinstance(first, EncoderLayer) and isinstance(second, DecoderLayer)
    # After a post-norm stack nn.Transformer adds a norm that Vaswani et al. do not have; here it is the identity.
    encoder = nn.TransformerEncoder(
        torch_encoder_layer(first, config), 2, ours.encoder_norm, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(torch_decoder_layer(second, config), 3, ours.decoder_norm)
    # Created before the weights are copied, because it initialises the layers it gets.
    theirs = nn.Transformer(16, 4, custom_encoder=encoder, custom_decoder=decoder, batch_first=True).eval()
    randomise(ours)
    for index, layer in enumerate(ours.encoder):
        assert isinstance(layer, EncoderLayer)
        encoder.layers[index].load_state_dict(torch_encoder_layer(layer, config).state_dict())
    for index, layer in enumerate(ours.decoder):
        assert isinstance(layer, DecoderLayer)
        decoder.layers[index].load_state_dict(torch_decoder_layer(layer, config).state_dict())
    pad = SOURCE == PAD
    hidden = theirs(
        ours.source_embedding(SOURCE, torch.arange(6)),
        ours.target_embedding(TARGET, torch.arange(5)),
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        src_key_padding_mask=pad,
        memory_key_padding_mask=pad,
    )
    torch.testing.assert_close(ours.hidden(SOURCE, TARGET), hidden, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours(SOURCE, TARGET), ours.output(hidden), atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_no_position_sees_what_comes_after_it() -> None:
    ours, _ = transformer()
    changed = TARGET.clone()
    changed[:, 3:] = 19
    assert torch.equal(ours(SOURCE, TARGET)[:, :3], ours(SOURCE, changed)[:, :3])
    assert not torch.equal(ours(SOURCE, TARGET)[:, 3:], ours(SOURCE, changed)[:, 3:])


def step_through(
    ours: Transformer, config: ModelConfig, source: Tensor, targets: Tensor, starts: list[int], columns: int
) -> None:
    """Step rows (B, K, T) whose sentences begin at different columns; each must equal a single one at every step.

    As in model/decoding/cohort.py: all write the same column, and a mask hides the columns before a row's start.
    """
    num_sentences, beam, length = targets.shape
    cross_cache = ours.project_memory(ours.encode(source))
    assert cross_cache.shape == (config.decoder_layers, 2, num_sentences, config.num_heads, source.size(1), 4)
    begins = torch.tensor(starts)
    # Garbage before a start must not be seen, and a column read before it is written would be NaN.
    cache = torch.full((config.decoder_layers, 2, num_sentences * beam, config.num_heads, columns + 3, 4), torch.nan)
    alone = torch.stack([ours(source, targets[:, row]) for row in range(beam)], dim=1)  # (B, K, T, V)
    for sentence, start in enumerate(starts):
        rows = slice(sentence * beam, (sentence + 1) * beam)
        cache[:, :, rows, :, :start] = 1e4
    for column in range(columns):
        positions = (column - begins).clamp(0, length - 1).unsqueeze(1)  # (B, 1)
        tokens = targets.gather(2, positions.unsqueeze(1).expand(-1, beam, 1)).squeeze(2)
        observed = torch.arange(column + 1) >= begins.unsqueeze(1)
        # A row that has not begun attends only to its newest column, and its output is discarded.
        observed[:, -1] = True
        logits = ours.step(
            tokens,
            positions,
            cache,
            cross_cache,
            column,
            observed.repeat_interleave(beam, 0).view(num_sentences * beam, 1, 1, column + 1),
            padding_mask(source, PAD),
        )
        assert logits.shape == (num_sentences, beam, config.target_vocab_size)
        for sentence, start in enumerate(starts):
            if start <= column < start + length:
                torch.testing.assert_close(logits[sentence], alone[sentence, :, column - start], atol=1e-5, rtol=1e-5)


def some_targets(beam: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(3, 20, (len(SOURCE), beam, length), generator=generator)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_a_cached_step_equals_the_full_pass_at_every_position(norm: str, beam: int, share: bool) -> None:
    ours, config = transformer(norm=norm, share_embeddings=share, tie_output=share)
    step_through(ours, config, SOURCE, some_targets(beam, 7), starts=[0, 0, 0], columns=7)


@pytest.mark.parametrize("starts", [[0, 2, 5], [4, 0, 1]], ids=str)
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_rows_that_started_later_step_independently(norm: str, beam: int, starts: list[int]) -> None:
    ours, config = transformer(norm=norm)
    step_through(ours, config, SOURCE, some_targets(beam, 5), starts, columns=10)


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
    # Padding is on the right: no real row can see it.
    real_rows = ~target_pad.transpose(3, 4)
    assert (decoder.masked_select(target_pad & real_rows) == 0).all()
    assert (decoder.triu(1) == 0).all()


@torch.inference_mode()
def test_the_returned_weights_are_the_weights_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from model.network import attention

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


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_weights_are_torchs(norm: str) -> None:
    ours, config = transformer(norm=norm)
    encoder, decoder, cross = ours.attend(SOURCE[:1], TARGET[:1])
    expected: list[Tensor] = []
    original = nn.MultiheadAttention.forward

    def spy(self: nn.MultiheadAttention, *arguments: Any, **options: Any) -> Any:
        options.update(need_weights=True, average_attn_weights=False)
        mixed, weights = original(self, *arguments, **options)
        assert weights is not None
        expected.append(weights[0])
        return mixed, weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.MultiheadAttention, "forward", spy)
        torch_logits(ours, config, SOURCE[:1], TARGET[:1])
    torch.testing.assert_close(encoder[0], torch.stack(expected[:2]), atol=1e-5, rtol=0)
    torch.testing.assert_close(decoder[0], torch.stack(expected[2::2]), atol=1e-5, rtol=0)
    torch.testing.assert_close(cross[0], torch.stack(expected[3::2]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("tie", [True, False])
def test_shared_and_tied_tables_are_one_parameter_and_others_are_not(share: bool, tie: bool) -> None:
    model, config = transformer(share_embeddings=share, tie_output=tie)
    source, target = model.source_embedding.tokens.weight, model.target_embedding.tokens.weight
    assert (source is target) == share
    assert (model.output.weight is target) == tie
    tables = sum(parameter.shape == (20, 16) for parameter in model.parameters())
    assert tables == 3 - share - tie
    assert config.share_embeddings == share


@torch.inference_mode()
def test_vocabularies_of_different_size_have_separate_tables() -> None:
    model, config = transformer(source_vocab_size=25, share_embeddings=False)
    source = SOURCE.clone()
    source[0, 0] = 24
    torch.testing.assert_close(
        model(source, TARGET)[0], torch_logits(model, config, source, TARGET)[0], atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_parameter_learns(norm: str) -> None:
    model, _ = transformer(norm=norm, share_embeddings=False, tie_output=False)
    model(SOURCE, TARGET).square().sum().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []


def test_an_untrained_model_has_the_loss_of_a_uniform_prediction() -> None:
    # Xavier and scaled embeddings: the first loss is about the logarithm of the vocabulary.
    torch.manual_seed(0)
    model = Transformer(small_config(tie_output=False, share_embeddings=False), PAD).eval()
    with torch.inference_mode():
        loss = nn.functional.cross_entropy(model(SOURCE, TARGET).flatten(0, 1), TARGET.flatten())
    assert 2.0 < float(loss) < 4.5  # log(20) is 3.0
