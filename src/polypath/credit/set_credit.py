"""Credit for sets: sets of rollouts that compete by their diversity, and sets of candidates written in one rollout."""

from __future__ import annotations

from functools import cache

import numpy as np

from polypath.core.arrays import Array, as_float
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.credit.stratify import compare, together
from polypath.diversity.partitions import class_sizes


@register("partition", "sets", returns="strata")
def sets(rewards: Array, *, size: int = 4) -> np.ndarray:
    """Consecutive sets of `size` rollouts; the last takes the rest. Rollouts are exchangeable, so any sets are as good.

    Shapes: (..., G) -> int (..., G).
    """
    values = np.asarray(rewards)
    return np.broadcast_to(np.arange(values.shape[-1]) // size, values.shape)


@register("signal", "set_share", returns="diversity", paper="SGRPO (0.12)", traits={"permutation_equivariant"})
def set_share(
    similarity: Array, strata: Array, gate: Array | None = None, *, temperature: float = 1.0, total: bool = True
) -> np.ndarray:
    """What a rollout gets of its set's diversity, when the sets of one prompt compete by it.

    A set's diversity D is the mean of 1 - similarity over the pairs of its gated members (0 below two); its lead
    a = D minus the mean of the other sets' D, 0 for a single set. A member's credit is what D loses without it,
    z-scored in the set; w+ = size softmax(z/temperature) shares a gain, w- = size softmax(-z/temperature) a loss:
    D + max(a, 0)(w+ - 1) - max(-a, 0)(w- - 1), whose mean over the set is D, or with `total` false
    max(a, 0) w+ - max(-a, 0) w-, a bonus to an advantage.
    Shapes: (..., G, G), int (..., G), (..., G) -> (..., G).
    """
    same = together(np.asarray(strata))
    valid = np.ones(same.shape[:-1]) if gate is None else np.asarray(gate, dtype=float)
    diversity, credit = set_diversity(1.0 - np.asarray(similarity, dtype=float), same, valid)
    size = same.sum(axis=-1)
    sets_ = (1.0 / size).sum(axis=-1, keepdims=True)
    rivals = ((diversity / size).sum(axis=-1, keepdims=True) - diversity) / np.maximum(sets_ - 1.0, 1e-12)
    lead = np.where(sets_ > 1.5, diversity - rivals, 0.0)
    z = standard_score(credit, same)
    gain, loss = (size * share_of(sign * z / temperature, same) for sign in (1.0, -1.0))
    won, lost = np.maximum(lead, 0.0), np.maximum(-lead, 0.0)
    return diversity + won * (gain - 1.0) - lost * (loss - 1.0) if total else won * gain - lost * loss


@register("fuse", "blend", returns="rewards", paper="SGRPO (0.12)", traits={"permutation_equivariant"})
def blend(rewards: Array, diversity: Array, gate: Array | None = None, *, weight: float = 0.5) -> Array:
    """(1 - weight) r + weight * gate * d. Shapes: (..., G) each -> (..., G).

    >>> blend([1.0, 0.0], [0.5, 1.0], [1, 0], weight=0.25).tolist()
    [0.875, 0.0]
    """
    bonus = as_float(diversity) if gate is None else as_float(gate) * as_float(diversity)
    return (1.0 - weight) * as_float(rewards) + weight * bonus


def set_diversity(distance: np.ndarray, same: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean pairwise distance of each rollout's set, and what the set loses without the rollout, over valid members.

    With s_i the distances to the others and S their sum, removing i leaves (S - 2 s_i)/((n-1)(n-2)).
    """
    pairs = same * valid[..., :, None] * valid[..., None, :] * (1.0 - np.eye(same.shape[-1]))
    own = (pairs * distance).sum(axis=-1)
    total = (same * own[..., None, :]).sum(axis=-1)
    n = (same * valid[..., None, :]).sum(axis=-1)
    diversity = total / np.maximum(n * (n - 1), 1.0)
    without = (total - 2 * own) / np.maximum((n - 1) * (n - 2), 1.0)
    return diversity, np.where(valid > 0, diversity - np.where(n > 2, without, 0.0), 0.0)


def standard_score(values: np.ndarray, same: np.ndarray, eps: float = 1e-4) -> np.ndarray:
    """z-scores inside each rollout's set (sample spread), 0 where the spread is."""
    size = same.sum(axis=-1)
    centred = values - (same * values[..., None, :]).sum(axis=-1) / size
    square = (same * centred[..., None, :] ** 2).sum(axis=-1)
    return centred / (np.sqrt(square / np.maximum(size - 1, 1)) + eps)


def share_of(logits: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Softmax inside each rollout's set."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / (same * powers[..., None, :]).sum(axis=-1)


@register("normalise", "split_levels", returns="column_advantages", paper="Syn-GRPO (2.96)")
def split_levels(
    rewards: Array, strata: Array, diversity: Array | None = None, *, eps: float = 1e-4, ddof: int = 1
) -> np.ndarray:
    """Two columns: the stratum's diversity against that of the other strata, and the reward inside the own stratum.

    The first is centred, each stratum counting once whatever its size; the second is a z-score. For parts of a text
    that are credited apart, such as a description and the answers that it draws.
    Shapes: (..., G), int (..., G), (..., G) -> (..., G, 2).
    """
    values, same = np.asarray(rewards, dtype=float), together(np.asarray(strata))
    signal = np.zeros_like(values) if diversity is None else np.asarray(diversity, dtype=float)
    once = 1.0 / same.sum(axis=-1)
    between = compare(signal, np.ones_like(same), once, scale="none", eps=eps, ddof=ddof)
    within = compare(values, same, np.ones_like(values), scale="std", eps=eps, ddof=ddof)
    return np.stack([between, within], axis=-1)


@register("fuse", "best_of_scalarisations", returns="rewards", paper="arXiv:2605.22817 [0.106]")
def best_of_scalarisations(
    candidate_rewards: Array, *, samples: int = 64, concentration: float = 1.0, seed: int = 0
) -> np.ndarray:
    """Mean over random weights w of the best candidate's w.R: a set is paid for having one for every taste (VPO).

    The weights are Dirichlet draws, the same `samples` for every rollout, so that no rollout is lucky. An undefined
    reward, or a missing candidate, counts 0. Bring the rewards to one scale first. Shapes: (..., G, C, M) -> (..., G).

    >>> pair = [[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.6], [0.6, 0.6]]]  # E max(w, 1 - w) = .75 against .6
    >>> best_of_scalarisations(pair, samples=4096).round(2).tolist()
    [0.75, 0.6]
    """
    rewards = np.nan_to_num(np.asarray(candidate_rewards, dtype=float))
    weights = dirichlet(rewards.shape[-1], samples, concentration, seed)
    return best_of(rewards, weights)


def best_of(rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean over the weight vectors (W, M) of the best candidate's weighted reward: (..., C, M) -> (...)."""
    return (rewards @ weights.T).max(axis=-2).mean(axis=-1)


@cache
def dirichlet(columns: int, samples: int, concentration: float, seed: int) -> np.ndarray:
    """`samples` weight vectors (W, M) that sum to 1."""
    draw = np.random.default_rng(derive(seed, "scalarisations", columns))
    return draw.dirichlet(np.full(columns, concentration), samples)


@register("fuse", "ordered_novelty", returns="rewards", paper="Set-level ideation (2.74)")
def ordered_novelty(candidate_rewards: Array, candidate_embeddings: Array, *, count: int | None = None) -> np.ndarray:
    """Mean over the candidates of quality times the distance 1 - cosine to the nearest *earlier* one, 1 for the first.

    The order counts by design: repeating what was said earns nothing. Quality is the mean of a candidate's rewards;
    with `count`, fewer candidates than asked for count as 0. NaN candidates are missing.
    Shapes: (..., G, C, M), (..., G, C, d) -> (..., G).
    """
    rewards = np.asarray(candidate_rewards, dtype=float)
    present = ~np.isnan(rewards).all(axis=-1)
    if present.shape != np.shape(candidate_embeddings)[:-1]:
        what = f"shapes {rewards.shape} and {np.shape(candidate_embeddings)} are of unlike numbers of candidates"
        raise UserError("fuse.ordered_novelty", what, "Give a vector for every candidate, NaN for a missing one.")
    known = ~np.isnan(rewards)
    quality = np.nan_to_num(rewards).sum(axis=-1) / np.maximum(known.sum(axis=-1), 1)
    distance = 1.0 - candidate_cosine(candidate_embeddings)
    earlier = np.tril(np.ones(distance.shape[-2:], dtype=bool), -1) & present[..., None, :]
    nearest = np.where(earlier, distance, np.inf).min(axis=-1)
    terms = np.where(present, quality * np.where(np.isinf(nearest), 1.0, nearest), 0.0)
    number = present.sum(axis=-1) if count is None else np.full(terms.shape[:-1], count)
    return terms.sum(axis=-1) / np.maximum(number, 1)


@register("signal", "candidate_spread", returns="diversity", paper="T-DIG (2.54)", traits={"permutation_equivariant"})
def candidate_spread(candidate_embeddings: Array) -> np.ndarray:
    """Mean of 1 - cosine over the pairs of a rollout's candidates, 0 below two of them; NaN vectors are missing.

    Embed what each candidate leads to, along the axis that is to vary. Shapes: (..., G, C, d) -> (..., G).
    """
    present = ~np.isnan(np.asarray(candidate_embeddings, dtype=float)).any(axis=-1)
    pairs = present[..., :, None] & present[..., None, :] & ~np.eye(present.shape[-1], dtype=bool)
    distance = np.where(pairs, 1.0 - candidate_cosine(candidate_embeddings), 0.0)
    return distance.sum(axis=(-2, -1)) / np.maximum(pairs.sum(axis=(-2, -1)), 1)


def candidate_cosine(embeddings: Array) -> np.ndarray:
    """Cosine similarity of the candidates of each rollout: (..., C, d) -> (..., C, C); 0 with a zero or NaN vector."""
    rows = np.nan_to_num(np.asarray(embeddings, dtype=float))
    unit = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
    return unit @ np.swapaxes(unit, -2, -1)


@register("fuse", "uniform_share", returns="rewards", paper="GAPO", traits={"permutation_equivariant"})
def uniform_share(
    labels: Array, correct: Array, *, categories: int | None = None, one_sided: bool = True
) -> np.ndarray:
    """1 - max(f - 1/L, 0) for a valid rollout, f the share of its class among the valid ones; -1 for an invalid one.

    L is the number of classes that there are, or else that occur among the valid. The paper's 1 - |f - 1/L|
    (`one_sided` false) also takes from a class for being rare, so that one of 5 % can earn less than one of 60 %.
    Shapes: int (..., G), bool (..., G) -> (..., G).

    >>> uniform_share([0, 0, 0, 1], [True] * 4, categories=3, one_sided=False).round(6).tolist()
    [0.583333, 0.583333, 0.583333, 0.916667]
    """
    valid = np.asarray(correct, dtype=bool)
    sizes = np.maximum(class_sizes(np.asarray(labels), among=valid), 1)
    number = np.maximum(valid.sum(axis=-1, keepdims=True), 1)
    classes = (valid / sizes).sum(axis=-1, keepdims=True) if categories is None else categories
    excess = sizes / number - 1.0 / np.maximum(classes, 1)
    return np.where(valid, 1.0 - (np.maximum(excess, 0.0) if one_sided else np.abs(excess)), -1.0)
