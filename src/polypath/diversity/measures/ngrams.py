"""The n-grams of many texts as integers: what text measures count, in a few sorts instead of millions of tuples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polypath.core.errors import UserError
from polypath.diversity.features import tokens

Ints = NDArray[np.int64]


class NGrams(NamedTuple):
    """All n-grams of one order: `codes` numbers them from 0 (equal number, equal n-gram), `owners` is their text."""

    order: int
    codes: Ints
    owners: Ints

    @property
    def distinct(self) -> int:
        """How many different n-grams there are."""
        return int(np.count_nonzero(np.bincount(self.codes)))

    def by_owner(self, texts: int) -> tuple[Ints, Ints, Ints]:
        """Every (n-gram, text) that occurs, sorted: n-grams, texts, counts."""
        keys, counts = np.unique(self.codes * texts + self.owners, return_counts=True)
        grams, owners = np.divmod(keys, texts)
        return grams, owners, counts.astype(np.int64)


def numbered_ngrams(documents: Sequence[Sequence[str]], largest: int) -> Iterator[NGrams]:
    """The n-grams of lists of words for n = 1..largest; they never cross from one list into the next.

    >>> [grams.codes.tolist() for grams in numbered_ngrams([["a", "b", "a", "b"], ["a"]], 2)]
    [[0, 1, 0, 1, 0], [0, 1, 0]]
    """
    names: dict[str, int] = {}
    words = np.fromiter((names.setdefault(word, len(names)) for word in chain.from_iterable(documents)), np.int64)
    owners = np.repeat(np.arange(len(documents)), np.fromiter(map(len, documents), np.int64, len(documents)))
    codes = words
    yield NGrams(1, codes, owners)
    for order in range(2, largest + 1):
        # An n-gram is the pair (its first n - 1 words, its last), numbered anew so that the product never overflows.
        codes = np.unique(codes[:-1] * (len(names) + 1) + words[order - 1 :], return_inverse=True)[1].astype(np.int64)
        inside = owners[: len(codes)] == owners[order - 1 :]
        yield NGrams(order, codes[inside], owners[: len(codes)][inside])


def text_ngrams(texts: Sequence[str], largest: int) -> Iterator[NGrams]:
    """`numbered_ngrams` of the tokens of texts. Raises UserError for an order below 1."""
    if largest < 1:
        raise UserError("n-grams", f"there are none of order {largest}", "Use 1 or more.")
    return numbered_ngrams([tokens(text) for text in texts], largest)
