"""One Transformer for several families: BART and mBART use the options that the imported families do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from model.importing.folder import CheckpointFolder, Tensors
from model.importing.weights import fill, find_layout
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from tests.model.importing.checkpoints import padded, quiet, random_sources

SHAPE: dict[str, Any] = {
    "vocab_size": 60,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 50,
}


@pytest.mark.parametrize("kind", ["Bart", "MBart"])
def test_embedding_norms_and_learned_positions_are_those_of_bart(kind: str, tmp_path: Path) -> None:
    import transformers

    torch.manual_seed(0)
    with quiet():
        config = getattr(transformers, f"{kind}Config")(**SHAPE, scale_embedding=kind == "MBart")
        theirs = getattr(transformers, f"{kind}ForConditionalGeneration")(config).eval()
        with torch.no_grad():
            for parameter in theirs.parameters():
                parameter.normal_(0, 0.3)
        theirs.save_pretrained(tmp_path)
    tensors = Tensors(CheckpointFolder(tmp_path))
    layout = find_layout(tensors)
    ours = Transformer(
        ModelConfig(
            source_vocab_size=60,
            target_vocab_size=60,
            d_model=32,
            num_heads=4,
            decoder_num_heads=2,
            d_ff=48,
            decoder_d_ff=64,
            encoder_layers=2,
            decoder_layers=3,
            activation="gelu",
            norm="post" if kind == "Bart" else "pre",
            max_positions=50,
            positions="learned",
            scale_embedding=kind == "MBart",
            embedding_norm=True,
        ),
        pad_id=1,
    ).eval()
    # Both number positions from 2.
    fill(
        ours,
        tensors,
        layout,
        table=torch.zeros(50, 32),
        position_skip=2,
        progress=lambda items, label, total: items,
    )
    source, mask = padded(random_sources(12, 60, 2), 1)
    target = torch.randint(4, 60, (12, 7), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
        torch.testing.assert_close(ours(source, target), expected, atol=1e-4, rtol=1e-4)


def test_attention_without_biases_has_none() -> None:
    config = ModelConfig(20, 20, d_model=16, num_heads=2, d_ff=24, attention_bias=False, output_bias=False)
    names = [name for name, _ in Transformer(config, 0).named_parameters()]
    assert not [name for name in names if "attention" in name and "norm" not in name and name.endswith("bias")]
    assert "output.bias" not in names
    assert [name for name in names if name.endswith("feed_forward.wide.bias")]
