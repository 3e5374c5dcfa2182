"""Scores of items made of several columns, and the shapes that recipes of selection need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.features.signature import Features, Signature
from polypath.diversity.features.steps import reasoning_steps
from polypath.diversity.selectors.common import float_column


@register("quality", "product", returns="quality", paper="D3, arXiv:2503.11441 [1.117]")
def product(
    difficulty: ArrayLike, dependability: ArrayLike | None = None, *, least: float = 0.05, most: float = 1.0
) -> NDArray[np.float64]:
    """Difficulty times dependability, each clipped to [least, most], so that no single zero is a veto.

    Shapes: (n,), (n,) -> (n,). Raises UserError for values that are not finite.

    >>> product([0.0, 0.5, 2.0], [1.0, 0.5, 1.0]).tolist()
    [0.05, 0.25, 1.0]
    """
    n = len(np.asarray(difficulty))
    columns = [float_column(difficulty, n, "difficulty"), float_column(dependability, n, "dependability")]
    return np.asarray(np.prod([np.clip(column, least, most) for column in columns], axis=0))


@register("quality", "uncertain_loss", returns="difficulty", paper="D3, arXiv:2503.11441 [1.117]")
def uncertain_loss(
    losses: Sequence[Sequence[float]], entropies: Sequence[Sequence[float]], *, vocabulary: int
) -> NDArray[np.float64]:
    """Difficulty of an answer: the mean over its tokens of loss * (1 - entropy / log vocabulary), as 1 - exp(-mean).

    A token that costs much although the model is sure is difficult; one that costs much because anything could follow
    is not. In nats; NaN for an answer without tokens. The squashing is our choice.

    >>> uncertain_loss([[2.0, 0.0], []], [[0.0, 1.0], []], vocabulary=10).round(6).tolist()
    [0.632121, nan]
    """
    if vocabulary < 2:
        raise UserError("uncertain_loss.vocabulary", f"{vocabulary} tokens", "Give the size of the model's vocabulary.")
    found = []
    for i, (loss, entropy) in enumerate(zip(losses, entropies, strict=True)):
        if len(loss) != len(entropy):
            raise UserError(f"losses[{i}]", f"{len(loss)} losses and {len(entropy)} entropies", "Give both per token.")
        terms = np.asarray(loss, dtype=float) * (1 - np.asarray(entropy, dtype=float) / math.log(vocabulary))
        found.append(1 - math.exp(-max(float(terms.mean()), 0.0)) if len(terms) else math.nan)
    return np.asarray(found, dtype=float)


@register("quality", "gate", returns="sets", paper="TCIA [2.118]")
def gate(sets: Sequence[Any], relevance: ArrayLike, *, least: float = 0.5) -> list[frozenset[Any]]:
    """The sets of what is relevant enough, and empty ones for the rest, which then covers nothing.

    >>> [sorted(one) for one in gate([{"a"}, ["b", "b"]], [0.9, 0.1])]
    [['a'], []]
    """
    score = float_column(relevance, len(sets), "relevance")
    return [frozenset(one) if value >= least else frozenset() for one, value in zip(sets, score, strict=True)]


@register("quality", "shorter", returns="quality", paper="Route diversity [2.6]")
def shorter(texts: Sequence[str]) -> NDArray[np.float64]:
    """Minus the number of characters: of two equally different texts the shorter one comes first.

    >>> shorter(["abc", ""]).tolist()
    [-3.0, -0.0]
    """
    return -np.asarray([len(text) for text in texts], dtype=float)


@register("features", "step_embeddings", returns="features", paper="arXiv:2510.26122 [0.91]")
def step_embeddings(texts: Sequence[str], embed: Callable[[Sequence[str]], Any]) -> Features:
    """The embeddings (steps, d) of the reasoning steps of each text; a text without any has none, (0, d).

    `embed` is any function from texts to rows, asked once for all steps.
    """
    steps = [reasoning_steps(text) for text in texts]
    flat = [step for one in steps for step in one]
    rows = np.asarray(embed(flat), dtype=float) if flat else np.zeros((0, 1))
    cuts = np.cumsum([len(one) for one in steps])[:-1]
    return Features(np.split(rows, cuts) if steps else [], Signature("step_embeddings", dims=rows.shape[1]))


@register("quality", "as_columns", returns="columns", paper="Infinite feature selection [2.63]")
def as_columns(embeddings: ArrayLike) -> NDArray[np.float64]:
    """Items as columns: the vector of an item holds its value on every sample. (n, samples) -> (samples, n)."""
    return np.ascontiguousarray(np.asarray(embeddings, dtype=float).T)
