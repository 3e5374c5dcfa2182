"""Conditioners that draw a context for every single answer, so that a group has a fixed size and random parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from polypath.core.errors import UserError
from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.rollout.forest import Forest, LossContext, View
from polypath.rollout.tools import Tools


@register("conditioner", "nudge", paper="NudgeRL (0.2)")
def nudge(
    forest: Forest,
    tools: Tools,
    *,
    hints: Sequence[str],
    k: Annotated[int, Range(1, None)] = 2,
    n: Annotated[int, Range(1, None)] = 4,
    dropout: Annotated[float, Range(0, 1)] = 0.5,
    choose: Literal["first", "random"] = "first",
    template: str = "{prompt}\n\nPrimary approach: {context}",
    loss_context: LossContext = "own",
) -> None:
    """Show each of `k` hints to `n` answers; every one of these loses its hint with probability `dropout`.

    All that lost theirs are one context, "bare", so that a group has k * n answers and parts of random size. Draw one
    answer per node next. Raises UserError for fewer than `k` hints and for a template without its places.
    """
    if len(hints) < k:
        raise UserError("conditioner.nudge.hints", f"{len(hints)} hints for k = {k}", "Give more hints, or lower k.")
    if "{prompt}" not in template or "{context}" not in template:
        raise UserError("conditioner.nudge.template", "lacks {prompt} or {context}", "Both go where they stand.")
    grown = []
    for node in forest.frontier:
        draw = tools.rng("nudge", node.position)
        order = draw.sample(range(len(hints)), k) if choose == "random" else range(k)
        for i in order:
            text = template.replace("{context}", hints[i]).replace("{prompt}", node.view.text)
            for _ in range(n):
                if draw.random() < dropout:
                    view, name, loss = View(node.view.text, node.view.system, node.view.prefill), "bare", "own"
                else:
                    view, name, loss = View(text, node.view.system, node.view.prefill), str(i), loss_context
                grown.append(node.child(view=view, context={"id": name, "kind": "hint"}, loss_context=loss))
    forest.frontier = grown


@register("conditioner", "drawn", paper="SimpleStrat (0.51)")
def drawn(
    forest: Forest,
    tools: Tools,
    *,
    axes: Sequence[Mapping[str, float]],
    n: Annotated[int, Range(1, None)] = 8,
    template: str = "{prompt}\n\n{context}",
    kind: str = "stratum",
) -> None:
    """Draw for each of `n` answers one side of every axis, by the probabilities given, and show them with the prompt.

    An axis is {text: probability}, summing to 1. One axis of two reward tokens is RC-GRPO's mix of demands; several
    are the strata of SimpleStrat. Draw one answer per node next. Raises UserError for axes that are no distribution.
    """
    if not axes:
        raise UserError("conditioner.drawn.axes", "there are none", "List at least one {text: probability}.")
    for i, axis in enumerate(axes):
        if any(share < 0 for share in axis.values()) or not math.isclose(sum(axis.values()), 1.0, abs_tol=1e-6):
            raise UserError(f"conditioner.drawn.axes[{i}]", "is no distribution", "Its values must sum to 1.")
    if "{prompt}" not in template or "{context}" not in template:
        raise UserError("conditioner.drawn.template", "lacks {prompt} or {context}", "Both go where they stand.")
    grown = []
    for node in forest.frontier:
        draw = tools.rng("drawn", node.position)
        for _ in range(n):
            sides = [draw.choices(list(axis), list(axis.values()))[0] for axis in axes]
            text = template.replace("{context}", "\n".join(sides)).replace("{prompt}", node.view.text)
            name = "/".join(str(list(axis).index(side)) for axis, side in zip(axes, sides, strict=True))
            view = View(text, node.view.system, node.view.prefill)
            grown.append(node.child(view=view, context={"id": name, "kind": kind}))
    forest.frontier = grown
