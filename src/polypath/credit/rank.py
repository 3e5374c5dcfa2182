"""Rewards from places: a judge that ranks a group well may score it badly."""

from __future__ import annotations

from typing import Literal

import numpy as np

from polypath.core.arrays import Array
from polypath.core.registry import register


@register("representation", "reward_ranks", returns="ranks", traits={"permutation_equivariant"})
def reward_ranks(rewards: Array) -> np.ndarray:
    """Places by reward, 1 for the largest, for a judge that scores instead of ranking; ties share their mean place.

    Shapes: (..., G) -> (..., G).

    >>> reward_ranks([0.9, 0.2, 0.9, 0.5]).tolist()
    [1.5, 4.0, 1.5, 3.0]
    """
    return places(-np.asarray(rewards, dtype=float))


def places(ranks: Array) -> np.ndarray:
    """Places 1 ... G in ascending order, ties sharing their mean place: (..., G) -> (..., G)."""
    values = np.asarray(ranks, dtype=float)
    before = (values[..., None, :] < values[..., :, None]).sum(axis=-1)
    equal = (values[..., None, :] == values[..., :, None]).sum(axis=-1)
    return before + (equal + 1) / 2.0


@register("fuse", "place", returns="rewards", paper="ArenaRL (1.85)", traits={"permutation_equivariant"})
def place(ranks: Array) -> np.ndarray:
    """(G - rank)/(G - 1), from 1 for the best to 0 for the worst; 0 for a group of one.

    Ranks are first renumbered among the rollouts that take part. Shapes: (..., G) -> (..., G).

    >>> place([1, 4, 2, 3]).round(4).tolist()
    [1.0, 0.0, 0.6667, 0.3333]
    """
    values = places(ranks)
    size = values.shape[-1]
    return (size - values) / max(size - 1, 1)


@register("fuse", "relative_rank", returns="rewards", paper="arXiv:2601.23058", traits={"permutation_equivariant"})
def relative_rank(
    ranks: Array, correct: Array, *, mode: Literal["weight", "supplement"] = "supplement", tau: float = 0.1
) -> np.ndarray:
    """The rule's verdict s refined by a judge's places k (RLRR): s exp(tau (1 - k)), or s + tau tanh(G/k - 1).

    "supplement" also spreads all-wrong groups; "weight" leaves them at 0. Shapes: (..., G), bool (..., G) -> (..., G).
    """
    k, rule = places(ranks), np.asarray(correct, dtype=float)
    if mode == "weight":
        return rule * np.exp(tau * (1.0 - k))
    return rule + tau * np.tanh(k.shape[-1] / k - 1.0)


@register("reweight", "bound_by_outcome", returns="advantages", paper="arXiv:2601.23058")
def bound_by_outcome(advantages: Array, correct: Array, *, lowest: float = 0.0, highest: float = 0.0) -> np.ndarray:
    """At least `lowest` for a correct rollout and at most `highest` for a wrong one, whatever its place (RLRR).

    Shapes: (..., G), bool (..., G) -> (..., G).
    """
    values = np.asarray(advantages, dtype=float)
    return np.where(np.asarray(correct, dtype=bool), np.maximum(values, lowest), np.minimum(values, highest))


@register("partition", "by_side", returns="strata", traits={"permutation_equivariant"})
def by_side(correct: Array) -> np.ndarray:
    """Two strata, judgements of the preferred answer 1 and of the other 0. Shapes: bool (..., G) -> int (..., G)."""
    return np.asarray(correct, dtype=np.int64)


@register("fuse", "win_odds", returns="rewards", paper="arXiv:2601.00677", traits={"permutation_equivariant"})
def win_odds(
    rewards: Array, correct: Array, *, odds: Literal["bradley_terry", "indicator"] = "bradley_terry"
) -> np.ndarray:
    """Mean chance that a judgement of the preferred answer scores above one of the other answer (IRPO).

    `rewards` are the scores that the judgements gave; `correct` is true for judgements of the preferred answer. Each
    is paid for the side it is on: a high score of the preferred, a low one of the other. The chance of a pair is
    sigmoid(s+ - s-), or 1 if s+ > s- ("indicator", a tie 1/2). A side without judgements gives 0.
    Shapes: (..., G), bool (..., G) -> (..., G). O(G^2).
    """
    scores, preferred = np.asarray(rewards, dtype=float), np.asarray(correct, dtype=bool)
    lead = np.where(preferred, 1.0, -1.0)[..., :, None] * (scores[..., :, None] - scores[..., None, :])
    chance = 0.5 * (1.0 + (np.tanh(lead / 2.0) if odds == "bradley_terry" else np.sign(lead)))
    other = preferred[..., :, None] != preferred[..., None, :]
    return (chance * other).sum(axis=-1) / np.maximum(other.sum(axis=-1), 1)
