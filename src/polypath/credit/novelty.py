"""Diversity signals from the similarity matrix of one group: distances, volumes, roles, clusters."""

from __future__ import annotations

import math

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_float, mean
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.marginals import DUPLICATE_SAFE, loo_logdet
from polypath.diversity.partitions import linked

EQUIVARIANT = frozenset({"permutation_equivariant", "duplicates_share"})


@register("signal", "mean_distance", returns="diversity", paper="arXiv:2410.06084 [0.109]", traits=DUPLICATE_SAFE)
def mean_distance(similarity: Array) -> Array:
    """Mean of 1 - similarity over the *other* rollouts; its mean over the group is the mean over pairs.

    1 for a group of one. Shapes: (..., G, G) -> (..., G).

    >>> mean_distance([[1, 1, 0, 0.8], [1, 1, 0, 0.8], [0, 0, 1, 0.6], [0.8, 0.8, 0.6, 1]]).round(6).tolist()
    [0.4, 0.4, 0.8, 0.266667]
    """
    kernel = as_float(similarity)
    xp = array_namespace(kernel)
    others = kernel.shape[-1] - 1
    alike = xp.sum(kernel, axis=-1) - xp.linalg.diagonal(kernel)
    return 1.0 - alike / others if others else xp.ones_like(alike)


@register("signal", "kernel_repulsion", returns="diversity", paper="DCR (0.79)", traits=DUPLICATE_SAFE)
def kernel_repulsion(
    similarity: Array, logp: Array | None = None, mask: Array | None = None, *, surprise: float = 0.0
) -> Array:
    """1 - mean_j K_ij, the own similarity included, plus `surprise` times the mean of -log p over the own tokens.

    These are the two terms by which the objective's optimum keeps several ways of solving: kernel and entropy. The
    mean over tokens, not their sum, so that a long answer gains nothing by its length.
    Shapes: (..., G, G), (..., G, T), (..., G, T) -> (..., G). Raises UserError for `surprise` without logp and mask.
    """
    apart = 1.0 - mean(as_float(similarity))[..., 0]
    if not surprise:
        return apart
    if logp is None or mask is None:
        raise UserError("signal.kernel_repulsion", "surprise needs logp and mask", "Give both, or set surprise to 0.")
    return apart - surprise * mean_logp(logp, mask)


def mean_logp(logp: Array, mask: Array) -> Array:
    """Mean log-probability over the tokens of the mask, 0 without any: (..., G, T), (..., G, T) -> (..., G)."""
    logp, mask = as_float(logp), as_float(mask)
    xp = array_namespace(logp)
    counted = xp.where(mask > 0, logp, xp.zeros_like(logp))
    return xp.sum(counted, axis=-1) / xp.clip(xp.sum(mask, axis=-1), min=1.0)


@register("signal", "volume_gain", returns="diversity", paper="DPP-GRPO (0.53)", traits=DUPLICATE_SAFE)
def volume_gain(similarity: Array, *, ridge: float = 0.1) -> Array:
    """What a rollout adds to log det(K + ridge I), scaled from [log ridge, log(1 + ridge)] to [0, 1].

    1 for a rollout unlike all others, near 0 for an exact duplicate: log(2 ridge) and up. Shapes: (..., G, G) ->
    (..., G).

    >>> volume_gain([[1.0, 0.0], [0.0, 1.0]]).round(6).tolist()
    [1.0, 1.0]
    """
    low, high = math.log(ridge), math.log1p(ridge)
    return (loo_logdet(similarity, ridge=ridge) - low) / (high - low)


@register("signal", "elliptical", returns="diversity", paper="RepExp (0.119)", traits=DUPLICATE_SAFE)
def elliptical(similarity: Array, *, ridge: float = 1.0) -> Array:
    """h_i' (ridge I + sum over the others of h_j h_j')^-1 h_i, from the kernel K = H H'.

    By the matrix inversion lemma it is 1/(ridge [(K + ridge I)^-1]_ii) - 1, at most 1/ridge for unit vectors.
    Shapes: (..., G, G) -> (..., G).

    >>> elliptical([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).round(6).tolist()
    [0.5, 0.5, 1.0]
    """
    variance = loo_logdet(similarity, ridge=ridge)
    return array_namespace(variance).exp(variance) / ridge - 1.0


@register("signal", "context_distance", returns="diversity", paper="MoDA (0.47)", traits=DUPLICATE_SAFE)
def context_distance(similarity: Array, contexts: Array) -> np.ndarray:
    """Mean of 1 - similarity to the rollouts written in *other* contexts (roles); 0 where there is no other.

    Shapes: (..., G, G), int (..., G) -> (..., G).
    """
    contexts = np.asarray(contexts)
    other = contexts[..., :, None] != contexts[..., None, :]
    distance = np.where(other, 1.0 - np.asarray(similarity, dtype=float), 0.0)
    return distance.sum(axis=-1) / np.maximum(other.sum(axis=-1), 1)


