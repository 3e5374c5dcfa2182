"""Further terms of a training objective, summed like the policy losses: KL, entropy, cross entropy."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from polypath.core.registry import register
from polypath.losses.policy import aggregate_sum


@register("loss", "kl_k3")
def kl_k3(
    logp: Tensor,
    logp_reference: Tensor,
    mask: Tensor,
    *,
    beta: float = 0.04,
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "sequence_mean",
) -> Tensor:
    """beta times the summed k3 estimate of KL(policy || reference): exp(d) - d - 1 with d = logp_reference - logp.

    Source: Schulman, "Approximating KL divergence" (2020). Shapes: (N, T) each -> scalar sum.
    """
    difference = torch.where(mask.bool(), logp_reference - logp, 0.0)
    return beta * aggregate_sum(difference.exp() - difference - 1.0, mask, aggregate)


@register("loss", "entropy_bonus")
def entropy_bonus(
    entropy: Tensor,
    mask: Tensor,
    *,
    coefficient: float = 0.01,
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "token_mean",
) -> Tensor:
    """Minus coefficient times the summed entropy of the next-token distributions, in nats. (N, T) -> scalar sum."""
    return -coefficient * aggregate_sum(entropy, mask, aggregate)


@register("loss", "cross_entropy")
def cross_entropy(
    logp: Tensor, mask: Tensor, *, aggregate: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
) -> Tensor:
    """Summed negative log-likelihood of the trained tokens (supervised fine-tuning). (N, T) -> scalar sum."""
    return -aggregate_sum(logp, mask, aggregate)


@register("correction", "importance")
def importance_correction(
    logp_old: Tensor,
    logp_sampling: Tensor,
    mask: Tensor,
    *,
    mode: Literal["truncate", "mask"] = "truncate",
    level: Literal["token", "sequence", "geometric"] = "token",
    low: float = 0.5,
    high: float = 2.0,
) -> Tensor:
    """Weights (N, T) that correct rollouts drawn from another distribution than the training policy's; no gradient.

    w = pi_old/pi_sampling per token, per sequence (product) or its geometric mean. "truncate" is min(w, high) (TIS),
    "mask" keeps w inside [low, high] and is 0 outside (MIS). Multiply the advantages by it. 0 on padding.
    """
    with torch.no_grad():
        on = mask.to(logp_old.dtype)
        log_weight = torch.where(mask.bool(), logp_old - logp_sampling, 0.0)
        if level != "token":
            total = log_weight.sum(-1, keepdim=True)
            log_weight = (total / on.sum(-1, keepdim=True).clamp(min=1.0)) if level == "geometric" else total
        weight = log_weight.exp()
        if mode == "truncate":
            weight = weight.clamp(max=high)
        else:
            weight = torch.where((weight >= low) & (weight <= high), weight, 0.0)
        return weight * on
