"""Exploration: novelty sharpening, information gained, token curiosity, and bonuses weighed over the batch."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array, as_float
from polypath.core.registry import register
from polypath.credit.novelty import mean_logp
from polypath.credit.tokens import broadcast


@register(
    "reweight", "sharpen", returns="advantages", paper="arXiv:2510.06672 [0.19]", traits={"permutation_equivariant"}
)
def sharpen(
    advantages: Array, logp: Array, mask: Array, correct: Array, *, lam: float = 1.0, kappa: float = 0.5
) -> np.ndarray:
    """A + min(max(lam (1 - eta), 0), kappa A) for correct rollouts with A > 0, the others stay (XRPO).

    eta = exp(s - mean s), s a rollout's mean log-probability per token: what the policy finds likelier than its group
    gains nothing, and the gain is at most the share `kappa` of A.
    Shapes: (..., G), (..., G, T), (..., G, T), bool (..., G) -> (..., G).

    >>> sharpen([1.0, 1.0, 1.0], [[-0.5], [-1.0], [-2.0]], np.ones((3, 1)), [True, True, True]).tolist()
    [1.0, 1.0, 1.5]
    """
    values, score = np.asarray(advantages, dtype=float), np.asarray(mean_logp(logp, mask))
    eta = np.exp(score - score.mean(axis=-1, keepdims=True))
    gain = np.minimum(np.maximum(lam * (1.0 - eta), 0.0), kappa * values)
    return np.where(np.asarray(correct, dtype=bool) & (values > 0), values + gain, values)


@register("signal", "information_gain", returns="diversity", paper="Nous (1.103)", traits={"permutation_equivariant"})
def information_gain(beliefs: Array) -> np.ndarray:
    """Entropy of the first belief minus that of the last, over log K: how much a rollout's questions have found out.

    The steps' gains add up to it, so that asking more only pays when it tells more; negative when the belief became
    vaguer. Shapes: (..., G, D, K) -> (..., G).

    >>> information_gain([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]]).tolist()
    [1.0, 0.0]
    """
    share = np.asarray(beliefs, dtype=float)
    asked = ~np.isnan(share).any(axis=-1)
    logs = np.log(np.where(share > 0, share, 1.0))
    entropy = -(np.where(asked[..., None], share, 0.0) * logs).sum(axis=-1)
    last = np.maximum(asked.sum(axis=-1, keepdims=True) - 1, 0)
    gained = entropy[..., 0] - np.take_along_axis(entropy, last, axis=-1)[..., 0]
    return gained / np.log(max(share.shape[-1], 2))


@register("signal", "curiosity_bonus", returns="token_bonus", paper="CD-RLHF (0.98)", traits={"whole_batch"})
def curiosity_bonus(
    curiosity: Array, logp: Array, mask: Array, gate: Array | None = None, *, likely: float = 0.5, eps: float = 1e-8
) -> np.ndarray:
    """The forward model's error, whitened over the batch, at tokens that the policy does not hold for `likely` already.

    Whitened over all tokens of the mask, then taken where the token's probability is at most `likely` and the
    rollout's gate is open, 0 elsewhere. Runs once over the batch: (N, T), (N, T), (N, T), (N,) -> (N, T).
    """
    on, error = np.asarray(mask, dtype=bool), np.asarray(curiosity, dtype=float)
    known = error[on]
    white = (error - known.mean()) / np.sqrt(known.var() + eps) if known.size else np.zeros_like(error)
    bonus = np.where(on & (np.asarray(logp) <= np.log(likely)), white, 0.0)
    return bonus if gate is None else bonus * np.asarray(gate, dtype=float)[:, None]


@register("token_credit", "with_bonus", returns="advantages", traits={"permutation_equivariant"})
def with_bonus(advantages: Array, mask: Array, token_bonus: Array | None = None, *, eta: float = 0.04) -> Array:
    """The rollout's advantage plus `eta` times its tokens' bonus, on the tokens of the mask.

    Shapes: (..., G), (..., G, T), (..., G, T) -> (..., G, T).
    """
    spread_out = broadcast(advantages, mask)
    return spread_out if token_bonus is None else spread_out + eta * as_float(token_bonus) * as_float(mask)


@register("normalise", "weighted_z", returns="advantages", paper="SD-E2 (0.110)", traits={"whole_batch"})
def weighted_z(
    rewards: Array,
    lengths: Array,
    diversity: Array | None = None,
    gate: Array | None = None,
    *,
    efficiency: float = 0.5,
    variety: float = 0.25,
    eps: float = 1e-4,
) -> np.ndarray:
    """z(r) + efficiency * z(e) + variety * z(d), each z-scored over the batch, where e = 1 - length/longest.

    Only rollouts of the gate have an e and a d, others have 0: a wrong answer is not paid for being short or unusual.
    Runs once over the batch: (N,) each -> (N,).
    """
    lengths = np.asarray(lengths, dtype=float)
    open_ = np.ones_like(lengths) if gate is None else np.asarray(gate, dtype=float)
    short = open_ * (1.0 - lengths / np.maximum(lengths.max(), 1.0))
    spread = open_ * (0.0 if diversity is None else np.asarray(diversity, dtype=float))
    columns = np.stack([np.asarray(rewards, dtype=float), short, spread])
    centred = columns - columns.mean(axis=-1, keepdims=True)
    flat = columns.max(axis=-1, keepdims=True) == columns.min(axis=-1, keepdims=True)
    std = np.sqrt((centred**2).sum(axis=-1, keepdims=True) / max(columns.shape[-1] - 1, 1))
    scores = np.where(flat, 0.0, centred / (std + eps))
    return np.array([1.0, efficiency, variety]) @ scores
