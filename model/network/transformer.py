"""The encoder-decoder Transformer of Vaswani et al. 2017 (arXiv:1706.03762), in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.network.config import ModelConfig
from model.network.embeddings import Embedding
from model.network.layers import DecoderLayer, Dropout, EncoderLayer
from model.network.masks import causal_mask, padding_mask
from model.network.norms import layer_norm
from model.network.recurrence import RecurrentDecoderLayer


class Transformer(nn.Module):
    """An encoder-decoder that maps source tokens and target tokens to logits of the next target token.

    :meth:`forward` is for training. :meth:`encode`, :meth:`project_memory` and :meth:`step` (or :meth:`step_slots`)
    decode one token at a time. :meth:`attend` gives the attention weights of a sentence and its translation.

    Args:
        config: The architecture.
        pad_id: The padding token, hidden from all attention; -1 (:data:`model.network.padding.NO_PAD_ID`) if the
            vocabulary has none.
    """

    def __init__(self, config: ModelConfig, pad_id: int) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.is_recurrent = config.decoder == "ssru"
        decoder_layer = RecurrentDecoderLayer if self.is_recurrent else DecoderLayer
        self.source_embedding = Embedding(config, config.source_vocab_size)
        self.target_embedding = Embedding(config, config.target_vocab_size, zero_start=config.start == "zero")
        self.encoder = nn.ModuleList([EncoderLayer(config) for _ in range(config.encoder_layers)])
        self.decoder = nn.ModuleList([decoder_layer(config.decoder_stack) for _ in range(config.decoder_layers)])
        # Only pre-norm stacks need a norm at the end; the output of post-norm stacks is already normalised.
        self.encoder_norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        self.output = nn.Linear(config.d_model, config.target_vocab_size, bias=config.output_bias)
        self.dropout = Dropout(config.dropout)
        nn.init.xavier_uniform_(self.output.weight)
        if config.output_bias:
            nn.init.zeros_(self.output.bias)
        if config.share_embeddings:
            self.source_embedding.tokens.weight = self.target_embedding.tokens.weight
        if config.tie_output:
            self.output.weight = self.target_embedding.tokens.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of the token after each target position (teacher forcing).

        Args:
            source: Source token ids, (B, S), padded on the right.
            target: Target token ids, (B, T), the start token first, padded on the right.

        Returns:
            Logits, (B, T, V).
        """
        return self.output(self.hidden(source, target))

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        """Decoder output before the projection onto the vocabulary, (B, T, C); the loss projects it in chunks."""
        memory = self.encode(source)
        may_attend_memory = padding_mask(source, self.pad_id)
        # The causal mask also hides target padding, which is on the right.
        may_attend_target = causal_mask(target.size(1), target.device)
        x = self._embed_target(target)
        for layer in self.decoder:
            x = layer(x, memory, may_attend_target, may_attend_memory)
        return self.decoder_norm(x)

    def encode(self, source: Tensor) -> Tensor:
        """Encode the source.

        Args:
            source: Source token ids, (B, S), padded on the right.

        Returns:
            The memory, (B, S, C). Its padding rows are undefined and are masked wherever the memory is used.
        """
        may_attend = padding_mask(source, self.pad_id)
        x = self._embed_source(source)
        for layer in self.encoder:
            x = layer(x, may_attend)
        return self.encoder_norm(x)

    def project_memory(self, memory: Tensor) -> Tensor:
        """Keys and values of the memory for every decoder layer; computed once per sentence.

        Args:
            memory: (B, S, C).

        Returns:
            The cross-attention cache, (L, 2, B, H, S, D).
        """
        layers: list[Tensor] = []
        for layer in self.decoder:
            key, value = layer.cross_attention.project_memory(memory)
            layers.append(torch.stack([key, value]))
        return torch.stack(layers)

    def step(
        self,
        token_ids: Tensor,
        positions: Tensor,
        target_cache: Tensor,
        cross_cache: Tensor,
        column: int,
        may_attend_target: Tensor,
        may_attend_memory: Tensor,
    ) -> Tensor:
        """Decode one token of every hypothesis; the cache of the target so far is written in place.

        Args:
            token_ids: The newest token of each hypothesis, (B, K).
            positions: Its position in the target, counted from 0; broadcasts to (B, K).
            target_cache: Keys and values of the past, (L, 2, B * K, H, columns, D); the states of recurrent layers,
                (L, B * K, C), float32.
            cross_cache: From :meth:`project_memory`, (L, 2, B, H, S, D).
            column: The cache column all rows write in this step; recurrent layers have no columns.
            may_attend_target: True where a cache column belongs to the row, (B * K, 1, 1, column + 1); not read by
                recurrent layers.
            may_attend_memory: False where the source is padding, (B, 1, 1, S).

        Returns:
            Logits of the next token, (B, K, V).
        """
        x = self.target_embedding(token_ids, positions)
        for index, layer in enumerate(self.decoder):
            x = layer.step(x, target_cache[index], cross_cache[index], column, may_attend_target, may_attend_memory)
        return self.output(self.decoder_norm(x))

    def step_slots(
        self,
        token_ids: Tensor,
        positions: Tensor,
        target_cache: Tensor,
        cross_cache: Tensor,
        columns: Tensor,
        may_attend_target: Tensor,
        may_attend_memory: Tensor,
    ) -> Tensor:
        """As :meth:`step`, for sentences at different columns of caches of a fixed size.

        It depends on no value of the host, so it can be captured once as a CUDA graph and replayed.

        Args:
            token_ids: The newest token of each hypothesis, (B, K).
            positions: Its position in the target, counted from 0; broadcasts to (B, K).
            target_cache: Keys and values of the past, (L, 2, B, H, columns, D); the states of recurrent layers,
                (L, B * K, C), float32. Written in place.
            cross_cache: From :meth:`project_memory`, (L, 2, B, H, S, D).
            columns: The cache column each hypothesis writes, (B, K); all different within a sentence.
            may_attend_target: True where a column belongs to a hypothesis' past or to this step, (B, 1, K, columns).
            may_attend_memory: False where the source is padding, (B, 1, 1, S).

        Returns:
            Logits of the next token, (B, K, V).
        """
        x = self.target_embedding(token_ids, positions)
        for index, layer in enumerate(self.decoder):
            x = layer.step_slots(
                x, target_cache[index], cross_cache[index], columns, may_attend_target, may_attend_memory
            )
        return self.output(self.decoder_norm(x))

    def attend(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All attention weights of a sentence and its translation.

        Args:
            source: Source token ids, (B, S), padded on the right.
            target: Target token ids, (B, T), the start token first, padded on the right.

        Returns:
            Weights of the encoder (B, L, H, S, S), of the decoder (B, L, H, T, T) and of cross-attention
            (B, L, H, T, S). Rows sum to 1. Source padding gets 0; rows of target padding are undefined. Recurrent
            layers of the decoder have no heads: (B, L, 0, T, T).
        """
        may_attend_source = padding_mask(source, self.pad_id)
        x = self._embed_source(source)
        encoder_weights: list[Tensor] = []
        for layer in self.encoder:
            encoder_weights.append(layer.weights(x, may_attend_source))
            x = layer(x, may_attend_source)
        memory = self.encoder_norm(x)

        # As in hidden(), the causal mask also hides padding. A padding mask would hide a start token that is pad_id.
        may_attend_target = causal_mask(target.size(1), target.device)
        y = self._embed_target(target)
        decoder_weights: list[Tensor] = []
        cross_weights: list[Tensor] = []
        for decoder_layer in self.decoder:
            y, layer_self_weights, layer_cross_weights = decoder_layer.attend(
                y, memory, may_attend_target, may_attend_source
            )
            decoder_weights.append(layer_self_weights)
            cross_weights.append(layer_cross_weights)
        return (
            torch.stack(encoder_weights, dim=1),
            torch.stack(decoder_weights, dim=1),
            torch.stack(cross_weights, dim=1),
        )

    def _embed_source(self, source: Tensor) -> Tensor:
        source = source.clamp_min(0)  # padding may be -1; its vectors are read by no other position
        return self.dropout(self.source_embedding(source, torch.arange(source.size(1), device=source.device)))

    def _embed_target(self, target: Tensor) -> Tensor:
        target = target.clamp_min(0)
        return self.dropout(self.target_embedding(target, torch.arange(target.size(1), device=target.device)))
