"""One step of all slots, the choice of tokens included, in tensors alone.

The rules are those of :mod:`model.decoding.eager.greedy`, :mod:`model.decoding.eager.beam`,
:mod:`model.decoding.eager.filters` and :mod:`model.decoding.scoring`, written so that a step can be captured as a CUDA
graph and replayed: no shape depends on a value, nothing is copied between host and device, and results are written into
the tensors they were read from. A step computes all slots; results for slots that must not change are discarded.

``masked_fill`` is used where ``torch.where`` with a number would read better: the latter copies it to the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from model.decoding.search import best_continuations
from model.decoding.slots.tensors import Setting, SlotTensors
from model.network.transformer import Transformer


def has_slot_step(model: Transformer) -> bool:
    """Whether a model can step in slots; scripted models of the first releases cannot."""
    return hasattr(model, "step_slots")


@dataclass(frozen=True)
class Constants:
    """Settings of the model, the same for all its sentences.

    Args:
        end_id: The closing token.
        never: Tokens that occur in no translation, on the device.
        renormalise: Whether the probability of forbidden tokens is distributed over the others.
        may_force_end: Whether sentences may end with a closing token of log-probability 0.
    """

    end_id: int
    never: Tensor
    renormalise: bool
    may_force_end: bool


class _Progress(NamedTuple):
    """The progress of each sentence, (N,)."""

    num_generated: Tensor  # before this step's choice
    num_tokens: Tensor  # including this choice and given tokens: the length that scores are normalised by
    choosing: Tensor  # whether it decodes and its next token is not a given one
    last: Tensor  # whether the token chosen now is the last it may have


def take_step(model: Transformer, constants: Constants, slots: SlotTensors, full: bool) -> None:
    """Take one step with every sentence that decodes; the others are left unchanged.

    Args:
        model: Computes logits.
        constants: The model's.
        slots: Read and written.
        full: Whether the step also computes what few sentences need: scores of greedy search, the guard against
            repeated sequences, and required tokens. A sentence that needs them does so from its first step on.
    """
    num_generated = slots.position + 1 - slots.setting(Setting.NUM_INPUTS).long()
    now = _Progress(
        num_generated,
        slots.position + 1,
        slots.active & (num_generated >= 0),
        num_generated + 1 == slots.setting(Setting.MAX_NEW_TOKENS),
    )
    states = slots.target_cache.clone() if slots.has_states else None
    logits = _logits(model, slots)
    suffixes = _suffixes(slots) if full else slots.suffixes
    if slots.bucket.width == 1:
        tokens, parents, ended = _greedy(logits, suffixes, slots, now, constants, full)
    else:
        tokens, parents, ended = _beam(logits, suffixes, slots, now, constants, full)
    if full:
        _keep(slots.suffixes, _follow(suffixes, parents), slots.active)
    if states is None:
        slots.ancestors.copy_(_follow(slots.ancestors, parents))
    else:
        index = parents.unsqueeze(-1).expand_as(states)
        followed = slots.target_cache.gather(2, index)
        slots.target_cache.copy_(torch.where(slots.active.view(-1, 1, 1), followed, states))
    active = slots.active & ~ended
    slots.active.copy_(active)
    slots.position.add_(active)
    history = _follow(slots.history, parents)
    next_column = now.num_tokens.view(-1, 1, 1).expand(-1, slots.bucket.width, 1)
    given = history.gather(2, next_column)
    next_tokens = torch.where(now.choosing.view(-1, 1, 1), tokens.unsqueeze(-1), given)
    slots.history.copy_(history.scatter(2, next_column, next_tokens))


def _logits(model: Transformer, slots: SlotTensors) -> Tensor:
    """Feed every row its newest input; float32, (N, K, V)."""
    width, target = slots.bucket.width, slots.bucket.target
    tokens = slots.history.gather(2, slots.position.view(-1, 1, 1).expand(-1, width, 1)).squeeze(-1)
    positions = slots.position.unsqueeze(1)
    if slots.has_states:
        states = slots.target_cache.flatten(1, 2)  # a view, which is written
        unread = slots.active
        return model.step_slots(
            tokens, positions, states, slots.cross_cache, positions, unread, slots.may_attend_memory
        ).float()
    rows = torch.arange(width, device=slots.position.device)
    columns = torch.arange(target, device=slots.position.device)
    position = slots.position.view(-1, 1, 1)
    slots.ancestors.copy_(torch.where(columns == position, rows.unsqueeze(-1), slots.ancestors))
    own = slots.ancestors.unsqueeze(2) == rows.view(1, 1, -1, 1)  # (N, K, K, T): whose row wrote each column
    may_attend = (own & (columns <= position.unsqueeze(-1))).flatten(2)  # (N, K, K * T)
    return model.step_slots(
        tokens,
        positions,
        slots.target_cache,
        slots.cross_cache,
        rows * target + positions,
        may_attend.unsqueeze(1),
        slots.may_attend_memory,
    ).float()


def _greedy(
    logits: Tensor, suffixes: Tensor, slots: SlotTensors, now: _Progress, constants: Constants, full: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The most probable token: next inputs (N, 1), the rows they continue (N, 1), which sentences ended (N,)."""
    totals = logits.logsumexp(-1) if full and not constants.renormalise else None  # (N, 1)
    # NaN wins every comparison: one reduction finds it, before the filter can cover it.
    poisoned = logits.amax(-1).isnan()
    _forbid(logits, suffixes, slots, now, constants, full)
    if full and totals is None:
        totals = logits.logsumexp(-1)
    best, tokens = logits.max(-1)  # (N, 1)
    forced = (now.last & slots.flag(Setting.FORCE_END)).unsqueeze(-1)
    if totals is not None:
        slots.sums.add_((best - totals).masked_fill(forced | ~now.choosing.unsqueeze(-1), 0.0))
    failed = (poisoned | best.isinf()).squeeze(-1)
    closed = tokens == constants.end_id
    ended = now.choosing & (closed.squeeze(-1) | now.last | failed)
    _keep(slots.failed, failed, ended)
    _keep(slots.pool_scores, _scores(slots.sums, slots, now), ended)
    _keep(slots.pool_lengths, now.num_generated.unsqueeze(-1) + ~(closed | forced), ended)
    _keep(slots.pool_cut, ~closed, ended)
    _keep(slots.pool_history, _with_token(slots.history, tokens, now), ended)
    return tokens, torch.zeros_like(tokens), ended


