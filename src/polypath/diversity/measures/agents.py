"""Measures of a committee or a population: independent channels, correlated errors, differing values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels.vector import given_rows, linear_kernel
from polypath.diversity.kernels.view import to_numpy
from polypath.diversity.measures.distance import span
from polypath.diversity.measures.spectral import kernel_vendi
from polypath.diversity.measures.traits import INVARIANT, MORE

UNPARSED, WRONG = 0.5, 0.3  # the published weights of answers that could not be read, and of wrong ones


@register("measure", "effective_channels", paper="[0.5]", traits={INVARIANT, MORE})
def effective_channels(embeddings: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """K*: effective number of independent channels among agents, 2 to the entropy (bits) of the kernel's spectrum.

    Shapes: `embeddings` (n, d), one row per agent (the mean over its texts of a round), *not* normalised here: with
    unit rows it is `vendi`. `weights` (n,) scale the rows. A row of zeros is a silent agent. NaN for no agents or when
    all are silent.

    >>> round(effective_channels([[1, 0], [1, 0], [0, 1]]), 6)
    1.889882
    """
    rows = given_rows(embeddings, zeros=True)
    if weights is not None:
        rows = rows * to_numpy(weights)[:, None]
    rows = rows[np.any(rows != 0, axis=1)]
    return kernel_vendi(linear_kernel(rows)) if len(rows) else math.nan


@register("measure", "effective_channels_by_outcome", paper="[0.5]", traits={INVARIANT})
def effective_channels_by_outcome(
    embeddings: ArrayLike, correct: ArrayLike, *, of: Literal["correct", "wrong", "net"] = "net"
) -> float:
    """K* among the correct agents, the wrong ones, or K*_correct - K*_wrong / 2 (`net`).

    One agent is one channel, none is NaN; `net` without wrong agents is K*_correct.
    """
    rows = given_rows(embeddings, zeros=True)
    right = np.asarray(correct, dtype=bool)
    if right.shape != (len(rows),):
        raise UserError("correct", f"of shape {right.shape} for {len(rows)} agents", "Give one value per agent.")
    good, bad = effective_channels(rows[right]), effective_channels(rows[~right])
    return {"correct": good, "wrong": bad, "net": good if math.isnan(bad) else good - 0.5 * bad}[of]


def outcome_weights(correct: ArrayLike, parsed: ArrayLike | None = None) -> NDArray[np.float64]:
    """Row weights for `effective_channels`: correct 1, wrong 0.3, unparsed 0.5, rescaled to mean 1. Shapes: (n,).

    >>> outcome_weights([True, False]).round(4).tolist()
    [1.5385, 0.4615]
    """
    weights = np.where(np.asarray(correct, dtype=bool), 1.0, WRONG)
    if parsed is not None:
        weights = np.where(np.asarray(parsed, dtype=bool), weights, UNPARSED)
    return weights / weights.mean()


@register("measure", "effective_size", paper="[0.43]", traits={INVARIANT, MORE})
def effective_size(outcomes: ArrayLike) -> float:
    """Number of independent voters that n correlated ones are worth, n / (1 + (n - 1) rho).

    Shapes: `outcomes` (n, problems) of 0 and 1; rho is the mean correlation of the errors over pairs of voters, of
    which a voter that is always right or always wrong has none. NaN for fewer than two voters, fewer than three
    problems, or no pair with a correlation; inf is possible for voters whose errors exclude each other.
    """
    matrix = to_numpy(outcomes)
    if matrix.size == 0 or matrix.ndim != 2 or len(matrix) < 2 or matrix.shape[1] < 3:
        return math.nan
    varied = matrix[matrix.std(axis=1) > 0]
    if len(varied) < 2:
        return math.nan
    correlation = np.corrcoef(varied)
    return voters_worth(len(matrix), float(correlation[~np.eye(len(varied), dtype=bool)].mean()))


def voters_worth(n: int, correlation: float) -> float:
    """n / (1 + (n - 1) rho) under equal correlation rho; inf when the errors cancel.

    >>> round(voters_worth(8, 0.3), 6)
    2.580645
    """
    inflation = 1 + (n - 1) * correlation
    return n / inflation if inflation > 0 else math.inf


@register("measure", "value_diversity", paper="Value diversity [0.15]", traits={INVARIANT, MORE})
def value_diversity(ratings: ArrayLike, *, options: Sequence[int] | None = None) -> float:
    """Mean over pairs of agents of the distance of their ordinal survey answers, in [0, 1]; see `rating_distances`.

    `ratings` (agents, questions) holds options 1..options[q], NaN for a refusal; `options` defaults to the largest
    answer of each question. Pairs without a shared question are left out; NaN when none is left.

    >>> round(value_diversity([[1, 4], [4, 4], [1, 1]], options=[4, 4]), 6)  # (sqrt(1/2) + sqrt(1/2) + 1) / 3
    0.804738
    """
    distance = rating_distances(ratings, options)
    pairs = distance[np.triu_indices(len(distance), 1)]
    return float(np.nanmean(pairs)) if np.isfinite(pairs).any() else math.nan


@register("measure", "value_span", paper="Value diversity [0.15]", traits={INVARIANT, MORE})
def value_span(ratings: ArrayLike, *, options: Sequence[int] | None = None) -> float:
    """Mean edge of the minimum spanning tree of the agents' answer distances. NaN for fewer than two agents, or where
    a pair shares no question.
    """
    distance = rating_distances(ratings, options)
    return span(distance) if len(distance) > 1 and np.isfinite(distance).all() else math.nan


def rating_distances(ratings: ArrayLike, options: Sequence[int] | None = None) -> NDArray[np.float64]:
    """sqrt(sum (x - y)^2) / sqrt(sum (options - 1)^2) over the questions that both answered: (n, n).

    Questions with one option are left out; NaN where two agents share no question.
    """
    answers = to_numpy(ratings)
    if answers.size == 0:
        return np.empty((0, 0))
    if answers.ndim != 2 or (options is not None and len(options) != answers.shape[1]):
        questions = "any" if options is None else len(options)
        raise UserError(
            "ratings", f"have the shape {answers.shape} for {questions} questions", "Give agents x questions."
        )
    asked = np.isfinite(answers)
    largest = np.where(asked, answers, 1.0).max(axis=0) if options is None else np.asarray(options, dtype=float)
    useful = largest > 1
    filled, width = np.where(asked, answers, 0.0)[:, useful], (largest[useful] - 1.0) ** 2
    present = asked[:, useful].astype(float)
    squares = filled**2 @ present.T + present @ (filled**2).T - 2 * filled @ filled.T
    scale = (present * width) @ present.T
    return np.sqrt(np.maximum(squares, 0.0) / np.where(scale > 0, scale, np.nan))
