"""Log-probabilities of given tokens, with the prompt forwarded once for all rows that share it.

A *pack* is a prompt followed by several answers, side by side in one sequence: a 4-D mask lets every answer see the
prompt and itself only, and positions restart after the prompt for each. A pack of one answer is an ordinary causal
sequence and needs no mask, which is the dense form that every architecture supports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from polypath.core.errors import UserError
from polypath.engines.memory import by_length
from polypath.engines.protocol import Row, Scores

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy

LOGITS_AT_ONCE = 2**26  # floats: above it, the head runs in pieces that are recomputed in the backward pass


@dataclass(frozen=True)
class Pack:
    """Rows (indices) with one prompt that are forwarded as one sequence of `length` tokens."""

    rows: tuple[int, ...]
    length: int


def packed_tokens(rows: Sequence[Row]) -> int:
    """Tokens forwarded to score rows: each distinct prompt once, and every answer but its last token.

    >>> packed_tokens([Row((1, 2, 3), (4, 5)), Row((1, 2, 3), (6, 7))])
    5
    """
    return sum(map(len, {row.prompt_ids for row in rows})) + sum(max(len(row.ids) - 1, 0) for row in rows)


def plan_microbatches(rows_by_group: Sequence[Sequence[Row]], max_tokens: int) -> list[list[int]]:
    """Groups (by index) in micro-batches of at most `max_tokens` packed tokens: first fit, in order.

    A group is never split, so that a loss may couple its rows: one above the budget is a micro-batch of its own. Where
    the loss does not couple rows, pass the pieces that `split_rows` gives as groups.
    """
    batches: list[list[int]] = []
    used: list[int] = []
    for index, rows in enumerate(rows_by_group):
        size = packed_tokens(rows)
        place = next((b for b, tokens in enumerate(used) if tokens + size <= max_tokens), None)
        if place is None:
            batches.append([index])
            used.append(size)
        else:
            batches[place].append(index)
            used[place] += size
    return batches


def split_rows(rows: Sequence[Row], max_tokens: int) -> list[list[int]]:
    """Row indices of one group in consecutive pieces of at most `max_tokens` packed tokens (never less than a row)."""
    pieces: list[list[int]] = []
    for i, row in enumerate(rows):
        if pieces and packed_tokens([*(rows[j] for j in pieces[-1]), row]) <= max_tokens:
            pieces[-1].append(i)
        else:
            pieces.append([i])
    return pieces


def plan_packs(rows: Sequence[Row], width: int, mode: str) -> list[Pack]:
    """Packs for rows, grouped by prompt. `width` is the model's hidden size, `mode` one of auto, packed, dense.

    In a transformer layer a sequence of n tokens costs about n (6 width + n) units (projections and feed-forward,
    then attention), so sharing a prompt pays until the answers are long. `auto` takes the number of packs per prompt
    at which the sum is least; one pack per row is the dense form.
    """
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(rows):
        by_prompt.setdefault(row.prompt_ids, []).append(i)
    packs = []
    for prompt, members in by_prompt.items():
        sizes = [max(len(rows[i].ids) - 1, 0) for i in members]
        most = {"auto": len(members), "packed": 1, "dense": len(members)}[mode]
        least = {"auto": 1, "packed": 1, "dense": len(members)}[mode]

        def cost(k: int, base: int = len(prompt), answers: int = sum(sizes)) -> float:
            length = base + answers / k
            return k * length * (6 * width + length)

        count = min(range(least, most + 1), key=cost)
        for part in np.array_split(np.arange(len(members)), count):
            length = len(prompt) + sum(sizes[j] for j in part)
            packs.append(Pack(tuple(members[j] for j in part), length))
    return packs


def score_rows(
    policy: TransformersPolicy, rows: Sequence[Row], need: frozenset[str], temperature: float, grad: bool
) -> Scores:
    """See `Policy.score`. Raises UserError for an empty prompt, a row beyond the context, a temperature <= 0."""
    unknown = need - {"logp", "entropy", "hidden"}
    if unknown:
        raise ValueError(f"score cannot return {sorted(unknown)}")
    if temperature <= 0:
        raise UserError("score", f"temperature {temperature} has no log-probabilities", "Use a temperature above 0.")
    for i, row in enumerate(rows):
        if not row.prompt_ids or len(row.prompt_ids) + len(row.ids) > policy.max_positions + 1:
            size = f"{len(row.prompt_ids)} + {len(row.ids)} tokens for a context of {policy.max_positions}"
            raise UserError("score", f"row {i} has {size}", "Give every row a prompt, and shorten what is too long.")
    found: dict[str, list[Tensor]] = {name: [policy.no_scores] * len(rows) for name in need}
    packs = plan_packs(rows, policy.width, policy.packing if policy.full_attention else "dense")
    with torch.set_grad_enabled(grad):
        for part in by_length([pack.length for pack in packs], policy.max_tokens):
            batch = [packs[j] for j in part]
            order = [i for pack in batch for i in pack.rows]
            sizes = [len(rows[i].ids) for i in order]
            for name, flat in _score_batch(policy, rows, batch, need, temperature).items():
                for i, value in zip(order, flat.split(sizes), strict=True):
                    found[name][i] = value
    return Scores(logp=found.get("logp", []), entropy=found.get("entropy"), hidden=found.get("hidden"))


def _score_batch(
    policy: TransformersPolicy, rows: Sequence[Row], batch: Sequence[Pack], need: frozenset[str], temperature: float
) -> dict[str, Tensor]:
    """What is needed for all ids of a batch of packs, in the order of its rows: (N,) or (N, d)."""
    ids, positions, segment, source = lay_out(rows, batch)
    device = policy.device
    mask = None
    if any(len(pack.rows) > 1 for pack in batch):
        mask = pack_mask(torch.from_numpy(segment).to(device))
    hidden = policy.hidden(torch.from_numpy(ids).to(device), torch.from_numpy(positions).to(device), mask)
    hidden = hidden.flatten(0, 1)[torch.from_numpy(source).to(device)]
    found = {"hidden": hidden} if "hidden" in need else {}
    if need & {"logp", "entropy"}:
        targets = torch.tensor([t for pack in batch for i in pack.rows for t in rows[i].ids], device=device)
        logp, entropy = _head(policy, hidden, targets, temperature, "entropy" in need)
        found |= {"logp": logp} if "logp" in need else {}
        found |= {"entropy": entropy} if "entropy" in need else {}
    return found


def lay_out(rows: Sequence[Row], batch: Sequence[Pack]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, positions and segments (B, S), and the flat index of the state that predicts each id, in row order.

    Segment 0 is the prompt, j >= 1 the j-th answer, -1 padding (at the right).
    """
    shape = (len(batch), max(pack.length for pack in batch))
    ids = np.zeros(shape, dtype=np.int64)
    positions = np.tile(np.arange(shape[1]), (shape[0], 1))
    segment = np.full(shape, -1, dtype=np.int64)
    source: list[int] = []
    packed = any(len(pack.rows) > 1 for pack in batch)
    for b, pack in enumerate(batch):
        prompt = rows[pack.rows[0]].prompt_ids
        base = at = len(prompt)
        ids[b], ids[b, :base], segment[b, :base] = prompt[0], prompt, 0
        for j, i in enumerate(pack.rows, start=1):
            answer = rows[i].ids
            end = at + max(len(answer) - 1, 0)
            ids[b, at:end], segment[b, at:end] = answer[:-1], j
            positions[b, at:end] = np.arange(base, base + end - at)
            if answer:
                source += [b * shape[1] + base - 1, *range(b * shape[1] + at, b * shape[1] + end)]
            at = end
        # In a dense batch padding goes on counting (a jump would read as a new sequence); a packed one may be longer
        # than the context, and its mask hides the padding anyway.
        if packed:
            positions[b, at:] = 0
    return ids, positions, segment, np.array(source, dtype=np.int64)


