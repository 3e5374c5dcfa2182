"""Entropy control by covariance: entropy falls as fast as log-probability and advantage covary, on few tokens most.

Source: Cui et al. 2025, "The Entropy Mechanism of Reinforcement Learning" (arXiv:2505.22617). The covariance is taken
over the rows of one call: micro-batches have their own, as in the authors' release.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.losses.policy import aggregate_sum, log_ratio


def covariance(logp: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """(A - mean A)(logp - mean logp) per token over all trained tokens, no gradient; -inf on padding. (N, T)."""
    on = mask.bool()
    logp, advantages = logp.detach(), advantages.expand_as(logp)
    centred = [torch.where(on, x, 0.0).sum() / on.sum().clamp(min=1) for x in (advantages, logp)]
    return torch.where(on, (advantages - centred[0]) * (logp - centred[1]), -torch.inf)


@register("loss", "clip_cov", paper="arXiv:2505.22617")
def clip_cov(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    share: float = 2e-4,
    lowest: float = 1.0,
    highest: float = 5.0,
    low: float = 0.2,
    high: float = 0.2,
    seed: int = 0,
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "token_mean",
    constant_length: int | None = None,
) -> Tensor:
    """The clipped surrogate without a random `share` of all tokens, from those of covariance in (lowest, highest).

    At least one token is drawn where any is eligible; a token that the ratio clip already stops is not. The draw
    depends on `seed`, the shape and the number of eligible tokens alone.
    """
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    ratio = log_ratio(logp, logp_old, mask, "token").exp()
    plain, clipped = ratio * advantages, ratio.clamp(1.0 - low, 1.0 + high) * advantages
    cov = covariance(logp, advantages, mask)
    eligible = ((cov > lowest) & (cov < highest) & (plain <= clipped)).flatten().nonzero().flatten()
    generator = torch.Generator().manual_seed(derive(seed, *logp.shape, len(eligible)) % 2**63)
    drawn = torch.randperm(len(eligible), generator=generator)[: max(1, int(share * float(mask.sum())))]
    weight = torch.ones_like(logp).flatten()
    weight[eligible[drawn.to(eligible.device)]] = 0.0
    return -aggregate_sum(torch.minimum(plain, clipped) * weight.view_as(logp), mask, aggregate)


@register("loss", "kl_cov", paper="arXiv:2505.22617")
def kl_cov(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    share: float = 2e-3,
    coefficient: float = 1.0,
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "token_mean",
    constant_length: int | None = None,
) -> Tensor:
    """The unclipped surrogate plus coefficient |logp - logp_old| on the `share` of tokens with the largest covariance.

    At least one token is held; the term acts from the second update on a batch, when the two policies differ.
    """
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    log_rho = log_ratio(logp, logp_old, mask, "token")
    cov = covariance(logp, advantages, mask).flatten()
    held = torch.zeros_like(cov)
    count = min(max(1, int(share * float(mask.sum()))), int(mask.sum()))
    held[cov.topk(count).indices] = 1.0
    penalty = coefficient * held.view_as(logp) * log_rho.abs()
    return -aggregate_sum(log_rho.exp() * advantages - penalty, mask, aggregate)
