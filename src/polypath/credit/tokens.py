"""Token credit: from one advantage per rollout to one per token."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array, as_float
from polypath.core.registry import register


@register("token_credit", "broadcast", returns="advantages", traits={"permutation_equivariant"})
def broadcast(advantages: Array, mask: Array) -> Array:
    """The rollout's advantage on each of its tokens, 0 on padding. Shapes: (..., G), (..., G, T) -> (..., G, T)."""
    return as_float(advantages)[..., None] * as_float(mask)


@register("token_credit", "top_entropy", returns="advantages", traits={"permutation_equivariant"})
def top_entropy(advantages: Array, entropy: Array, mask: Array, *, share: float = 0.2) -> np.ndarray:
    """The rollout's advantage on the `share` of the group's tokens with the highest entropy, 0 elsewhere.

    Entropy in nats. Shapes: (..., G), (..., G, T), (..., G, T) -> (..., G, T).
    """
    on = np.asarray(mask, dtype=bool)
    values = np.where(on, np.asarray(entropy, dtype=float), np.nan)
    values = np.where(on.any(axis=(-2, -1), keepdims=True), values, 0.0)  # a group without a token has no quantile
    bound = np.nanquantile(values.reshape(*on.shape[:-2], -1), 1.0 - share, axis=-1)[..., None, None]
    return np.asarray(advantages, dtype=float)[..., None] * (on & (np.asarray(entropy) >= bound))
