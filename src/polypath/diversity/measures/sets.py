"""Measures that weigh difference with quality: how many good items are all different, and what a sequence adds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels.vector import cosine_kernel, given_rows
from polypath.diversity.kernels.view import dense_kernel, per_item
from polypath.diversity.measures.traits import INVARIANT, MORE

EXACT = 60  # the largest number of good items for which the clique is searched exhaustively


@register("measure", "yield_size", paper="IDEAgent Yield [0.72]", traits={INVARIANT, MORE})
def yield_size(
    embeddings: ArrayLike, rewards: ArrayLike, *, quality: float = 0.5, similarity: float = 0.8, exact: bool = True
) -> float:
    """Size of the largest subset of reward >= `quality` whose pairs all have a cosine below `similarity`.

    The largest clique of the compatibility graph, by branch and bound up to 60 items of that quality; `exact=False`
    gives a greedy lower bound for any number. 0 when none is good enough; NaN for an empty set. Raises UserError for
    more items.
    """
    rows = given_rows(embeddings)
    scores = per_item(rewards, len(rows), "rewards")
    if len(rows) == 0:
        return math.nan
    kernel = cosine_kernel(rows[scores >= quality]).matrix()
    return float(len(largest_compatible(kernel, similarity, exact=exact)))


def largest_compatible(kernel: ArrayLike, similarity: float, *, exact: bool = True) -> list[int]:
    """A largest set of items whose pairs are all below `similarity`: indices in order, the first such set.

    >>> largest_compatible([[1, 0.9, 0.2], [0.9, 1, 0.1], [0.2, 0.1, 1]], 0.6)
    [0, 2]
    """
    matrix = dense_kernel(kernel).matrix()
    below = (matrix < similarity) & ~np.eye(len(matrix), dtype=bool)
    neighbours = {i: set(np.flatnonzero(row).tolist()) for i, row in enumerate(below)}
    if not exact:
        return sorted(_greedy_clique(neighbours))
    if len(matrix) > EXACT:
        what = f"{len(matrix)} good items are too many for an exact answer"
        raise UserError("yield_size", what, "Group by prompt, sample, or set exact=false.")
    return sorted(_largest_clique(neighbours))


def _largest_clique(neighbours: dict[int, set[int]]) -> list[int]:
    """Branch and bound: with vertices in order, the first of the largest cliques.

    A clique takes at most one vertex of each colour of a colouring, so the number of colours bounds it (Tomita 2003).
    """
    best: list[int] = []

    def grow(chosen: list[int], candidates: list[int]) -> None:
        nonlocal best
        if len(chosen) > len(best):
            best = chosen
        while candidates and len(chosen) + _colours(candidates, neighbours) > len(best):
            vertex, candidates = candidates[0], candidates[1:]
            grow([*chosen, vertex], [v for v in candidates if v in neighbours[vertex]])

    grow([], list(neighbours))
    return best


def _colours(vertices: list[int], neighbours: dict[int, set[int]]) -> int:
    """How many colours a greedy colouring takes, in which neighbours differ."""
    classes: list[set[int]] = []
    for vertex in vertices:
        free = next((one for one in classes if not one & neighbours[vertex]), None)
        if free is None:
            classes.append({vertex})
        else:
            free.add(vertex)
    return len(classes)


def _greedy_clique(neighbours: dict[int, set[int]]) -> list[int]:
    """Repeatedly the vertex with the most remaining neighbours."""
    chosen: list[int] = []
    left = dict.fromkeys(neighbours)
    while left:
        vertex = max(left, key=lambda v: sum(other in left for other in neighbours[v]))
        chosen.append(vertex)
        left = {v: None for v in left if v in neighbours[vertex]}
    return chosen


@register("measure", "creative_utility", paper="Set-level ideation [2.74]", traits={MORE})
def creative_utility(embeddings: ArrayLike, rewards: ArrayLike) -> float:
    """Sum over the items, in their order, of reward times cosine distance to the nearest earlier one (the first: 1).

    A copy of an earlier item earns nothing. It depends on the order, as a list of ideas does. Reconstructed from the
    abstract. NaN for no items.

    >>> round(creative_utility([[1, 0], [0, 1], [1, 0]], [0.9, 0.5, 0.8]), 6)
    1.4
    """
    terms = utilities(embeddings, rewards)
    return float(terms.sum()) if len(terms) else math.nan


def utilities(embeddings: ArrayLike, rewards: ArrayLike) -> NDArray[np.float64]:
    """What each item of the sequence adds to `creative_utility`: (n, d), (n,) -> (n,)."""
    rows = given_rows(embeddings)
    scores = per_item(rewards, len(rows), "rewards")
    if len(rows) == 0:
        return np.empty(0)
    distance = 1.0 - cosine_kernel(rows).matrix()
    later = np.triu(np.ones_like(distance, dtype=bool))  # itself and what comes after are no predecessors
    nearest = np.where(later, np.inf, distance).min(axis=1)
    nearest[0] = 1.0
    return scores * np.maximum(nearest, 0.0)
