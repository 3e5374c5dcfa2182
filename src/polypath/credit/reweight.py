"""After normalisation: reweight, bound and filter advantages."""

from __future__ import annotations

from polypath.core.arrays import Array, array_namespace, as_array, as_float, divide, tied
from polypath.core.registry import register


@register("reweight", "weight", returns="advantages", traits={"permutation_equivariant"})
def weight(advantages: Array, diversity: Array, gate: Array | None = None, *, renormalise: bool = False) -> Array:
    """A times the diversity weight where the gate is open; the sign stays.

    `renormalise` rescales the weights to mean 1 over the gated rollouts, so that the size of the update is kept.
    Shapes: (..., G) each -> (..., G).
    """
    advantages, weights = as_float(advantages), as_float(diversity)
    xp = array_namespace(advantages)
    gate = xp.ones_like(advantages) if gate is None else as_float(gate)
    if renormalise:
        open_ = xp.sum(gate, axis=-1, keepdims=True)
        weights = divide(weights * open_, xp.sum(gate * weights, axis=-1, keepdims=True) + 0.0 * weights)
    return advantages * (gate * weights + (1.0 - gate))


@register("reweight", "floor_correct", returns="advantages", traits={"permutation_equivariant"})
def floor_correct(advantages: Array, correct: Array, *, floor: float | None = 0.0) -> Array:
    """At least `floor` for correct rollouts; None leaves all as they are. Shapes: (..., G), (..., G) -> (..., G)."""
    advantages = as_float(advantages)
    if floor is None:
        return advantages
    xp = array_namespace(advantages)
    return xp.where(as_array(correct) & (advantages < floor), floor + 0.0 * advantages, advantages)


@register("reweight", "drop_tied", returns="keep", paper="arXiv:2503.14476", traits={"permutation_equivariant"})
def drop_tied(base_rewards: Array) -> Array:
    """Drop groups whose rewards, as given, are exactly equal (DAPO's dynamic sampling). (..., G) -> bool (..., G)."""
    base = as_float(base_rewards)
    return (base == base) & ~tied(base)


@register("reweight", "drop_overlong", returns="keep", paper="arXiv:2503.14476", traits={"permutation_equivariant"})
def drop_overlong(lengths: Array, *, max_length: int) -> Array:
    """Drop rollouts of `max_length` tokens or more, which were cut off: their reward says nothing of the answer (DAPO).

    The alternative to the soft penalty `overlong`. Shapes: (..., G) -> bool (..., G).
    """
    return as_float(lengths) < max_length
