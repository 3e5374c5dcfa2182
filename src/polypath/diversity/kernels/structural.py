"""Kernels of labels, sets, sequences and lists of reasoning steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import missing_extra
from polypath.core.registry import register
from polypath.diversity.kernels.vector import unit_rows
from polypath.diversity.kernels.view import Index, Kernel, Matrix

LAST_CHARACTER = 0x10FFFF
STEP_CELLS = 2**23  # pairs of steps compared at once


@register("kernel", "label", returns="similarity")
def label_kernel(labels: Sequence[Hashable]) -> Kernel:
    """1 for equal labels, else 0; an item with the label None equals only itself.

    >>> label_kernel(["a", "b", "a", None, None]).rows([0, 3]).tolist()
    [[1.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]]
    """
    names: dict[Hashable, int] = {}
    for i, label in enumerate(labels):
        names.setdefault((i,) if label is None else (label, "label"), len(names))
    codes = np.array([names[(i,) if label is None else (label, "label")] for i, label in enumerate(labels)], dtype=int)

    def block_of(i: Index, j: Index) -> Matrix:
        return (codes[i][:, None] == codes[j][None, :]).astype(float)

    def factor(index: Index) -> Matrix:
        return (codes[index][:, None] == np.arange(len(names))).astype(float)

    return Kernel(block_of, np.ones(len(codes)), "label", factor, len(names))


@register("kernel", "jaccard", returns="similarity")
def jaccard_kernel(sets: Sequence[AbstractSet[Hashable]]) -> Kernel:
    """|A and B| / |A or B| of sets (n-grams, AST nodes, equations); two empty sets are equal.

    >>> jaccard_kernel([{"a", "b"}, {"b", "c"}, set()]).rows([0]).round(3).tolist()
    [[1.0, 0.333, 0.0]]
    """
    sizes = np.array([len(one) for one in sets], dtype=float)
    members = _sparse(sets, np.ones(int(sizes.sum())))

    def block_of(i: Index, j: Index) -> Matrix:
        shared = (members[i] @ members[j].T).toarray()
        union = sizes[i][:, None] + sizes[j][None, :] - shared
        return np.where(union == 0, 1.0, shared / np.where(union == 0, 1.0, union))

    return Kernel(block_of, np.ones(len(sets)), "jaccard")


@register("kernel", "bags", returns="similarity")
def bag_kernel(bags: Sequence[Mapping[Any, float]]) -> Kernel:
    """Cosine of bags of counts (n-grams, syntax nodes), held sparse; two empty bags are equal, and like no other.

    >>> bag_kernel([{"a": 2, "b": 1}, {"a": 2}, {}]).rows([0]).round(3).tolist()
    [[1.0, 0.894, 0.0]]
    """
    lengths = np.array([sum(x * x for x in bag.values()) ** 0.5 for bag in bags])
    empty = lengths == 0
    members = _sparse([bag.keys() for bag in bags], [x for bag in bags for x in bag.values()])
    scale = 1.0 / np.where(empty, 1.0, lengths)

    def block_of(i: Index, j: Index) -> Matrix:
        products = (members[i] @ members[j].T).toarray() * scale[i][:, None] * scale[j][None, :]
        return np.where(empty[i][:, None] & empty[j][None, :], 1.0, products)

    return Kernel(block_of, np.ones(len(bags)), "bags")


@register("kernel", "lcs", returns="similarity")
def lcs_kernel(sequences: Sequence[Sequence[Hashable]]) -> Kernel:
    """Longest common subsequence divided by the longer length; two empty sequences are equal. Not a PSD kernel.

    `sequences` may be strings (compared by character) or lists of tokens or symbols.

    >>> lcs_kernel(["DSVC", "DVC"]).rows([0]).tolist()
    [[1.0, 0.75]]
    """
    texts = as_strings(sequences)
    compare = _cdist("LCSseq")

    def block_of(i: Index, j: Index) -> Matrix:
        return np.asarray(compare(_pick(texts, i), _pick(texts, j)), dtype=float)

    return Kernel(block_of, np.ones(len(texts)), "lcs", is_psd=False)


def rouge_l_block(a: Sequence[str], b: Sequence[str]) -> Matrix:
    """ROUGE-L F1, 2 LCS / (|a| + |b|), of strings in which a character stands for a token (see `as_strings`)."""
    return np.asarray(_cdist("Indel")(a, b), dtype=float)


def path_divergence(a: ArrayLike, b: ArrayLike) -> float:
    """Reasoning path divergence (arXiv:2510.26122): how far the steps of the shorter list are from the other's.

    The mean over the steps of the shorter list (the first if equal) of the cosine distance to the nearest step of the
    other. Shapes: (s, d), (t, d). Two empty lists have 0, one empty list 1.

    >>> round(path_divergence([[1, 0], [0, 1]], [[1, 0], [0.6, 0.8], [-1, 0]]), 6)
    0.1
    """
    shorter, longer = sorted([unit_rows(a, "steps"), unit_rows(b, "steps")], key=len)
    if len(shorter) == 0:
        return float(len(longer) > 0)
    return float(np.maximum(1.0 - (shorter @ longer.T).max(axis=1), 0.0).mean())


@register("kernel", "rpd", returns="similarity", paper="arXiv:2510.26122 [0.91]")
def rpd_kernel(steps: Sequence[ArrayLike]) -> Kernel:
    """1 - reasoning path divergence of lists of step embeddings; the larger of both directions counts. Not PSD."""
    units = [unit_rows(one, "steps") for one in steps]
    counts = np.array([len(one) for one in units], dtype=int)
    every = np.arange(len(steps))

    def block_of(i: Index, j: Index) -> Matrix:
        rows, columns = every[i], every[j]
        out = np.empty((len(rows), len(columns)))
        most = max(1, STEP_CELLS // max(1, int(counts[columns].sum())))
        for start, stop in _chunks(counts[rows], most):
            out[start:stop] = 1.0 - _divergences(units, counts, rows[start:stop], columns)
        return out

    return Kernel(block_of, np.ones(len(steps)), "rpd", is_psd=False)


def _chunks(counts: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that hold at most `most` steps together, or one row."""
    start = total = 0
    for at, count in enumerate(counts.tolist()):
        if at > start and total + count > most:
            yield start, at
            start, total = at, 0
        total += count
    if start < len(counts):
        yield start, len(counts)


