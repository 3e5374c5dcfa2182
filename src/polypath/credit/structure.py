"""What a record says about the structure of its group: contexts, agents, trees, steps, parts of the text, tokens."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from polypath.core.record import Rollout

FIRST = {"contexts": "bare", "sources": ""}  # the name that is always number 0: the bare prompt, the policy itself
PADDING = {"nodes": -1, "starts": -1, "states": -1, "actions": -1}
# Fields of (G, T), with what fills short rows
TOKENWISE = {"mask": False, "flags": False, "logp": 0.0, "entropy": 0.0, "confidence": 0.0, "curiosity": 0.0}


def structure_of(rows: Sequence[Rollout], wanted: Container[str] = ()) -> dict[str, Any]:
    """The structural fields that the rollouts of one group hold; those of tokens only where they are `wanted`.

    `nodes`, `starts`, `states`, `actions` and `flags` come from the columns `path`, `starts`, `states`, `actions` and
    `flagged`; without `starts`, a `parent` and a `fork_pos` make a tree of two levels.
    """
    found: dict[str, Any] = {}
    if any(row.context and "id" in row.context for row in rows):
        found["contexts"] = [str((row.context or {}).get("id", FIRST["contexts"])) for row in rows]
    if any(row.source and "name" in row.source for row in rows):
        found["sources"] = [str((row.source or {}).get("name", FIRST["sources"])) for row in rows]
    if any(row.spans for row in rows):
        found["spans"] = [row.spans or {} for row in rows]
    if rows and all("starts" in row.extra for row in rows):
        found["starts"] = [row.extra["starts"] for row in rows]
        if all("path" in row.extra for row in rows):
            found["nodes"] = number_steps([_lineage(row.extra["path"], len(row.extra["starts"])) for row in rows])
        if all("states" in row.extra and "actions" in row.extra for row in rows):
            found |= {name: number_steps([row.extra[name] for row in rows]) for name in ("states", "actions")}
    elif any(_forked(row) for row in rows):
        found["starts"] = [[0, row.fork_pos] if _forked(row) else [0] for row in rows]
        found["nodes"] = number_steps(
            [[f"parent {row.parent}", i] if _forked(row) else [i] for i, row in enumerate(rows)]
        )
    if "mask" in wanted:
        forced = [row.forced_mask or [0] * len(row.ids) for row in rows]
        found["mask"] = [[not put for put in row] for row in forced]
    if "flags" in wanted and any("flagged" in row.extra for row in rows):
        found["flags"] = [_marked(row) for row in rows]
    if "logp" in wanted and all(row.logp_sampling is not None for row in rows):
        found["logp"] = [row.logp_sampling for row in rows]
    return found


def _forked(row: Rollout) -> bool:
    return bool(row.parent and row.fork_pos)


def _marked(row: Rollout) -> list[bool]:
    """Which tokens lie in one of the [start, end] of the column `flagged`."""
    spans = row.extra.get("flagged", ())
    return [any(start <= token < end for start, end in spans) for token in range(len(row.ids))]


def is_spans(parts: Any) -> bool:
    """Whether it is a mapping of names to [start, end]."""
    return isinstance(parts, Mapping) and all(isinstance(p, list | tuple) and len(p) == 2 for p in parts.values())


def _lineage(path: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """The last `count` nodes on the way to a leaf, each by its path."""
    return [tuple(path[:end]) for end in range(len(path) - count + 1, len(path) + 1)]


def number_steps(rows: Sequence[Sequence[Any]]) -> list[list[int]]:
    """Names of what each rollout passed through, as numbers that are equal where the names are.

    >>> number_steps([["start", "a"], ["start", "b"], ["start"]])
    [[0, 1], [0, 2], [0]]
    """
    numbers: dict[Any, int] = {}
    return [[numbers.setdefault(_hashable(name), len(numbers)) for name in row] for row in rows]


def _hashable(name: Any) -> Any:
    return tuple(_hashable(part) for part in name) if isinstance(name, list | tuple) else name


def number_names(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The groups with the names of contexts and sources as numbers that hold for the whole batch; numbers stay.

    0 is the bare prompt ("bare", "" or None) and the policy itself ("" or None); the others follow by name.
    """
    numbered = [dict(group) for group in groups]
    for field, first in FIRST.items():
        named = [group for group in numbered if _is_named(group.get(field))]
        names = {str(name) for group in named for name in group[field] if name is not None} - {first, ""}
        numbers = {"": 0, first: 0, **{name: place for place, name in enumerate(sorted(names), 1)}}
        for group in named:
            group[field] = [0 if name is None else numbers[str(name)] for name in group[field]]
    return numbered


def _is_named(values: Any) -> bool:
    return isinstance(values, list | tuple) and any(isinstance(value, str) for value in values)


def pad(rows: Any, fill: Any, width: int = 0) -> Any:
    """Rows of unequal length as one array, filled up at the end to the longest of them, or to `width`.

    >>> pad([[1, 2], [3]], -1).tolist()
    [[1, 2], [3, -1]]
    """
    width = max([width, *(len(row) for row in rows)])
    return np.array([[*row, *[fill] * (width - len(row))] for row in rows])
