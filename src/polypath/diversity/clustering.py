"""Partitions by equivalences and by clusters: labels are integers by first appearance, as in `partitions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.arrays import Array
from polypath.core.errors import UserError, missing_extra
from polypath.core.registry import register
from polypath.diversity.kernels import unit_rows
from polypath.diversity.marginals import check_similarity
from polypath.diversity.partitions import first_appearance, union_find

Same = Callable[[str, str], bool]


def by_equivalence(texts: Sequence[str], same: Same, *, both_ways: bool = False) -> np.ndarray:
    """Classes of the transitive closure of a pairwise relation, which is asked as seldom as possible: (n,).

    A text is compared with the members of each class in turn until one is the same; equal texts are never asked about.
    The relation may be a rule, a classifier, an entailment model, a decision model or a judge; with `both_ways` it must
    hold in both directions (entailment). Unlike `union_find` over all pairs, two classes that a later text would link
    are linked as well.
    """
    distinct = list(dict.fromkeys(texts))
    classes: list[list[int]] = []
    for i, text in enumerate(distinct):
        linked = [c for c in classes if any(_holds(same, distinct[j], text, both_ways) for j in c)]
        merged = [j for c in linked for j in c] + [i]
        classes = [c for c in classes if c not in linked] + [merged]
    owner = {distinct[j]: number for number, c in enumerate(classes) for j in c}
    return first_appearance([owner[text] for text in texts])


def _holds(same: Same, a: str, b: str, both_ways: bool) -> bool:
    return same(a, b) and (not both_ways or same(b, a))


@register("partition", "average_linkage", returns="labels", paper="Sokal and Michener 1958")
def average_linkage(similarity: Array, *, threshold: float = 0.8) -> np.ndarray:
    """Classes that average-linkage clustering joins while the mean similarity between two is at least `threshold`.

    Shapes: (..., G, G) -> int (..., G). Raises UserError without scipy.
    """
    try:
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform
    except ImportError:
        raise missing_extra("partition average_linkage", "scipy", "measure") from None
    kernel = np.asarray(check_similarity(similarity), dtype=float)
    size = kernel.shape[-1]

    def one(matrix: np.ndarray) -> np.ndarray:
        if size < 2:
            return np.zeros(size, dtype=np.int64)
        distance = 1.0 - (matrix + matrix.T) / 2
        np.fill_diagonal(distance, 0.0)
        tree = linkage(squareform(np.maximum(distance, 0.0), checks=False), method="average")
        return first_appearance(fcluster(tree, 1.0 - threshold + 1e-12, criterion="distance").tolist())

    return np.stack([one(m) for m in kernel.reshape(-1, size, size)]).reshape(kernel.shape[:-1])


@register("partition", "density", returns="labels", paper="HDBSCAN, doi:10.1007/978-3-642-37456-2_14")
def density(embeddings: Array, *, min_cluster: int = 2, min_samples: int | None = None) -> np.ndarray:
    """HDBSCAN over unit rows; what it calls noise stands alone. Shapes: (..., G, d) -> int (..., G).

    A group smaller than twice `min_cluster` has no density to speak of: every rollout stands alone. Raises UserError
    without scikit-learn.
    """
    try:
        from sklearn.cluster import HDBSCAN
    except ImportError:
        raise missing_extra("partition density", "scikit-learn", "measure") from None
    rows = np.asarray(embeddings, dtype=float)

    def one(group: np.ndarray) -> np.ndarray:
        if len(group) < 2 * min_cluster:
            return np.arange(len(group))
        model = HDBSCAN(min_cluster_size=min_cluster, min_samples=min_samples, copy=True)
        found = model.fit_predict(unit_rows(group))
        return first_appearance([None if label < 0 else int(label) for label in found])

    return np.stack([one(group) for group in rows.reshape(-1, *rows.shape[-2:])]).reshape(rows.shape[:-1])


class Leader:
    """Clusters of a stream: an item joins the nearest leader within reach, or becomes a leader.

    The result depends on the order of the stream, which is what makes it a single pass. `labels` are numbered in order
    of appearance. Source: Hartigan 1975, the leader algorithm.
    """

    def __init__(self, *, threshold: float = 0.8, most: int | None = None) -> None:
        """`threshold` is the cosine to a leader; beyond `most` leaders an item joins the nearest however far it is."""
        if not -1 <= threshold <= 1:
            raise UserError("leader.threshold", f"{threshold:g} is no cosine", "Use a number in [-1, 1].")
        self.threshold, self.most = threshold, most
        self.leaders: np.ndarray | None = None
        self.sizes: list[int] = []

    def add(self, embeddings: ArrayLike) -> np.ndarray:
        """Labels (n,) of a further part of the stream, (n, d)."""
        labels = []
        for row in unit_rows(embeddings):
            cosine = self.leaders @ row if self.leaders is not None else np.zeros(0)
            nearest = int(np.argmax(cosine)) if len(cosine) else -1
            full = self.most is not None and len(self.sizes) >= self.most
            if nearest >= 0 and (cosine[nearest] >= self.threshold or full):
                self.sizes[nearest] += 1
                labels.append(nearest)
            else:
                self.leaders = row[None] if self.leaders is None else np.concatenate([self.leaders, row[None]])
                self.sizes.append(1)
                labels.append(len(self.sizes) - 1)
        return np.array(labels, dtype=np.int64)


@register("partition", "leader", returns="labels", paper="Hartigan 1975")
def leader(embeddings: Array, *, threshold: float = 0.8) -> np.ndarray:
    """Leader clustering of each group in its own order: (..., G, d) -> int (..., G)."""
    rows = np.asarray(embeddings, dtype=float)
    flat = rows.reshape(-1, *rows.shape[-2:])
    return np.stack([Leader(threshold=threshold).add(group) for group in flat]).reshape(rows.shape[:-1])


def by_threshold(embeddings: ArrayLike, *, threshold: float = 0.8) -> np.ndarray:
    """Connected components of "cosine of at least `threshold`" of one set: (n, d) -> int (n,)."""
    rows = unit_rows(embeddings)
    return union_find(rows @ rows.T >= threshold)
