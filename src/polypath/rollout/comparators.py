"""Comparators: leaves become records, and every record gets the group that it is compared within."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from polypath.core.recipe_types import Range
from polypath.core.record import Rollout
from polypath.core.registry import register
from polypath.rollout.forest import Forest, Node
from polypath.rollout.judging import judge_steps
from polypath.rollout.records import answers, to_record
from polypath.rollout.tools import Tools

NO_JUDGE = "none"


def _records(nodes: Sequence[Node], tools: Tools, key: object) -> list[Rollout]:
    return [to_record(node, tools, f"{tools.step}/{key}", i) for i, node in enumerate(nodes)]


def _by_position(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    found: dict[int, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.position, []).append(node)
    return found


@register("comparator", "whole")
def whole(forest: Forest, tools: Tools) -> list[Rollout]:
    """All answers to one prompt are one group, whatever context they were written in."""
    found = answers(forest)
    tools.verify(found, needed=False)
    return [row for position, nodes in _by_position(found).items() for row in _records(nodes, tools, position)]


@register("comparator", "within_context", paper="ARC (0.73)")
def within_context(forest: Forest, tools: Tools) -> list[Rollout]:
    """Answers are compared within their context alone: an easy context is no merit."""
    found = answers(forest)
    tools.verify(found, needed=False)
    rows = []
    for position, nodes in _by_position(found).items():
        contexts = dict.fromkeys((node.context or {}).get("id", "") for node in nodes)
        for name in contexts:
            members = [node for node in nodes if (node.context or {}).get("id", "") == name]
            rows += _records(members, tools, f"{position}/{name}" if name else position)
    return rows


@register("comparator", "strategies", paper="StraTA (0.1)")
def strategies(
    forest: Forest,
    tools: Tools,
    *,
    top: float = 0.5,
    judge: str = "none",
    judge_tokens: Annotated[int, Range(1, None)] = 24,
) -> list[Rollout]:
    """Two levels: the strategies of a prompt are one group, and the answers within each strategy are another.

    A strategy's reward is the mean of the best `top` share of its answers' rewards. Strategy tokens are trained under
    the request that they answered, answers under the prompt with the strategy. With a `judge` ("self" or the name of a
    source) the steps of an episode that it finds useless are marked in the column `flagged`, for credit to punish.
    """
    if judge != NO_JUDGE:
        judge_steps(tools, answers(forest), judge, judge_tokens)
    rows = within_context(forest, tools)
    for root in forest.roots:
        written = [node for node in _below(root) if node.role == "strategy" and node.ids and node.keep]
        for i, node in enumerate(written):
            row = to_record(node, tools, f"{tools.step}/{root.position}/strategies", i)
            rewards = [leaf.score.reward for leaf in node.leaves() if leaf.score is not None and leaf.keep]
            row.rewards = {"task": best_share(rewards, top)}
            row.correct, row.context = None, {"id": str(node.path[-1]), "kind": "strategy"}
            rows.append(row)
    return rows


def best_share(rewards: Sequence[float], top: float) -> float:
    """Mean of the best ceil(top * n) values; NaN when there is none, or one of them is NaN.

    >>> best_share([1, 0], 0.5), best_share([1, 0], 1.0)
    (1.0, 0.5)
    """
    if not rewards or any(math.isnan(reward) for reward in rewards):
        return math.nan
    count = max(1, math.ceil(top * len(rewards) - 1e-9))
    return sum(sorted(rewards, reverse=True)[:count]) / count


def _below(node: Node) -> list[Node]:
    found = [node]
    for child in node.children:
        found += _below(child)
    return found
