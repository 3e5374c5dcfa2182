"""Where the data of measures come from: the rows of a file, and what stands beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polypath.core.errors import UserError
from polypath.core.record import Rollout

Group = Sequence[Rollout]
Embed = Callable[[Sequence[str]], Any]  # texts -> (n, d)
Sketch = Callable[[Sequence[str], Sequence[str]], Any]  # prompts, texts -> (n, d)
Known = Mapping[str, Collection[str]]  # prompt id -> its known solutions


@dataclass(frozen=True)
class Sources:
    """What measures may take besides the rows: models, judges, and other files.

    `reference` are rollouts to compare with: those of the same group, or all where no group is in both. `approaches`
    labels the texts of one prompt by approach, `attributes` reads a mapping of attributes from each text.
    """

    embed: Embed | None = None
    gradients: Sketch | None = None
    reference: Mapping[str, Group] | None = None  # by group; "" is all of them
    known: Known | None = None
    approaches: Callable[[Sequence[str]], Sequence[Hashable]] | None = None
    attributes: Callable[[Sequence[str]], Sequence[Mapping[str, Hashable]]] | None = None


@dataclass(frozen=True)
class Rows:
    """What the rows of a file have, and how they are grouped."""

    columns: frozenset[str]  # of `extra`, in every row
    facts: frozenset[str]  # correct, labels, rewards, prompts, several (groups hold several prompts)

    @classmethod
    def of(cls, rollouts: Group, group_by: str) -> Rows:
        """Look through all rows."""
        columns = set(rollouts[0].extra)
        for rollout in rollouts:
            columns &= rollout.extra.keys()
        facts = {
            "correct": any(r.correct is not None for r in rollouts),
            "labels": any(r.canonical is not None or r.answer is not None for r in rollouts),
            "rewards": any(r.rewards for r in rollouts),
            "prompts": any(r.prompt for r in rollouts),
            "several": group_by not in ("prompt", "group"),
        }
        return cls(frozenset(columns), frozenset(name for name, there in facts.items() if there))


MATRICES = ("embeddings", "embedding", "similarity", "gradients", "probabilities", "outcomes", "ratings")


def matrix(values: Sequence[Any], name: str) -> np.ndarray:
    """Rows of numbers as an array. Raises UserError for what is no such thing, and for rows of different length."""
    rows = [parsed(value) for value in values]
    lengths = {len(row) if isinstance(row, Sequence | np.ndarray) else -1 for row in rows}
    if len(lengths) > 1 or -1 in lengths:
        what = "holds rows of different length" if -1 not in lengths else "does not hold lists of numbers in each row"
        raise UserError(f"column {name}", what, "Give every row as many numbers.")
    try:
        return np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"column {name}", "holds what is no number", "Give every row as many numbers.") from None


def parsed(value: Any) -> Any:
    """A list as it is; one that a CSV holds as text is read."""
    if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