def _divergences(units: Sequence[Matrix], counts: NDArray[np.int64], rows: Any, columns: Any) -> Matrix:
    """The larger of `path_divergence` of both directions for all pairs, from one product of all their steps."""
    a, b = counts[rows], counts[columns]
    out = np.where((a[:, None] == 0) & (b[None, :] == 0), 0.0, 1.0)
    some, others = np.flatnonzero(a), np.flatnonzero(b)
    if not len(some) or not len(others):
        return out
    cosines = np.concatenate([units[x] for x in rows[some]]) @ np.concatenate([units[x] for x in columns[others]]).T
    distance = np.maximum(1.0 - cosines, 0.0)
    up, left = (np.concatenate([[0], np.cumsum(n)[:-1]]) for n in (a[some], b[others]))
    nearest = np.minimum.reduceat(distance, left, axis=1)  # of every step on the left, in each list on the right
    forth = np.add.reduceat(nearest, up, axis=0) / a[some][:, None]
    nearest = np.minimum.reduceat(distance, up, axis=0)
    back = np.add.reduceat(nearest, left, axis=1) / b[others]
    longer = a[some][:, None] - b[others][None, :]
    both = np.where(longer < 0, forth, np.where(longer > 0, back, np.maximum(forth, back)))
    out[np.ix_(some, others)] = both
    return out


def as_strings(sequences: Sequence[Sequence[Hashable]]) -> list[str]:
    """Each sequence as a string in which every character stands for one token, for routines that compare strings.

    >>> [len(s) for s in as_strings([["to", "be"], ["be"], "xyz"])]
    [2, 1, 3]
    """
    frequent = Counter(chain.from_iterable(sequences)).most_common()  # small characters are compared fastest
    if len(frequent) > LAST_CHARACTER:
        raise ValueError(f"{len(frequent)} different tokens; at most {LAST_CHARACTER} can be told apart")
    names = {token: chr(code) for code, (token, _) in enumerate(frequent)}
    return ["".join(names[token] for token in sequence) for sequence in sequences]


def _sparse(rows: Sequence[Collection[Hashable]], values: ArrayLike) -> Any:
    """A sparse matrix with a row per collection and a column per different element."""
    try:
        from scipy.sparse import csr_matrix
    except ImportError:
        raise missing_extra("kernels of sets and bags", "scipy", "measure") from None
    names: dict[Hashable, int] = {}
    columns = [names.setdefault(element, len(names)) for row in rows for element in row]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(int)
    return csr_matrix((np.asarray(values, dtype=float), columns, starts), shape=(len(rows), max(1, len(names))))


def _cdist(scorer: str) -> Callable[[Sequence[str], Sequence[str]], Any]:
    try:
        from rapidfuzz import distance, process
    except ImportError:
        raise missing_extra("longest common subsequences", "rapidfuzz", "measure") from None
    similarity = getattr(distance, scorer).normalized_similarity
    return lambda a, b: process.cdist(a, b, scorer=similarity, dtype=np.float64)


def _pick(texts: list[str], index: Index) -> list[str]:
    return texts[index] if isinstance(index, slice) else [texts[i] for i in index]
