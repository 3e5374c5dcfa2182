"""Batched sampling with shared prefixes, rows of different length, and draws that do not depend on the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from polypath.core.errors import UserError
from polypath.engines.cache import ModelCache, RowCache
from polypath.engines.prefix import PrefixPlan, plan_prefixes
from polypath.engines.protocol import Sample, SamplingParams

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy


@dataclass(frozen=True)
class Limits:
    """Bounds on what is in flight at once: rows, KV slots (prefix and answer of every row), and prefix sharing."""

    max_rows: int = 512
    max_tokens: int = 65_536
    min_shared: int = 8


def sample_rows(
    policy: TransformersPolicy, prefixes: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int]
) -> list[Sample]:
    """One sample per prefix; see `Policy.sample`. Raises UserError for a prefix that is empty or fills the context."""
    rows = [tuple(prefix) for prefix in prefixes]
    if len(rows) != len(seeds):
        raise ValueError(f"{len(rows)} prefixes but {len(seeds)} seeds")
    for i, row in enumerate(rows):
        if not 0 < len(row) < policy.max_positions:
            what = "is empty" if not row else f"has {len(row)} tokens, which fill the context ({policy.max_positions})"
            raise UserError("sample", f"prefix {i} {what}", "Shorten the prompt, or choose a model with more context.")
    samples: list[Sample | None] = [None] * len(rows)
    for chunk in chunks(rows, params.max_new_tokens, policy.limits, same_length=not policy.full_attention):
        drawn = _sample_chunk(policy, [rows[i] for i in chunk], params, [seeds[i] for i in chunk])
        for i, sample in zip(chunk, drawn, strict=True):
            samples[i] = sample
    return [sample for sample in samples if sample is not None]


def chunks(rows: Sequence[tuple[int, ...]], new: int, limits: Limits, same_length: bool) -> list[list[int]]:
    """Row indices in batches within the limits; rows that share a beginning stay neighbours.

    >>> chunks([(1, 2), (3,), (1, 2)], 1, Limits(max_rows=2), same_length=False)
    [[0, 2], [1]]
    """
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i]) if same_length else 0, rows[i], i))
    found: list[list[int]] = []
    longest = 0
    for i in order:
        longest = max(longest, len(rows[i]))
        fits = found and (
            len(found[-1]) < limits.max_rows and (len(found[-1]) + 1) * (longest + new) <= limits.max_tokens
        )
        if fits and not (same_length and len(rows[found[-1][0]]) != len(rows[i])):
            found[-1].append(i)
        else:
            found.append([i])
            longest = len(rows[i])
    return found


@torch.no_grad()
def _sample_chunk(
    policy: TransformersPolicy, rows: list[tuple[int, ...]], params: SamplingParams, seeds: Sequence[int]
) -> list[Sample]:
    plan = plan_prefixes(rows, policy.limits.min_shared if policy.full_attention else None)
    steps = min(params.max_new_tokens, policy.max_positions - min(map(len, rows)))
    cache, hidden = prefill(policy, plan, room=steps)
    policy.ledger.prefilled += plan.prefilled
    policy.ledger.reused += sum(map(len, rows)) - plan.prefilled
    samples = _decode(policy, cache, hidden, rows, steps, params, seeds)
    policy.ledger.generated += sum(len(sample.ids) for sample in samples)
    return samples


def prefill(policy: TransformersPolicy, plan: PrefixPlan, room: int) -> tuple[RowCache | ModelCache, Tensor]:
    """Forward every node of the plan once; return a cache with one row per planned row, and the last states (R, d)."""
    device, levels, states = policy.device, [], []
    lengths = torch.zeros(1, dtype=torch.long, device=device)
    cache: RowCache | ModelCache | None = None
    for nodes in plan.levels:
        width = max(len(node.tokens) for node in nodes)
        ids = torch.tensor([[n.tokens[0]] * (width - len(n.tokens)) + list(n.tokens) for n in nodes], device=device)
        sizes = torch.tensor([len(node.tokens) for node in nodes], device=device)
        if cache is None:
            cache, lengths = policy.new_cache(len(nodes)), torch.zeros_like(sizes)
        else:
            parents = torch.tensor([node.parent for node in nodes], device=device)
            cache, lengths = cache.select(parents, room=width), lengths[parents]
        offset = torch.arange(width, device=device) - (width - sizes)[:, None]  # (N, width), negative where padded
        positions = (lengths[:, None] + offset).clamp(min=0)
        hidden = policy.hidden(ids, positions, cache.open(offset >= 0), cache)
        lengths = lengths + sizes
        levels.append(cache)
        states.append(hidden[:, -1])
    starts = np.cumsum([0, *(len(nodes) for nodes in plan.levels)])
    index = torch.tensor([int(starts[level]) + i for level, i in plan.leaf], device=device)
    # Only full-attention models get a plan of more than one level, and so a RowCache.
    final = levels[0] if len(levels) == 1 else RowCache.stack([c for c in levels if isinstance(c, RowCache)])
    return final.select(index, room), torch.cat(states)[index]


def _decode(
    policy: TransformersPolicy,
    cache: RowCache | ModelCache,
    hidden: Tensor,
    rows: list[tuple[int, ...]],
    steps: int,
    params: SamplingParams,
    seeds: Sequence[int],
) -> list[Sample]:
    """Draw token by token; rows that are done leave the batch as soon as they are an eighth of it."""
    device, n = policy.device, len(rows)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    room = (policy.max_positions - lengths).clamp(max=steps)
    noise = torch.from_numpy(uniforms(seeds, steps)).to(device)
    stop = torch.tensor(sorted({*policy.stop_ids, *params.stop_ids}), dtype=torch.long, device=device)
    ids = torch.zeros(n, steps, dtype=torch.long, device=device)
    logp = torch.zeros(n, steps, device=device)
    count = torch.zeros(n, dtype=torch.long, device=device)
    live = torch.arange(n, device=device)  # the sample that each row of the batch belongs to
    done = torch.zeros(n, dtype=torch.bool, device=device)
    for t in range(steps):
        token, ids_logp = draw(policy.logits(hidden), noise[live, t], params)
        ids[live, t], logp[live, t] = token, ids_logp
        count[live] += ~done
        done |= torch.isin(token, stop) | (room[live] <= t + 1)
        left = len(live) - int(done.sum())
        if left == 0:
            break
        if (len(live) - left) * 8 >= len(live):
            keep = (~done).nonzero()[:, 0]
            live, token, done, cache = live[keep], token[keep], done[keep], cache.select(keep, room=steps - t)
        positions = (lengths[live] + t).clamp(max=policy.max_positions - 1)[:, None]
        mask = cache.open(torch.ones_like(token, dtype=torch.bool)[:, None])
        hidden = policy.hidden(token[:, None], positions, mask, cache)[:, 0]
    if not bool(torch.isfinite(logp).all()):
        raise UserError("sample", "the model's probabilities are not finite", "Lower the learning rate or use float32.")
    last = set(stop.tolist())
    answers = zip(ids.tolist(), logp.tolist(), count.tolist(), strict=True)
    return [Sample(i[:c], p[:c], bool(c) and i[c - 1] in last) for i, p, c in answers]


def draw(logits: Tensor, uniform: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor]:
    """Token ids (R,) by inversion of the cumulative distribution, and their log-probabilities under it.

    Shapes: logits (R, V), uniform (R,) in [0, 1). Greedy draws come from a point mass, so their log-probability is 0.
    """
    if params.temperature == 0:
        token = logits.argmax(-1)
        return token, torch.zeros_like(logits[:, 0])
    logits = logits / params.temperature
    if 0 < params.top_k < logits.shape[-1]:
        logits = logits.masked_fill(logits < logits.topk(params.top_k).values[:, -1:], -torch.inf)
    if params.top_p < 1:
        ordered, order = logits.sort(-1, descending=True)
        mass = ordered.softmax(-1)
        outside = (mass.cumsum(-1) - mass) >= params.top_p  # the first token is always inside
        outside[:, 0] = False
        logits = logits.masked_fill(torch.zeros_like(outside).scatter(-1, order, outside), -torch.inf)
    logp = logits.log_softmax(-1)
    # float64: a float32 sum over a large vocabulary would move the draws of rare tokens.
    cumulative = logp.exp().cumsum(-1, dtype=torch.float64)
    target = uniform[:, None] * cumulative[:, -1:]
    token = torch.searchsorted(cumulative, target, right=True).clamp(max=logits.shape[-1] - 1)
    return token[:, 0], logp.gather(-1, token)[:, 0]


def uniforms(seeds: Sequence[int], count: int) -> np.ndarray:
    """`count` uniform numbers in [0, 1) for every seed, shape (len(seeds), count); row i depends on seeds[i] alone.

    SplitMix64 (Steele, Lea and Flood 2014) as a counter-based generator, over all rows at once.
    """
    state = np.array([seed & (2**64 - 1) for seed in seeds], dtype=np.uint64)
    with np.errstate(over="ignore"):
        counter = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = _mix(_mix(state + np.uint64(0x9E3779B97F4A7C15))[:, None] + counter)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
