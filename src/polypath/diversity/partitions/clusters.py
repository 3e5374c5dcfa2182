"""Classes from clusters: average linkage, density (HDBSCAN), and leaders of a stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.arrays import Array
from polypath.core.errors import UserError, missing_extra
from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.diversity.kernels.vector import unit_rows
from polypath.diversity.partitions.labels import first_appearance
from polypath.diversity.partitions.pairs import over_groups, union_find

BLOCK = 1024  # rows of a stream compared with the known leaders at once


@register("partition", "average_linkage", returns="labels", paper="Sokal and Michener 1958")
def average_linkage(similarity: Array, *, threshold: float = 0.8) -> np.ndarray:
    """Classes that average-linkage clustering joins while the mean similarity between two is at least `threshold`.

    Unlike `linked`, a single false link does not merge two classes. Shapes: (..., G, G) -> int (..., G). Raises
    UserError for similarities that are not finite, and without scipy.
    """
    try:
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform
    except ImportError:
        raise missing_extra("partition average_linkage", "scipy", "measure") from None
    kernel = np.asarray(similarity, dtype=float)
    if not np.isfinite(kernel).all():
        *group, row, _ = np.argwhere(~np.isfinite(kernel))[0].tolist()
        where = f"similarity, group {group}, row {row}" if group else f"similarity, row {row}"
        raise UserError(where, "is not finite", "Embed that text again, or leave its rollout out.")

    def one(matrix: np.ndarray) -> np.ndarray:
        if len(matrix) < 2:
            return np.zeros(len(matrix), dtype=np.int64)
        distance = 1.0 - (matrix + matrix.T) / 2
        np.fill_diagonal(distance, 0.0)
        tree = linkage(squareform(distance, checks=False), method="average")
        return first_appearance(fcluster(tree, 1.0 - threshold + 1e-12, criterion="distance").tolist())

    return over_groups(one, kernel, 2)


@register("partition", "hdbscan", returns="labels", paper="doi:10.1007/978-3-642-37456-2_14")
def hdbscan(embeddings: Array, *, min_cluster: int = 2, min_samples: int | None = None) -> np.ndarray:
    """Clusters of high density among the unit rows (HDBSCAN); what it calls noise stands alone.

    A group smaller than twice `min_cluster` has no density to speak of: every rollout stands alone. Shapes:
    (..., G, d) -> int (..., G). Raises UserError for a row of zeros or NaN, and without scikit-learn.
    """
    try:
        from sklearn.cluster import HDBSCAN
    except ImportError:
        raise missing_extra("partition hdbscan", "scikit-learn", "measure") from None
    if min_cluster < 2:
        raise UserError("partition hdbscan", f"min_cluster is {min_cluster}", "A cluster has at least two members.")

    def one(group: np.ndarray) -> np.ndarray:
        rows = unit_rows(group)
        if len(rows) < max(2 * min_cluster, min_samples or 0):
            return np.arange(len(rows))
        model = HDBSCAN(min_cluster_size=min_cluster, min_samples=min_samples, copy=True)
        found = model.fit_predict(rows)
        return first_appearance([None if label < 0 else int(label) for label in found])

    return over_groups(one, np.asarray(embeddings, dtype=float), 2)


class Leader:
    """Clusters of a stream: an item joins the nearest leader within reach, or becomes a leader.

    One pass, so that the classes depend on the order: a leader is the first item of its cluster, and items are taken in
    the order given. Cut into parts, the same stream gives the same labels. `leaders` (C, d) and `sizes` are all the
    state there is. Source: Hartigan 1975.
    """

    def __init__(self, *, threshold: float = 0.8, most: int | None = None) -> None:
        """`threshold` is the cosine to a leader; beyond `most` leaders an item joins the nearest however far it is."""
        if not -1 <= threshold <= 1:
            raise UserError("leader.threshold", f"{threshold:g} is no cosine", "Use a number in [-1, 1].")
        if most is not None and most < 1:
            raise UserError("leader.most", f"is {most}", "Allow at least one leader.")
        self.threshold, self.most = threshold, most
        self.sizes: list[int] = []
        self._rows = np.zeros((0, 0))

    @property
    def leaders(self) -> np.ndarray:
        """The unit rows of the leaders, (C, d), in order of appearance."""
        return self._rows[: len(self.sizes)]

    def add(self, embeddings: ArrayLike) -> np.ndarray:
        """Labels (n,) of a further part of the stream, (n, d). Raises UserError for rows of zeros or another width."""
        rows = unit_rows(embeddings)
        if self.sizes and len(rows) and rows.shape[1] != self._rows.shape[1]:
            raise UserError("embeddings", f"have {rows.shape[1]} dimensions, the leaders {self._rows.shape[1]}")
        blocks = [self._add(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)

    def _add(self, rows: np.ndarray) -> np.ndarray:
        known = len(self.sizes)
        before, among = rows @ self._rows[:known].T if known else np.zeros((len(rows), 0)), rows @ rows.T
        new: list[int] = []  # rows of this block that became leaders
        labels = np.empty(len(rows), dtype=np.int64)
        for i in range(len(rows)):
            cosine = np.concatenate([before[i], among[i, new]])
            nearest = int(np.argmax(cosine)) if len(cosine) else -1
            full = self.most is not None and len(cosine) >= self.most
            if nearest < 0 or not (full or cosine[nearest] >= self.threshold):
                nearest = len(cosine)
                new.append(i)
                self.sizes.append(0)
            self.sizes[nearest] += 1
            labels[i] = nearest
        if new:
            self._append(rows[new], known)
        return labels

    def _append(self, rows: np.ndarray, known: int) -> None:
        if known + len(rows) > len(self._rows):  # room for twice as many, so that growth is linear
            grown = np.empty((2 * (known + len(rows)), rows.shape[1]))
            grown[:known] = self._rows[:known].reshape(known, rows.shape[1])
            self._rows = grown
        self._rows[known : known + len(rows)] = rows


@register("partition", "leader", returns="labels", paper="Hartigan 1975")
def leader(embeddings: Array, *, threshold: float = 0.8) -> np.ndarray:
    """Leader clustering of each group in its own order: a rollout joins the most similar first member within reach.

    `threshold` is the least cosine to join. Shapes: (..., G, d) -> int (..., G). See `Leader`.
    """
    return over_groups(lambda group: Leader(threshold=threshold).add(group), np.asarray(embeddings, dtype=float), 2)


def by_threshold(embeddings: ArrayLike, *, threshold: float = 0.8) -> np.ndarray:
    """Connected components of "cosine of at least `threshold`" of one set: (n, d) -> int (n,)."""
    rows = unit_rows(embeddings)
    return union_find(rows @ rows.T >= threshold)


@register("partition", "k_means", returns="labels", paper="Lloyd 1982")
def k_means(embeddings: Array, *, clusters: int = 8, seed: int = 0) -> np.ndarray:
    """Spherical k-means of the unit rows, at most `clusters` classes, in order of first appearance.

    Shapes: (..., G, d) -> int (..., G). Raises UserError for a row of zeros or NaN, and without scikit-learn.
    """
    try:
        from sklearn.cluster import KMeans
    except ImportError:
        raise missing_extra("partition k_means", "scikit-learn", "measure") from None
    if clusters < 1:
        raise UserError("k_means.clusters", f"is {clusters}", "Ask for at least one.")

    def one(group: np.ndarray) -> np.ndarray:
        rows = unit_rows(group)
        most = min(clusters, len(np.unique(rows.round(9), axis=0)))
        if most < 2:
            return np.zeros(len(rows), dtype=np.int64)
        model = KMeans(most, n_init=4, random_state=derive(seed, "k_means") % 2**32).fit(rows)
        return first_appearance(model.labels_.tolist())

    return over_groups(one, np.asarray(embeddings, dtype=float), 2)


@register("partition", "adaptive_leader", returns="labels", paper="Adaptive exploration [1.22]")
def adaptive_leader(embeddings: Array, *, start: float = 0.5, width: float = 1.0) -> np.ndarray:
    """Online clusters with an adaptive threshold: an item joins the nearest centroid, or opens a cluster.

    It joins when its cosine to that centroid is at least the running mean minus `width` standard deviations of the
    cosines with which items have joined so far (`start` before three have), and moves the centroid. One pass in order.
    Shapes: (..., G, d) -> int (..., G).
    """

    def one(group: np.ndarray) -> np.ndarray:
        sums, labels = np.zeros((0, group.shape[-1])), []
        joined: list[float] = []
        for row in unit_rows(group):
            cosine = sums @ row / np.linalg.norm(sums, axis=1) if len(sums) else np.zeros(0)
            limit = float(np.mean(joined) - width * np.std(joined)) if len(joined) >= 3 else start
            nearest = int(np.argmax(cosine)) if len(cosine) else -1
            if nearest >= 0 and cosine[nearest] >= limit - 1e-12:
                sums[nearest] += row
                joined.append(float(cosine[nearest]))
            else:
                nearest, sums = len(sums), np.vstack([sums, row])
            labels.append(nearest)
        return np.asarray(labels, dtype=np.int64)

    return over_groups(one, np.asarray(embeddings, dtype=float), 2)
