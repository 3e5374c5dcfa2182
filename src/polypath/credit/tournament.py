"""Tournaments inside a group: places from a judge that compares two rollouts, with few comparisons (ArenaRL, 1.85).

`judge(i, j)` gives the two scores of a match between rollouts i and j. A judge has a liking for one seat, so every
pairing is asked in both orders unless `swap=False`. The places go into the field `ranks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from polypath.core.seeds import rng
from polypath.credit.rank import places

Judge = Callable[[int, int], tuple[float, float]]


def round_robin(judge: Judge, size: int, *, swap: bool = True) -> np.ndarray:
    """Places by mean score over all size (size - 1)/2 pairings: the reference that cheaper tournaments approach."""
    total = np.zeros(size)
    for i, j in combinations(range(size), 2):
        total[[i, j]] += match(judge, i, j, swap=swap)
    return places(-total)


def anchored(judge: Judge, size: int, *, anchor: int = 0, swap: bool = True) -> np.ndarray:
    """Places by score against one anchor, size - 1 pairings; the anchor is scored by its own mean."""
    return places(-_against_anchor(judge, size, anchor, swap))


def seeded_bracket(judge: Judge, size: int, *, seed: int = 0, swap: bool = True) -> np.ndarray:
    """Places from a seeded single elimination, at most 2 (size - 1) pairings: linear in the group.

    Everyone first plays rollout 0, which seeds the bracket; the best seeds meet late and have the byes. The champion
    is first, then losers by the round they reached, those of one round by their mean score over all their matches.
    A drawn match is decided by lot from `seed`, never by the seat. Places (G,), ties share their mean place.

    >>> seeded_bracket(lambda i, j: (float(i), float(j)), 4).tolist()
    [4.0, 3.0, 2.0, 1.0]
    """
    if size < 2:
        return np.ones(size)
    scores = _against_anchor(judge, size, 0, swap)
    played = np.ones(size)
    seeds: list[int | None] = [int(i) for i in np.lexsort((np.array(_lots(size, seed)), -scores))]
    rounds = math.ceil(math.log2(size))
    seeds += [None] * (2**rounds - size)
    alive, reached = [seeds[i] for i in _bracket(rounds)], np.zeros(size)
    for round_ in range(1, rounds + 1):
        winners: list[int | None] = []
        for i, j in zip(alive[::2], alive[1::2], strict=True):
            if i is None or j is None:
                winners.append(j if i is None else i)
                continue
            points = match(judge, i, j, swap=swap)
            scores[[i, j]] += points
            played[[i, j]] += 1
            drawn = rng(seed, "match", round_, min(i, j), max(i, j)).random() < 0.5
            winners.append(i if points[0] > points[1] or (points[0] == points[1] and drawn == (i < j)) else j)
        alive = winners
        reached[[w for w in winners if w is not None]] = round_
    return _by_round_then_score(reached, scores / played)


def match(judge: Judge, i: int, j: int, *, swap: bool) -> np.ndarray:
    """The scores of i and j, averaged over both seats with `swap`."""
    first = np.array(judge(i, j), dtype=float)
    return (first + np.array(judge(j, i), dtype=float)[::-1]) / 2.0 if swap else first


def _against_anchor(judge: Judge, size: int, anchor: int, swap: bool) -> np.ndarray:
    scores, own = np.zeros(size), []
    for other in (i for i in range(size) if i != anchor):
        points = match(judge, anchor, other, swap=swap)
        own.append(points[0])
        scores[other] = points[1]
    scores[anchor] = np.mean(own) if own else 0.0
    return scores


def _lots(size: int, seed: int) -> list[float]:
    return [rng(seed, "seeding", i).random() for i in range(size)]


def _bracket(rounds: int) -> Sequence[int]:
    """Seeds in playing order, so that the two best can meet only in the final: [0, 3, 1, 2] for two rounds."""
    order = [0]
    for _ in range(rounds):
        order = [seed for i in order for seed in (i, 2 * len(order) - 1 - i)]
    return order


def _by_round_then_score(reached: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Places by round reached, then by score."""
    keys = np.unique(np.stack([-reached, -scores], axis=-1), axis=0, return_inverse=True)[1]
    return places(keys.ravel())
