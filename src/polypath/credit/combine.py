"""How a diversity signal meets the reward: bonuses after normalisation, guarded spreads, several signals at once."""

from __future__ import annotations

from typing import Literal

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_float, divide, mean, spread, tied
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.credit.memory import Memory
from polypath.credit.normalise import CENTRED, centre


@register("fuse", "amplify", returns="rewards", traits={"permutation_equivariant"})
def amplify(
    rewards: Array,
    diversity: Array,
    gate: Array | None = None,
    *,
    lam: float = 0.5,
    negatives: Literal["shift", "keep"] = "shift",
) -> Array:
    """r (1 + lam * gate * d): a rollout without reward gains nothing by being different.

    A negative reward would fall with d, so a group that has a gated one is first shifted by its minimum
    (`negatives="shift"`). Shapes: (..., G) each -> (..., G).

    >>> amplify([1.0, 1.0, 0.0], [0.0, 1.0, 1.0]).tolist()
    [1.0, 1.5, 0.0]
    """
    rewards, bonus = as_float(rewards), lam * as_float(diversity)
    xp = array_namespace(rewards)
    gate = xp.ones_like(rewards) if gate is None else as_float(gate)
    if negatives == "shift":
        lowest = xp.min(xp.where(gate > 0, rewards, xp.zeros_like(rewards)), axis=-1, keepdims=True)
        rewards = rewards - xp.where(lowest < 0, xp.min(rewards, axis=-1, keepdims=True), xp.zeros_like(lowest))
    return rewards * (1.0 + gate * bonus)


@register("fuse", "uncertainty", returns="rewards", paper="R-Diverse (0.41)", traits={"permutation_equivariant"})
def uncertainty(rewards: Array) -> Array:
    """1 - 2 |p - 1/2| of a share p: a question is worth most when half of its answers are right. (..., G) -> (..., G).

    >>> uncertainty([0.0, 0.25, 0.5, 1.0]).tolist()
    [0.0, 0.5, 1.0, 0.0]
    """
    share = as_float(rewards)
    return 1.0 - 2.0 * array_namespace(share).abs(share - 0.5)


@register(
    "fuse", "product_of_columns", returns="rewards", paper="Chess puzzles (1.90)", traits={"permutation_equivariant"}
)
def product_of_columns(reward_columns: Array) -> Array:
    """The product of the rewards: every one must be met. Undefined and negative ones count as 0.

    Shapes: (..., G, M) -> (..., G).
    """
    columns = as_float(reward_columns)
    xp = array_namespace(columns)
    return xp.prod(xp.where(columns > 0, columns, xp.zeros_like(columns)), axis=-1)


@register(
    "normalise", "synergy", returns="advantages", paper="Customized-GRPO (1.70)", traits={"permutation_equivariant"}
)
def synergy(column_advantages: Array, *, strength: float = 0.5) -> Array:
    """The sum s of the columns plus sign(s) * strength * the sum of their pairwise products.

    For two rewards a + b + sign(a + b) * strength * ab: where they agree they count more than their sum, where they
    conflict less. A sum that is zero up to rounding has no sign, so that rewards in perfect conflict give 0 in any
    order of the rows. Shapes: (..., G, M) -> (..., G).

    >>> synergy([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [2.0, -1.0]]).tolist()
    [2.5, 0.0, -2.5, 0.0]
    """
    columns = as_float(column_advantages)
    xp = array_namespace(columns)
    total = xp.sum(columns, axis=-1)
    pairs = (total**2 - xp.sum(columns**2, axis=-1)) / 2.0
    rounding = 1e-9 * xp.sum(xp.abs(columns), axis=-1)
    sign = xp.where(xp.abs(total) > rounding, xp.sign(total), xp.zeros_like(total))
    return total + strength * sign * pairs


@register("normalise", "guarded_z", returns="advantages", traits=CENTRED)
def guarded_z(rewards: Array, base_rewards: Array, *, eps: float = 1e-4, ddof: int = 1) -> Array:
    """The z-score of the fused rewards, but only centred where the rewards *as given* are all equal.

    There the fused rewards differ by their diversity alone, and dividing by that spread would blow a small
    difference up to unit variance. Shapes: (..., G), (..., G) -> (..., G).

    >>> guarded_z([1.0, 1.01], [1.0, 1.0]).round(6).tolist()
    [-0.005, 0.005]
    """
    fused, base = as_float(rewards), as_float(base_rewards)
    xp = array_namespace(fused)
    scale = spread(fused, ddof=ddof) + eps
    return divide(centre(fused), xp.where(tied(base), xp.ones_like(scale), scale))


