"""Policy losses as *sums*: divide by `denominator(...)` of the whole step, so that any split into micro-batches and
processes gives the same gradient as the whole batch at once.

All tensors are right- or left-padded `(N, T)`, advantages `(N,)` or `(N, T)`; a loss is minus an objective.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from polypath.core.errors import UserError
from polypath.core.registry import register

Aggregate = Literal["token_mean", "sequence_mean", "constant"]
Level = Literal["token", "sequence"]


def denominator(aggregate: Aggregate, lengths: Tensor, *, constant_length: int | None = None) -> float:
    """What the summed loss of one optimiser step is divided by, from the trained tokens (N,) of *all* its rollouts.

    token_mean: number of tokens (DAPO); sequence_mean: number of sequences (GRPO); constant: sequences times
    `constant_length` (Dr. GRPO). At least 1, so that an empty step is a zero step.
    Raises UserError when `constant` has no length.
    """
    if aggregate == "token_mean":
        return max(float(lengths.sum()), 1.0)
    if aggregate == "constant" and constant_length is None:
        raise UserError("loss.constant_length", "aggregate 'constant' needs a length", "Give the longest completion.")
    scale = constant_length if aggregate == "constant" and constant_length is not None else 1
    return max(float(len(lengths) * scale), 1.0)


def aggregate_sum(values: Tensor, mask: Tensor, aggregate: Aggregate) -> Tensor:
    """Sum of per-token values (N, T) where `mask`; under sequence_mean each sequence's sum is first averaged."""
    weights = mask.to(values.dtype)
    if aggregate == "sequence_mean":
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1.0)
    return (torch.where(mask.bool(), values, 0.0) * weights).sum()


def log_ratio(logp: Tensor, logp_old: Tensor, mask: Tensor, level: Level) -> Tensor:
    """Log importance ratio (N, T). At sequence level the length-normalised ratio of GSPO on every token, whose
    gradient still flows through each token's own log-probability."""
    ratio = torch.where(mask.bool(), logp - logp_old, 0.0)
    if level == "token":
        return ratio
    sequence = ratio.sum(-1, keepdim=True) / mask.to(ratio.dtype).sum(-1, keepdim=True).clamp(min=1.0)
    return ratio - ratio.detach() + sequence.detach()


def clipped_objective(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """min(rho A, clip(rho, 1 - low, 1 + high) A), elementwise: no gain from leaving the range (PPO)."""
    return torch.minimum(ratio * advantages, ratio.clamp(1.0 - low, 1.0 + high) * advantages)


@register("loss", "policy_clip", paper="arXiv:1707.06347")
def policy_clip(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    low: float = 0.2,
    high: float = 0.2,
    level: Literal["token", "sequence"] = "token",
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "token_mean",
    constant_length: int | None = None,
    dual_clip: float | None = None,
) -> Tensor:
    """Summed clipped surrogate -min(rho A, clip(rho, 1 - low, 1 + high) A); divide by `denominator`.

    `dual_clip` c bounds the objective of a negative advantage from below by c A. `level="sequence"` is GSPO.
    `constant_length` only enters the denominator.
    """
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    ratio = log_ratio(logp, logp_old, mask, level).exp()
    objective = clipped_objective(ratio, advantages, low, high)
    if dual_clip is not None:
        objective = torch.where(advantages < 0, torch.maximum(objective, dual_clip * advantages), objective)
    return -aggregate_sum(objective, mask, aggregate)


@register("loss", "cispo", paper="arXiv:2506.13585")
def cispo(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    low: float | None = None,
    high: float = 0.2,
    bound: Literal["relative", "absolute"] = "relative",
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "token_mean",
    constant_length: int | None = None,
) -> Tensor:
    """Summed -clip(rho) A logp with the clipped ratio as a constant weight, so that every token keeps its gradient.

    With `bound="relative"` the weight is at most 1 + high, and at least 1 - low if that is given (verl); with
    "absolute" the bounds are `high` and `low` themselves (TRL's `epsilon_high`, such as 5).
    """
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    ratio = log_ratio(logp, logp_old, mask, "token").exp().detach()
    one = 1.0 if bound == "relative" else 0.0
    weight = ratio.clamp(min=None if low is None else abs(one - low), max=one + high)
    return -aggregate_sum(weight * advantages * logp, mask, aggregate)


def policy_stats(
    logp: Tensor, logp_old: Tensor, mask: Tensor, *, low: float = 0.2, high: float = 0.2
) -> dict[str, float]:
    """Sums over the trained tokens, to be added over micro-batches: tokens, clipped_low, clipped_high, kl (k3)."""
    with torch.no_grad():
        ratio = log_ratio(logp, logp_old, mask, "token")
        rho, on = ratio.exp(), mask.bool()
        return {
            "tokens": float(on.sum()),
            "clipped_low": float(((rho < 1.0 - low) & on).sum()),
            "clipped_high": float(((rho > 1.0 + high) & on).sum()),
            "kl": float(torch.where(on, rho - 1.0 - ratio, 0.0).sum()),
        }
