"""Which prefixes share a beginning, and in which order to prefill the shared parts (no torch here)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Node:
    """A run of tokens that is prefilled once, after all tokens of its parent (an index into the level before it)."""

    parent: int | None
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class PrefixPlan:
    """Nodes by depth, and for every row the (level, index) of the node that ends its prefix."""

    levels: list[list[Node]]
    leaf: list[tuple[int, int]]

    @property
    def prefilled(self) -> int:
        """Tokens that the plan forwards."""
        return sum(len(node.tokens) for level in self.levels for node in level)


def plan_prefixes(prefixes: Sequence[tuple[int, ...]], min_shared: int | None = 8) -> PrefixPlan:
    """Prefill equal prefixes once, and a common beginning once where that saves at least `min_shared` tokens.

    A shared part costs one more forward call, which is why short ones are not worth it; `None` shares equal
    prefixes only. Prefixes are sorted, so all that share a beginning are adjacent and the first and the last of a
    range bound what the whole range shares.

    >>> plan = plan_prefixes([(1, 2, 3), (1, 2, 4), (1, 2, 3)], min_shared=2)
    >>> [[node.tokens for node in level] for level in plan.levels], plan.leaf
    ([[(1, 2)], [(3,), (4,)]], [(1, 0), (1, 1), (1, 0)])
    """
    distinct = sorted(set(prefixes))
    levels: list[list[Node]] = []
    place: dict[tuple[int, ...], tuple[int, int]] = {}

    def add(depth: int, parent: int | None, tokens: tuple[int, ...]) -> int:
        if depth == len(levels):
            levels.append([])
        levels[depth].append(Node(parent, tokens))
        return len(levels[depth]) - 1

    stack: list[tuple[list[tuple[int, ...]], int, int, int | None]] = [(distinct, 0, 0, None)]
    while stack:
        items, start, depth, parent = stack.pop()
        first, last = items[0], items[-1]
        if len(items) == 1:
            place[first] = (depth, add(depth, parent, first[start:]))
            continue
        common = common_length(first, last)
        if min_shared is not None and (len(items) - 1) * (common - start) >= max(min_shared, 1):
            parent = add(depth, parent, first[start:common])
            if len(first) == common:  # the shared part is itself one of the prefixes
                place[first], items = (depth, parent), items[1:]
            start, depth = common, depth + 1
        elif len(first) == common:
            place[first], items = (depth, add(depth, parent, first[start:])), items[1:]
        branches = [list(branch) for _, branch in groupby(items, key=lambda prefix: prefix[common])]
        stack.extend((branch, start, depth, parent) for branch in reversed(branches))
    return PrefixPlan(levels, [place[prefix] for prefix in prefixes])


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
