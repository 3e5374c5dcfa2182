"""Policy losses with another function of the importance ratio than the clipped one. Sums, as in `policy`."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from polypath.core.registry import register
from polypath.losses.policy import aggregate_sum, clipped_objective, log_ratio

LARGEST_LOG_RATIO = 20.0  # e^20 is far beyond any ratio that still means something, and exp stays finite


@register("loss", "gmpo", paper="arXiv:2507.20673")
def gmpo(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    low: float = 0.4,
    high: float = 0.4,
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "sequence_mean",
    constant_length: int | None = None,
) -> Tensor:
    """Summed -A times the geometric mean of a sequence's token ratios, each clipped on the side that the sign of A
    makes risky: log rho at most `high` for A > 0, at least -`low` for A < 0.

    Shapes: (N, T), (N, T), (N,) or (N, T), (N, T) -> scalar sum. Source: GMPO, eq. 4 and the clip range (e^-.4, e^.4).
    """
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    log_rho = log_ratio(logp, logp_old, mask, "token")
    bounded = torch.where(advantages >= 0, log_rho.clamp(max=high), log_rho.clamp(min=-low))
    bounded = torch.where(mask.bool(), bounded, 0.0)
    geometric = (bounded.sum(-1, keepdim=True) / mask.to(logp.dtype).sum(-1, keepdim=True).clamp(min=1.0)).exp()
    return -aggregate_sum(geometric * advantages + 0.0 * log_rho.detach(), mask, aggregate)


@register("loss", "hacpo", paper="arXiv:2603.02604")
def hacpo(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    foreign: Tensor | None = None,
    update: int = 0,
    *,
    low: float = 3e-4,
    high: float = 4e-4,
    alpha: float = 1.0,
    delta: float = 0.8,
    tighten: float = 0.025,
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "sequence_mean",
    constant_length: int | None = None,
) -> Tensor:
    """Summed surrogate of sequences by several agents: GSPO for the own ones, a one-sided window for foreign ones.

    The length-normalised ratio s of a foreign sequence to the agent that wrote it (`logp_old`) weighs s^(1 + alpha), of
    which s^alpha is a constant, and is kept within [1 - delta + tighten * update, 1]: what others wrote counts less,
    never more, and has no gradient outside the window. `update` numbers the updates on one batch from 0.
    Shapes: (N, T), (N, T), (N,) or (N, T), (N, T), bool (N,) -> scalar sum.
    """
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    ratio = log_ratio(logp, logp_old, mask, "sequence").clamp(max=LARGEST_LOG_RATIO).exp()
    objective = clipped_objective(ratio, advantages, low, high)
    if foreign is not None:
        window = ratio.clamp(min(1.0 - delta + tighten * update, 1.0), 1.0)
        weighted = window * window.detach() ** alpha * advantages
        objective = torch.where(foreign[:, None], weighted, objective)
    return -aggregate_sum(objective, mask, aggregate)


@register("loss", "sapo", paper="arXiv:2511.20347")
def sapo(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    positive: float = 1.0,
    negative: float = 1.05,
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "sequence_mean",
    constant_length: int | None = None,
) -> Tensor:
    """Summed -f(rho) A with the soft gate f(rho) = 4/tau sigmoid(tau (rho - 1)), whose slope at rho = 1 is 1.

    The temperature tau is `positive` for A > 0 and `negative` otherwise: a larger one closes the gate sooner.
    Shapes: (N, T), (N, T), (N,) or (N, T), (N, T) -> scalar sum.
    """
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    ratio = log_ratio(logp, logp_old, mask, "token").exp()
    tau = torch.where(advantages > 0, positive, negative)
    return -aggregate_sum(torch.sigmoid(tau * (ratio - 1.0)) * 4.0 / tau * advantages, mask, aggregate)


@register("loss", "vespo", paper="VESPO, as in TRL 1.16")
def vespo(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    positive: tuple[float, float] = (2.0, 3.0),
    negative: tuple[float, float] = (3.0, 2.0),
    aggregate: Literal["token_mean", "sequence_mean", "constant"] = "token_mean",
    constant_length: int | None = None,
) -> Tensor:
    """Summed -phi(w) A logp with the constant weight phi(w) = exp(lam + k log w - lam w) of the sequence's ratio w.

    w is the *product* of the token ratios; phi(1) = 1 and phi falls to 0 on both sides of its top. (k, lam) is
    `positive` for A >= 0 and `negative` below. Shapes: (N, T), (N, T), (N,) or (N, T), (N, T) -> scalar sum.
    """
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    log_w = log_ratio(logp, logp_old, mask, "token").detach().sum(-1, keepdim=True)
    log_w = log_w.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    k = torch.where(advantages >= 0, positive[0], negative[0])
    lam = torch.where(advantages >= 0, positive[1], negative[1])
    weight = (lam + k * log_w - lam * log_w.exp()).exp()
    return -aggregate_sum(weight * advantages * logp, mask, aggregate)
