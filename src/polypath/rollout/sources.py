"""Sources: which policy writes what comes next, and how often."""

from __future__ import annotations

import math
from typing import Annotated

from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.rollout.forest import Forest
from polypath.rollout.tools import Tools


@register("source", "policy")
def from_policy(
    forest: Forest,
    tools: Tools,
    *,
    n: Annotated[int, Range(1, None)] = 8,
    temperature: float | None = None,
    source: str = "",
) -> None:
    """Continue every open node `n` times to the end of its answer; an empty `source` is the policy itself."""
    done = forest.ended()
    forest.frontier = done + tools.extend(forest.open(), int(n), temperature=temperature, source=source)


@register("source", "mix", paper="S2L-PO (0.4)")
def mix(forest: Forest, tools: Tools, *, other: str, share: float = 0.5, n: Annotated[int, Range(1, None)] = 8) -> None:
    """Draw ceil(share * n) of each node's `n` answers from the source `other`, the rest from the policy.

    `share` is usually a schedule from 1 to 0. The answers of both are compared with each other.
    """
    nodes = forest.open()
    from_other = foreign_count(share, n)
    foreign = tools.extend(nodes, from_other, source=other)
    own = tools.extend(nodes, n - from_other)
    forest.frontier = sorted([*foreign, *own], key=lambda node: (node.position, node.path))


def foreign_count(share: float, n: int) -> int:
    """How many of `n` come from the other source: ceil(share * n), within [0, n].

    >>> [foreign_count(1 - (step - 1) / 4, 8) for step in range(1, 6)]
    [8, 6, 4, 2, 0]
    """
    return min(max(math.ceil(share * n - 1e-9), 0), n)
