"""Allocators: where the next rollouts are spent, and when enough were drawn."""

from __future__ import annotations

from typing import Annotated

from polypath.core.errors import UserError
from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.rollout.forest import Forest, Node
from polypath.rollout.tools import Tools, plant_more


@register("allocator", "refill", paper="DAPO (arXiv:2503.14476)")
def refill(
    forest: Forest, tools: Tools, *, n: Annotated[int, Range(1, None)] = 8, rounds: Annotated[int, Range(0, None)] = 3
) -> None:
    """Draw `n` answers to every prompt; prompts whose answers are all worth the same are replaced by new ones.

    At most `rounds` times; what is still flat then is kept, so that a batch is never empty. Dropped groups keep their
    records, marked `flat_group`, and take no part.
    """
    wanted = len(forest.roots)
    grown = tools.extend(forest.open(), n)
    tools.verify(grown)
    for _ in range(rounds):
        flat = [root for root in forest.roots if root.keep and is_flat(root)]
        missing = wanted - (sum(root.keep for root in forest.roots) - len(flat))
        if not missing:
            break
        fresh = plant_more(forest, tools, missing)
        for root in flat[: len(fresh)]:
            root.drop("flat_group")
        more = tools.extend(fresh, n)
        tools.verify(more)
        grown += more
    for root in forest.roots:
        for leaf in root.leaves() if not root.keep else ():
            leaf.drop("flat_group")
    forest.frontier = [node for node in grown if node.keep]


def is_flat(root: Node) -> bool:
    """Whether all of a prompt's verified answers have the same reward."""
    return len({leaf.score.reward for leaf in root.leaves() if leaf.score is not None}) <= 1


@register("allocator", "rescue", paper="AERO (0.67)")
def rescue(
    forest: Forest,
    tools: Tools,
    *,
    n: Annotated[int, Range(1, None)] = 4,
    more: Annotated[int, Range(1, None)] = 2,
    cap: Annotated[int, Range(1, None)] = 8,
) -> None:
    """Draw `n` answers to every node; where none is right draw `more` at a time, until the first success or `cap`.

    Stopping at the first success makes the success rate of rescued prompts look higher than it is. Raises UserError
    when `cap` is below `n`.
    """
    if cap < n:
        raise UserError("allocator.rescue.cap", f"{cap} is less than the first {n} answers", "Raise cap, or lower n.")
    nodes = forest.open()
    tools.verify(tools.extend(nodes, n))
    drawn = n
    while drawn < cap:
        hopeless = [node for node in nodes if not any(leaf.score and leaf.score.correct for leaf in node.leaves())]
        amount = min(more, cap - drawn)
        tools.verify(tools.extend(hopeless, amount))
        drawn += amount
    forest.frontier = [*forest.ended(), *(leaf for node in nodes for leaf in node.leaves())]
