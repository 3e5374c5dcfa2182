"""Equivalence classes inside a group: which rollouts are the same solution.

Labels are integers in order of first appearance (0, 1, ...), so that two partitions are equal iff their labels are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, per_group
from polypath.core.registry import register


def first_appearance(keys: Sequence[Hashable | None]) -> np.ndarray:
    """Integer labels of one group's keys; None is never equal to anything, so each None is a class of its own.

    >>> first_appearance(["b", "a", None, "b", None]).tolist()
    [0, 1, 2, 0, 3]
    """
    seen: dict[Hashable, int] = {}
    names = ((position,) if key is None else key for position, key in enumerate(keys))
    return np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.int64)


@register("partition", "classes", returns="labels")
def classes(labels: Array) -> Array:
    """The classes as given (a task's canonical forms, a judge, a classifier), renumbered by first appearance.

    Shapes: (..., G) -> int (..., G). A negative label means "no class": such a rollout stands alone.

    >>> classes([7, 3, 7, -1, -1]).tolist()
    [0, 1, 0, 2, 3]
    """
    labels = as_array(labels)
    xp = array_namespace(labels)
    if labels.shape[-1] == 0:
        return xp.astype(labels, xp.int64)
    first = _first_index(_same(labels))
    is_first = first == xp.arange(labels.shape[-1])
    order = xp.cumulative_sum(xp.astype(is_first, xp.int64), axis=-1) - 1
    return xp.take_along_axis(order, first, axis=-1)


def _same(labels: Array) -> Array:
    """Pairwise "same class", (..., G) -> bool (..., G, G); a negative label equals only itself."""
    xp = array_namespace(labels)
    itself = xp.eye(labels.shape[-1], dtype=xp.bool)
    named = (labels >= 0)[..., None]
    return ((labels[..., :, None] == labels[..., None, :]) & named) | itself


def _first_index(same: Array) -> Array:
    """For each rollout, the index of the first member of its class: bool (..., G, G) -> int (..., G)."""
    xp = array_namespace(same)
    return xp.argmax(xp.astype(same, xp.int64), axis=-1)


@register("partition", "same_answer", returns="labels")
def same_answer(answers: Sequence[str | None]) -> np.ndarray:
    """One class per distinct answer; a missing answer (None) stands alone.

    Shapes: G answers, or B lists of G -> int (..., G).
    """
    return per_group(first_appearance, answers)


@register("partition", "same_text", returns="labels")
def same_text(texts: Sequence[str]) -> np.ndarray:
    """One class per distinct text, compared after collapsing white space.

    Shapes: G texts, or B lists of G -> int (..., G).
    """
    return per_group(lambda group: first_appearance([" ".join(text.split()) for text in group]), texts)


@register("partition", "wrong_apart", returns="labels")
def wrong_apart(labels: Array, correct: Array) -> Array:
    """Keep the classes of correct rollouts and let each wrong one stand alone (DARLING's verifiable variant).

    Shapes: (..., G), (..., G) -> int (..., G).
    """
    labels = as_array(labels)
    xp = array_namespace(labels)
    return classes(xp.where(as_array(correct), labels, -xp.ones_like(labels)))


def class_sizes(labels: Array, among: Array | None = None) -> Array:
    """How many rollouts share each one's class, counting only those where `among` is true.

    Shapes: (..., G) -> int (..., G).

    >>> class_sizes([0, 0, 1], among=[True, False, True]).tolist()
    [1, 1, 1]
    """
    labels = as_array(labels)
    xp = array_namespace(labels)
    same = _same(labels)
    if among is not None:
        same = same & as_array(among)[..., None, :]
    return xp.sum(xp.astype(same, xp.int64), axis=-1)