@register("signal", "cluster_distance", returns="diversity", paper="arXiv:2604.00479 [2.73]", traits=EQUIVARIANT)
def cluster_distance(similarity: Array, labels: Array) -> np.ndarray:
    """Mean cosine distance of the own class's centroid to the centroids of the other classes; 0 for a single class.

    Centroids are never formed: with K = E E', the cosine of the sums over two classes is a block sum of K over the
    roots of their own. Needs a similarity between all outcomes. Shapes: (..., G, G), int (..., G) -> (..., G).

    >>> cluster_distance([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0, 0, 1]).tolist()
    [1.0, 1.0, 1.0]
    """
    labels = np.asarray(labels)
    same = (labels[..., :, None] == labels[..., None, :]).astype(float)
    sums = same @ np.asarray(similarity, dtype=float) @ same
    norms = np.sqrt(np.maximum(np.diagonal(sums, axis1=-2, axis2=-1), 1e-12))
    distance = 1.0 - sums / (norms[..., :, None] * norms[..., None, :])
    weights = (1.0 - same) / same.sum(axis=-1)[..., None, :]  # a class counts once, not once per member
    return (weights * distance).sum(axis=-1) / np.maximum(weights.sum(axis=-1), 1e-12)


@register("signal", "discriminability", returns="diversity", paper="SMERL (0.54)", traits={"permutation_equivariant"})
def discriminability(similarity: Array, contexts: Array, *, temperature: float = 0.1, prior: float = 1.0) -> np.ndarray:
    """log q(z|x) - log p(z): how well a rollout tells which role (context) it was written in.

    q is a kernel classifier over the *other* rollouts of the group, with weights exp((K - 1)/temperature) and `prior`
    pseudo-counts of p, the group's shares of the roles: nothing has to be trained, and a role of one rollout is not
    a sure thing. Shapes: (..., G, G), int (..., G) -> (..., G).
    """
    kernel, contexts = np.asarray(similarity, dtype=float), np.asarray(contexts)
    weights = np.exp((kernel - 1.0) / temperature) * (1.0 - np.eye(kernel.shape[-1]))
    same = contexts[..., :, None] == contexts[..., None, :]
    share = same.mean(axis=-1)
    own = (weights * same).sum(axis=-1) + prior * share
    return np.log(own / (weights.sum(axis=-1) + prior)) - np.log(share)


@register("signal", "strategy_spread", returns="diversity", paper="SD-E2 (0.110)", traits=EQUIVARIANT)
def strategy_spread(similarity: Array, *, tau: float = 0.9) -> np.ndarray:
    """One number for the whole group: the mean of its share of distinct strategies and its mean pairwise distance.

    Two rollouts follow one strategy when a chain of similarities above `tau` links them. 0 for a group of one, where
    nothing can differ. Shapes: (..., G, G) -> (..., G), equal in the group.

    >>> strategy_spread([[1, 1, 0, 0.8], [1, 1, 0, 0.8], [0, 0, 1, 0.6], [0.8, 0.8, 0.6, 1]]).round(6).tolist()
    [0.608333, 0.608333, 0.608333, 0.608333]
    """
    kernel = np.asarray(similarity, dtype=float)
    size = kernel.shape[-1]
    if size == 1:
        return np.zeros(kernel.shape[:-1])
    coverage = (linked(kernel, threshold=tau).max(axis=-1, keepdims=True) + 1) / size
    return 0.5 * coverage + 0.5 * mean_distance(kernel).mean(axis=-1, keepdims=True) + np.zeros(kernel.shape[:-1])


@register("representation", "rbf", returns="similarity", paper="arXiv:2002.00632 [0.68]")
def rbf(embeddings: Array, *, lengthscale: float = 1.0) -> Array:
    """exp(-|x - y|^2 / (2 lengthscale^2)) inside the group. Shapes: (..., G, d) -> (..., G, G).

    >>> rbf([[0.0], [1.0]]).round(4).tolist()
    [[1.0, 0.6065], [0.6065, 1.0]]
    """
    rows = as_float(embeddings)
    xp = array_namespace(rows)
    rows = rows - rows[..., :1, :]  # distances stay, and vectors far from the origin lose no digits
    lengths = xp.sum(rows**2, axis=-1)
    squares = lengths[..., :, None] + lengths[..., None, :] - 2.0 * rows @ xp.matrix_transpose(rows)
    squares = xp.where(xp.eye(rows.shape[-2], dtype=xp.bool), xp.zeros_like(squares), xp.clip(squares, min=0.0))
    return xp.exp(-squares / (2.0 * lengthscale**2))