def _beam(
    logits: Tensor, suffixes: Tensor, slots: SlotTensors, now: _Progress, constants: Constants, full: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The K most probable beginnings: newest tokens (N, K), the rows they continue (N, K), which sentences ended."""
    width = slots.bucket.width
    totals = logits.logsumexp(-1)  # (N, K), before the filter: forbidden tokens keep their probability
    failed = (~totals.isfinite() & slots.sums.isfinite()).any(-1)
    _forbid(logits, suffixes, slots, now, constants, full)
    if constants.renormalise:
        totals = logits.logsumexp(-1)
    force_end = now.last & slots.flag(Setting.FORCE_END)
    if constants.may_force_end:
        # Nothing but the closing token, with a log-probability of 0.
        closing = torch.where(force_end.unsqueeze(-1), totals, logits[..., constants.end_id])
        logits.masked_fill_(force_end.view(-1, 1, 1), -math.inf)
        logits[..., constants.end_id] = closing
    best, best_tokens, parents = best_continuations(logits, slots.sums - totals, 2 * width)  # (N, 2K)

    ends = best_tokens == constants.end_id
    # A beam that narrows considers no more candidates than it has rows left.
    rows_left = (width - slots.num_ended).masked_fill(~slots.flag(Setting.NARROWS), 2 * width)
    ranks = torch.arange(2 * width, device=best.device)
    best = best.masked_fill(ranks >= rows_left.unsqueeze(-1), -math.inf)
    # Each parent ends at most once, so at least K of the 2K candidates continue: the first K of those.
    continuing = torch.argsort((ends | best.isneginf()).byte(), dim=-1, stable=True)[:, :width]
    sums = best.gather(1, continuing).masked_fill(ends.gather(1, continuing), -math.inf)
    _keep(slots.sums, sums, now.choosing)

    leaving = ((ends | now.last.unsqueeze(-1)) & best.isfinite())[:, :width]
    _add_to_pool(slots, now, leaving, best[:, :width], best_tokens[:, :width], parents[:, :width], constants.end_id)
    done = now.last | _is_done(slots, now, sums[:, 0])
    ended = now.choosing & (failed | done)
    _keep(slots.failed, failed, ended)
    own = torch.arange(width, device=best.device)
    return (
        best_tokens.gather(1, continuing),
        torch.where(now.choosing.unsqueeze(-1), parents.gather(1, continuing), own),
        ended,
    )


def _add_to_pool(
    slots: SlotTensors, now: _Progress, leaving: Tensor, sums: Tensor, tokens: Tensor, parents: Tensor, end_id: int
) -> None:
    """Add the candidates that leave the beam, (N, K), to the pool, and keep the K best."""
    width = slots.bucket.width
    closed = tokens == end_id
    cut = now.last.unsqueeze(-1) & (~closed | slots.flag(Setting.FORCE_END).unsqueeze(-1))
    scores = _scores(sums, slots, now).masked_fill(~leaving, -math.inf)
    # Stable: of equals the one that ended first stays.
    both = torch.cat([slots.pool_scores, scores], dim=1).sort(dim=1, descending=True, stable=True)
    kept = both.indices[:, :width]
    _keep(slots.pool_scores, both.values[:, :width], now.choosing)
    for pool, new in ((slots.pool_lengths, now.num_generated.unsqueeze(-1) + ~closed), (slots.pool_cut, cut)):
        _keep(pool, torch.cat([pool, new], dim=1).gather(1, kept), now.choosing)
    new_history = _with_token(_follow(slots.history, parents), tokens, now)
    _keep(slots.pool_history, _follow(torch.cat([slots.pool_history, new_history], dim=1), kept), now.choosing)
    _keep(slots.num_ended, slots.num_ended + leaving.sum(-1), now.choosing)
    _keep(slots.leader_ended, slots.leader_ended | leaving[:, 0], now.choosing)


def _is_done(slots: SlotTensors, now: _Progress, leaders: Tensor) -> Tensor:
    """Whether no running hypothesis can change the answer, (N,); ``leaders`` are the best running sums, (N,)."""
    full = slots.num_ended >= slots.bucket.width
    beaten = slots.pool_scores[:, -1] >= _scores(leaders.unsqueeze(-1), slots, now).squeeze(-1)
    full_ends = full & (slots.flag(Setting.STOPS_WHEN_FULL) | beaten)
    leader_ends = slots.leader_ended & (slots.num_ended >= slots.setting(Setting.NUM_HYPOTHESES))
    stops = torch.where(slots.flag(Setting.LEADER_MUST_END), leader_ends, full_ends)
    return stops | ~leaders.isfinite()


def _scores(sums: Tensor, slots: SlotTensors, now: _Progress) -> Tensor:
    """Scores of hypotheses of this step's length, float64 as on the host, (N, rows)."""
    length = (slots.setting(Setting.LENGTH_OFFSET) + now.num_tokens) / slots.setting(Setting.LENGTH_SCALE)
    return sums.double() / length.pow(slots.setting(Setting.LENGTH_PENALTY)).unsqueeze(-1)


def _forbid(
    logits: Tensor, suffixes: Tensor, slots: SlotTensors, now: _Progress, constants: Constants, full: bool
) -> None:
    """Set the logits of forbidden tokens to minus infinity."""
    allowed = logits.gather(2, _required_indices(slots)) if full else None
    logits.index_fill_(-1, constants.never, -math.inf)
    too_short = now.num_generated < slots.setting(Setting.MIN_NEW_TOKENS)
    closing = logits[..., constants.end_id]
    closing.masked_fill_(too_short.unsqueeze(-1), -math.inf)
    if full:
        size = slots.setting(Setting.NGRAM_SIZE).view(-1, 1, 1)
        repeats = (size > 0) & (suffixes >= size - 1) & _of_answer(slots)
        ceiling = logits.new_full(slots.history.shape, math.inf).masked_fill(repeats, -math.inf)
        logits.scatter_reduce_(2, slots.history, ceiling, "amin")
    if allowed is not None:
        _require(logits, allowed, slots, now, constants)


def _require(logits: Tensor, allowed: Tensor, slots: SlotTensors, now: _Progress, constants: Constants) -> None:
    """Apply the rules of required tokens; ``allowed`` are their original logits, (N, K, R)."""
    required_ids = slots.required_ids.unsqueeze(1)  # (N, 1, R)
    equal = slots.history.unsqueeze(-1) == required_ids.unsqueeze(2)  # (N, K, T, R)
    present = (equal & _of_answer(slots).unsqueeze(-1)).any(2)
    missing = (required_ids >= 0) & ~present
    num_missing = missing.sum(-1)  # (N, K)
    left = slots.setting(Setting.MAX_NEW_TOKENS) - slots.setting(Setting.FORCE_END) - now.num_generated
    is_tight = (num_missing > 0) & (num_missing == left.unsqueeze(-1))
    logits.masked_fill_(is_tight.unsqueeze(-1), -math.inf)
    logits[..., constants.end_id].masked_fill_(num_missing > 0, -math.inf)
    # An infinity changes nothing: where ``required_ids`` is -1, the index is that of token 0, which has other rules.
    indices = _required_indices(slots)
    logits.scatter_reduce_(2, indices, torch.full_like(allowed, math.inf).masked_fill(present, -math.inf), "amin")
    logits.scatter_reduce_(2, indices, allowed.masked_fill(~missing, -math.inf), "amax")


def _required_indices(slots: SlotTensors) -> Tensor:
    """Indices of the required tokens among the logits, (N, K, R); 0 for padding."""
    return slots.required_ids.clamp(min=0).unsqueeze(1).expand(-1, slots.bucket.width, -1)


def _suffixes(slots: SlotTensors) -> Tensor:
    """:attr:`SlotTensors.suffixes` with the newest input taken into account, from those without it."""
    newest = slots.history.gather(2, slots.position.view(-1, 1, 1).expand(-1, slots.bucket.width, 1))
    before = _of_answer(slots)[..., :-1] & (slots.history[..., :-1] == newest)
    grown = (slots.suffixes[..., :-1] + 1).masked_fill(~before, 0)
    return torch.nn.functional.pad(grown, (1, 0))


def _of_answer(slots: SlotTensors) -> Tensor:
    """True for columns with tokens of the answer, those of a prefix included, (N, 1, T)."""
    columns = torch.arange(slots.bucket.target, device=slots.position.device)
    first, newest = slots.setting(Setting.ANSWER_COLUMN).view(-1, 1, 1), slots.position.view(-1, 1, 1)
    return (columns >= first) & (columns <= newest)


def _with_token(history: Tensor, tokens: Tensor, now: _Progress) -> Tensor:
    """History with a token for each row at the column after the newest: (N, K, T) and (N, K)."""
    column = now.num_tokens.view(-1, 1, 1).expand(-1, tokens.size(1), 1)
    return history.scatter(2, column, tokens.unsqueeze(-1))


def _follow(rows: Tensor, parents: Tensor) -> Tensor:
    """Rows (N, K', T) by their parents (N, K)."""
    return rows.gather(1, parents.unsqueeze(-1).expand(-1, -1, rows.size(-1)))


def _keep(tensor: Tensor, value: Tensor, mask: Tensor) -> None:
    """Write ``value`` into the slots in which ``mask``, (N,), is True."""
    tensor.copy_(torch.where(mask.view(-1, *[1] * (tensor.dim() - 1)), value, tensor))
