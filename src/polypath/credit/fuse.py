"""Fusion: rewards from rewards, a diversity signal and a gate (1 everywhere when there is no gate stage)."""

from __future__ import annotations

from typing import Annotated, Literal

from polypath.core.arrays import Array, array_namespace, as_float, divide, mean
from polypath.core.recipe_types import Range
from polypath.core.registry import register


@register("fuse", "additive", returns="rewards", traits={"permutation_equivariant"})
def additive(
    rewards: Array, diversity: Array, gate: Array | None = None, *, lam: float = 1.0, conserve: bool = False
) -> Array:
    """r + lam * gate * d; with `conserve` the bonus is centred, so that the group's total reward is unchanged.

    Shapes: (..., G) each -> (..., G).

    >>> additive([1.0, 0.0], [0.5, 1.0], lam=0.2).tolist()
    [1.1, 0.2]
    """
    rewards, bonus = as_float(rewards), lam * as_float(diversity)
    if gate is not None:
        bonus = bonus * as_float(gate)
    return rewards + (bonus - mean(bonus) if conserve else bonus)


@register("fuse", "multiplicative", returns="rewards", traits={"permutation_equivariant"})
def multiplicative(
    rewards: Array,
    diversity: Array,
    gate: Array | None = None,
    *,
    strength: float = 1.0,
    conserve: bool = False,
    negatives: Literal["shift", "keep"] = "shift",
) -> Array:
    """Gated rewards times (1 - strength) + strength * d: the plain product at strength 1, DPWriter's mixture below.

    `conserve` rescales the gated rewards so that their total is unchanged; it stays undone where the products are all
    zero. A negative reward times a small d would make a redundant rollout *better*, so a group with a negative gated
    reward is first shifted by its minimum (`negatives="shift"`).
    Shapes: (..., G) each -> (..., G).

    >>> multiplicative([1.0, 1.0, 0.0], [0.25, 0.75, 1.0], conserve=True).tolist()
    [0.5, 1.5, 0.0]
    """
    rewards = as_float(rewards)
    xp = array_namespace(rewards)
    gate = xp.ones_like(rewards) if gate is None else as_float(gate)
    if negatives == "shift":
        lowest = xp.min(xp.where(gate > 0, rewards, xp.zeros_like(rewards)), axis=-1, keepdims=True)
        shift = xp.where(lowest < 0, xp.min(rewards, axis=-1, keepdims=True), xp.zeros_like(lowest))
        rewards = rewards - shift
    gated = gate * rewards
    product = gated * (1.0 + strength * (as_float(diversity) - 1.0))
    if conserve:
        total = xp.sum(product, axis=-1, keepdims=True)
        scale = xp.where(total == 0, xp.ones_like(total), divide(xp.sum(gated, axis=-1, keepdims=True), total))
        product = product * scale
    return product + (1.0 - gate) * rewards


@register("fuse", "overlong", returns="rewards", paper="arXiv:2503.14476", traits={"permutation_equivariant"})
def overlong(rewards: Array, lengths: Array, *, max_length: int, buffer: Annotated[int, Range(1, None)]) -> Array:
    """Soft penalty of long answers (DAPO): 0 up to max_length - buffer, then falling linearly to -1 at max_length.

    Lengths in tokens. Shapes: (..., G), (..., G) -> (..., G).

    >>> overlong([0.0] * 4, [80, 90, 100, 101], max_length=100, buffer=20).tolist()
    [0.0, -0.5, -1.0, -1.0]
    """
    rewards, lengths = as_float(rewards), as_float(lengths)
    xp = array_namespace(rewards)
    return rewards + xp.clip((max_length - buffer - lengths) / buffer, -1.0, 0.0)
