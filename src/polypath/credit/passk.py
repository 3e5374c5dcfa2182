"""Advantages for the best of k: a group of n rollouts stands for all its subsets of k at once.

A group of fewer than k rollouts is taken as one subset, k = n.
"""

from __future__ import annotations

from math import comb
from typing import Literal

from polypath.core.arrays import Array, array_namespace, as_array, as_float, tied
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.credit.normalise import CENTRED, centre


@register("normalise", "pass_at_k", returns="advantages", paper="arXiv:2508.10751", traits=CENTRED)
def pass_at_k(correct: Array, *, k: int = 4, eps: float = 1e-6) -> Array:
    """Mean over the k-subsets with rollout i of the subset's normalised advantage, its reward being "one is correct".

    With c of n correct, rho = 1 - C(n-c, k)/C(n, k) and s = sqrt(rho (1 - rho)): (1 - rho)/(s + eps) for a correct
    rollout and (1 - rho - C(n-c-1, k-1)/C(n-1, k-1))/(s + eps) for a wrong one. Where every subset or none is solved
    there is no signal; k = 1 is GRPO with the population's spread. Shapes: bool (..., G) -> (..., G).

    >>> pass_at_k([True, True] + [False] * 6, k=4).round(6).tolist()[1:3]
    [0.522232, -0.174077]
    """
    right = as_float(as_array(correct))
    xp = array_namespace(right)
    n = right.shape[-1]
    k = _bounded(k, n)
    wrong = n - xp.sum(right, axis=-1, keepdims=True)
    failed = _all_wrong(wrong, n, k)
    rest = _all_wrong(wrong - 1, n - 1, k - 1)
    value = xp.where(right > 0, failed + 0.0 * right, failed - rest)
    value = value / (xp.sqrt(failed * (1.0 - failed)) + eps)
    return xp.where((failed == 0) | tied(right), xp.zeros_like(value), value)


def _all_wrong(wrong: Array, n: int, k: int) -> Array:
    """C(wrong, k)/C(n, k), the chance that k of n drawn without replacement are all wrong."""
    xp = array_namespace(wrong)
    chance = xp.ones_like(wrong)
    for i in range(k):
        chance = chance * xp.clip(wrong - i, min=0.0) / (n - i)
    return chance


@register("normalise", "max_at_k", returns="advantages", paper="arXiv:2505.15201", traits={"permutation_equivariant"})
def max_at_k(rewards: Array, *, k: int = 4, baseline: Literal["mean", "without", "none"] = "without") -> Array:
    """Unbiased credit for E[max of k rewards] (PKPO), from one sort: O(n log n).

    "none" is (1/C(n, k)) times the sum over the k-subsets with i of their largest reward; "mean" centres it in the
    group; "without" subtracts from each subset the largest reward of its other members, so that only what a rollout
    adds is paid: never negative, and 0 for all in a tied group (k = 1 has no other members: there it is "mean").
    Shapes: (..., G) -> (..., G).

    >>> max_at_k([0.9, 0.5, 0.5, 0.1], k=2).round(6).tolist()
    [0.266667, 0.066667, 0.066667, 0.0]
    """
    rewards = as_float(rewards)
    n = rewards.shape[-1]
    k = _bounded(k, n)
    if baseline == "without" and k == 1:
        baseline = "mean"
    order = array_namespace(rewards).argsort(rewards, axis=-1)
    total = _added(rewards, order, n, k) if baseline == "without" else _largest(rewards, order, n, k)
    return centre(total) if baseline == "mean" else total


def _largest(rewards: Array, order: Array, n: int, k: int) -> Array:
    """Sum over k-subsets with i of the largest reward, over C(n, k). With p the place in ascending order from 0:
    i is the largest of C(p, k-1) subsets; a higher one at q of C(q-1, k-2)."""
    xp = array_namespace(rewards)
    ascending = xp.take_along_axis(rewards, order, axis=-1)
    higher = ascending * _weights(rewards, [comb(q - 1, k - 2) if k > 1 and q > 0 else 0 for q in range(n)], n, k)
    above = xp.sum(higher, axis=-1, keepdims=True) - xp.cumulative_sum(higher, axis=-1)
    own = ascending * _weights(rewards, [comb(p, k - 1) for p in range(n)], n, k)
    return xp.take_along_axis(own + above, xp.argsort(order, axis=-1), axis=-1)


def _added(rewards: Array, order: Array, n: int, k: int) -> Array:
    """Sum over the k-subsets where i is the largest of its lead over the second, which at q leads C(q, k-2) of them."""
    xp = array_namespace(rewards)
    ascending = xp.take_along_axis(rewards, order, axis=-1)
    weights = _weights(rewards, [comb(q, k - 2) for q in range(n)], n, k) + 0.0 * ascending
    lower = xp.cumulative_sum(weights, axis=-1) - weights
    lead = ascending * lower - (xp.cumulative_sum(weights * ascending, axis=-1) - weights * ascending)
    lead = xp.take_along_axis(lead, xp.argsort(order, axis=-1), axis=-1)
    return xp.where(tied(rewards), xp.zeros_like(lead), xp.clip(lead, min=0.0))


def _weights(like: Array, counts: list[int], n: int, k: int) -> Array:
    """Numbers of subsets as shares of C(n, k); exact integers until here, so that no binomial overflows."""
    return array_namespace(like).asarray([count / comb(n, k) for count in counts], dtype=like.dtype)


def _bounded(k: int, n: int) -> int:
    if k < 1:
        raise UserError("normalise.k", f"k is {k}", "Draw at least one rollout.")
    return max(1, min(int(k + 0.5), n))  # a schedule's value may lie between