@register("reweight", "add_bonus", returns="advantages", traits={"permutation_equivariant"})
def add_bonus(
    advantages: Array, diversity: Array, gate: Array | None = None, *, lam: float = 0.1, centred: bool = False
) -> Array:
    """A + lam * gate * d, outside the normalisation, so that the bonus keeps its size.

    With `centred` the bonus is taken minus its mean over the rollouts of the gate, so that it adds up to zero and a
    negative d costs a rollout of the gate nothing against the others. Shapes: (..., G) each -> (..., G).

    >>> add_bonus([0.0, 0.0, 0.0], [1.0, 3.0, 9.0], [1, 1, 0], lam=0.5, centred=True).tolist()
    [-0.5, 0.5, 0.0]
    """
    advantages, bonus = as_float(advantages), as_float(diversity)
    xp = array_namespace(advantages)
    gate = xp.ones_like(advantages) if gate is None else as_float(gate)
    if centred:
        bonus = bonus - divide(mean(gate * bonus), mean(gate))
    return advantages + lam * gate * bonus


@register("reweight", "boost", returns="advantages", traits={"permutation_equivariant"})
def boost(advantages: Array, diversity: Array, gate: Array | None = None, *, lam: float = 0.5) -> Array:
    """A (1 + lam * gate * d): the sign stays, and a rollout outside the gate too. Shapes: (..., G) each -> (..., G).

    >>> boost([1.0, -1.0], [1.0, 1.0], [1, 0]).tolist()
    [1.5, -1.0]
    """
    bonus = lam * as_float(diversity)
    return as_float(advantages) * (1.0 + (bonus if gate is None else as_float(gate) * bonus))


@register("signal", "collect", returns="bonuses", traits={"permutation_equivariant"})
def collect(diversity: Array, bonuses: Array | None = None) -> Array:
    """Put the last signal beside those collected before: (..., G), (..., G, S) -> (..., G, S + 1)."""
    last = as_float(diversity)[..., None]
    return last if bonuses is None else array_namespace(last).concat([as_float(bonuses), last], axis=-1)


@register("signal", "combine", returns="diversity", paper="HIRE (1.40)", traits={"whole_batch"})
def combine(
    bonuses: Array,
    memory: Memory,
    *,
    mode: Literal["sum", "product", "max", "cycle"] = "product",
    scale: bool = True,
) -> np.ndarray:
    """One bonus from the collected ones: "sum", geometric mean ("product", wants all), "max" (any), or in turns.

    With `scale` each is divided by its standard deviation over the earlier batches (1 in the first one), so that the
    units do not decide. A product of three would vanish, hence the root; negative bonuses count as 0 there.
    Runs once over the batch: (N, S) -> (N,). Kept in memory["combine"].
    """
    values = np.asarray(bonuses, dtype=float)
    signals = values.shape[-1]
    seen, means, squares, turn = memory.get("combine", [0, [0.0] * signals, [0.0] * signals, 0])
    if len(means) != signals:
        raise UserError("signal.combine", f"{signals} bonuses, {len(means)} in memory", "Start with a new memory.")
    std = np.sqrt(np.maximum(np.array(squares) - np.square(means), 0.0)) if scale and seen else np.ones(signals)
    scaled = values / np.where(std > 0, std, 1.0)
    total = seen + len(values)
    share = len(values) / total
    after = [
        (1 - share) * np.array(old) + share * new.mean(axis=0) for old, new in ((means, values), (squares, values**2))
    ]
    memory["combine"] = [total, after[0].tolist(), after[1].tolist(), turn + 1]
    combined = {
        "sum": scaled.sum(axis=-1),
        "product": np.maximum(scaled, 0.0).prod(axis=-1) ** (1.0 / signals),
        "max": scaled.max(axis=-1),
        "cycle": scaled[..., turn % signals],
    }
    return combined[mode]