def pack_mask(segment: Tensor) -> Tensor:
    """Attention mask (B, 1, S, S), True = may look: causal, at the prompt or the own answer; padding at itself."""
    order = torch.arange(segment.shape[1], device=segment.device)
    mine, theirs = segment[:, :, None], segment[:, None, :]
    allowed = (order[:, None] >= order) & ((theirs == mine) | (theirs == 0)) & (mine >= 0)
    return (allowed | (order[:, None] == order))[:, None]


def _head(
    policy: TransformersPolicy, hidden: Tensor, targets: Tensor, temperature: float, with_entropy: bool
) -> tuple[Tensor, Tensor]:
    def piece(h: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        logits = policy.logits(h)
        if temperature != 1:  # a division would copy the largest tensor of the step
            logits = logits / temperature
        norm = logits.logsumexp(-1)
        logp = logits.gather(-1, t[:, None])[:, 0] - norm
        if not with_entropy:
            return logp, logp.detach()
        return logp, norm - ((logits - norm[:, None]).exp() * logits).sum(-1)

    size = max(1, LOGITS_AT_ONCE // policy.vocab_size)
    if len(targets) <= size:
        return piece(hidden, targets)
    parts = [
        checkpoint(piece, h, t, use_reentrant=False) if torch.is_grad_enabled() else piece(h, t)
        for h, t in zip(hidden.split(size), targets.split(size), strict=True)
    ]
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
