"""Token credit from what the model itself was unsure of."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array
from polypath.core.registry import register


@register("token_credit", "top_product", returns="advantages", paper="D3S (2.67)", traits={"permutation_equivariant"})
def top_product(
    advantages: Array, entropy: Array, mask: Array, keep: Array | None = None, *, share: float = 0.2
) -> np.ndarray:
    """The rollout's advantage on the `share` of the group's tokens with the largest |A| times entropy, 0 elsewhere.

    Tokens of dropped rollouts do not count. Shapes: (..., G), (..., G, T) twice, bool (..., G) -> (..., G, T).
    """
    on, values = np.asarray(mask, dtype=bool), np.asarray(advantages, dtype=float)[..., None]
    if keep is not None:
        on = on & np.asarray(keep, dtype=bool)[..., None]
    product = np.where(on, np.abs(values) * np.asarray(entropy, dtype=float), np.nan)
    product = np.where(on.any(axis=(-2, -1), keepdims=True), product, 0.0)  # a group without a token has no quantile
    bound = np.nanquantile(product.reshape(*on.shape[:-2], -1), 1.0 - share, axis=-1)[..., None, None]
    return np.where(on & (np.nan_to_num(product, nan=-1.0) >= bound), values, 0.0)


@register("token_credit", "doubt", returns="advantages", paper="ECHO (0.39)", traits={"permutation_equivariant"})
def doubt(
    advantages: Array,
    entropy: Array,
    confidence: Array,
    mask: Array,
    *,
    entropy_weight: float = 1.0,
    confidence_weight: float = 1.0,
    multiply: float = 0.1,
    add: float = 0.0,
    largest: float = 3.0,
    negatives: bool = False,
) -> np.ndarray:
    """A (1 + multiply S) + add (S - mean S), S = z(entropy) + z(1 - confidence) per token, |S| <= `largest` (ECHO).

    z is over the group's tokens, 0 where they are all alike. The factor acts on positive advantages, and with
    `negatives` on all: then uncertain tokens are pushed down harder, and entropy may grow without bound. `confidence`
    is the mean probability of the likeliest tokens. Shapes: (..., G), (..., G, T) three times -> (..., G, T).
    """
    on, values = np.asarray(mask, dtype=bool), np.asarray(advantages, dtype=float)[..., None]
    score = entropy_weight * _z(np.asarray(entropy, dtype=float), on)
    score += confidence_weight * _z(1.0 - np.asarray(confidence, dtype=float), on)
    score = np.clip(score, -largest, largest)
    count = np.maximum(on.sum(axis=(-2, -1), keepdims=True), 1)
    mean = np.where(on, score, 0.0).sum(axis=(-2, -1), keepdims=True) / count
    live = np.any(values != 0, axis=(-2, -1), keepdims=True)
    raised = values * np.where((values > 0) | negatives, 1.0 + multiply * score, 1.0)
    return np.where(on, raised + add * live * (score - mean), 0.0)


def _z(values: np.ndarray, on: np.ndarray) -> np.ndarray:
    """z-score over the last two axes where `on`, sample standard deviation, 0 where all are equal."""
    count = np.maximum(on.sum(axis=(-2, -1), keepdims=True), 1)
    centred = np.where(on, values - np.where(on, values, 0.0).sum(axis=(-2, -1), keepdims=True) / count, 0.0)
    std = np.sqrt((centred**2).sum(axis=(-2, -1), keepdims=True) / np.maximum(count - 1, 1))
    return np.where(std > 1e-9, centred / np.maximum(std, 1e-9), 0.0)


@register("token_credit", "doubt_clip", returns="clip", paper="ECHO (0.39)", traits={"permutation_equivariant"})
def doubt_clip(
    confidence: Array, mask: Array, *, tail: int = 16, base: float = 0.05, height: float = 0.15, slope: float = 4.0
) -> np.ndarray:
    """ECHO's clip range per rollout, base + height sigmoid(slope (1 - c)), c the mean confidence of the last `tail`.

    The loss takes it in place of `low` and `high`. The sigmoid is at least 1/2, so that the range is .125 to .197 with
    the defaults. (..., G, T) twice -> (..., G).

    >>> doubt_clip([[0.9], [0.2]], [[1], [1]]).round(6).tolist()
    [0.139803, 0.194125]
    """
    on, values = np.asarray(mask, dtype=bool), np.asarray(confidence, dtype=float)
    last = on & (np.flip(np.cumsum(np.flip(on, -1), axis=-1), -1) <= tail)
    mean = np.where(last, values, 0.0).sum(axis=-1) / np.maximum(last.sum(axis=-1), 1)
    return base + height / (1.0 + np.exp(-slope * (1.0 - mean)))
