"""Branchers: where an answer forks, and into how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from polypath.core.errors import UserError
from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.rollout.episodes import play
from polypath.rollout.forest import Forest, Node
from polypath.rollout.tools import Tools
from polypath.tasks.protocol import Interactive


@register("brancher", "turns", paper="DIVERT (0.16)")
def turns(
    forest: Forest,
    tools: Tools,
    *,
    branching: Sequence[int],
    every: Annotated[int, Range(1, None)] = 2,
    temperature: float | None = None,
) -> None:
    """Fork episodes between turns: level l continues each open episode branching[l] times, for `every` turns.

    The last level plays to the end. Every branch goes on from its parent's snapshot, which is restored in a simulator
    of its own. Raises UserError for a task that is not played in turns.
    """
    if not isinstance(tools.task, Interactive):
        raise UserError("brancher.turns", f"'{tools.task.name}' is not played in turns", "Use the brancher segments.")
    if not branching or min(branching) < 1:
        raise UserError("brancher.turns.branching", f"cannot be {list(branching)}", "Give at least one branch a level.")
    done: list[Node] = []
    for level, n in enumerate(branching):
        last = level == len(branching) - 1
        parents = [node for node in forest.open() for _ in range(n)]
        done += forest.ended()
        born = play(tools, tools.task, parents, temperature=temperature, turns=None if last else every)
        for node in born:
            node.branched = True
        forest.frontier = born
    forest.frontier = done + forest.frontier


@register("brancher", "segments", paper="TreeRPO (1.75)")
def segments(
    forest: Forest,
    tools: Tools,
    *,
    n: Annotated[int, Range(1, None)] = 2,
    depth: Annotated[int, Range(1, None)] = 2,
    max_new: Annotated[int, Range(1, None)] | None = None,
    stop: str = "",
    max_nodes: Annotated[int, Range(1, None)] = 4096,
) -> None:
    """Grow `depth` levels: every open node gets `n` continuations, each a segment of at most `max_new` tokens.

    Without `max_new` the answer's length is divided evenly over the levels. `stop` ends a segment at a step boundary.
    What is still open after the last level ends there, cut off. Raises UserError beyond `max_nodes` nodes per prompt.
    """
    if sum(n**level for level in range(1, depth + 1)) > max_nodes:
        raise UserError(
            "brancher.segments", f"{n}^{depth} leaves are too many", "Lower n or depth, or raise max_nodes."
        )
    length = max_new or -(-tools.params.max_new_tokens // depth)
    done, live = forest.ended(), forest.open()
    for level in range(depth):
        last = level == depth - 1
        born = tools.extend(live, n, max_new=None if last and max_new is None else length, stop="" if last else stop)
        for node in born:
            node.branched = True
        done += [node for node in born if node.finished or node.full or last]
        live = [] if last else [node for node in born if not (node.finished or node.full)]
    forest.frontier = sorted(done, key=lambda node: (node.position, node.path))


@register("brancher", "aspects", paper="DPWriter (0.8)")
def aspect(
    forest: Forest,
    tools: Tools,
    *,
    open_with: str,
    stop: str,
    budget: Annotated[int, Range(1, None)] = 32,
    max_new: Annotated[int, Range(1, None)] = 192,
    temperature: float | None = None,
) -> None:
    """Plan one aspect: write its opening tag for the model, and draw max(1, budget // live) continuations of each node.

    A segment ends with the closing tag `stop`. A pruner then chooses among them.
    """
    done = forest.ended()
    if any(node.full for node in done):
        what = f"an answer of {tools.params.max_new_tokens} tokens has no room for {open_with.strip()}"
        raise UserError("brancher.aspects", what, "Raise the answer's length (max_new_tokens), or lower max_new.")
    live = Counter(node.position for node in forest.open())
    tagged = [tools.force(node, open_with) for node in forest.open()]
    counts = [max(1, budget // live[node.position]) for node in tagged]
    forest.frontier = done + tools.extend(tagged, counts, max_new=max_new, stop=stop, temperature=temperature)


def fork_points(values: Sequence[float], k: int, gap: int = 1, skip_last: float = 0.0) -> list[int]:
    """The `k` positions of largest value that are at least `gap` apart, in order; ties go to the earliest.

    Positions in the last `skip_last` share are left out.

    >>> fork_points([0.1, 0.9, 0.8, 0.2, 0.7], k=2, gap=2)
    [1, 4]
    """
    end = len(values) - int(skip_last * len(values))
    chosen: list[int] = []
    for place in sorted(range(end), key=lambda i: (-values[i], i)):
        if len(chosen) == k:
            break
        if all(abs(place - other) >= gap for other in chosen):
            chosen.append(place)
    return sorted(chosen)
