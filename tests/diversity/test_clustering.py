"""Partitions by relation, linkage, density and stream."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.diversity import clustering as c

BLOBS = np.array([[1, 0], [0.99, 0.05], [0, 1], [0.02, 0.98], [1, 0.02], [-1, 0]])


def test_relations_are_closed_and_asked_seldom() -> None:
    asked = []

    def near(a: str, b: str) -> bool:
        asked.append((a, b))
        return abs(int(a) - int(b)) <= 1

    assert c.by_equivalence(["1", "3", "1", "2", "9"], near).tolist() == [0, 0, 0, 0, 1]  # 2 links 1 and 3
    assert ("1", "1") not in asked and len(asked) <= 8
    one_way = lambda a, b: a <= b  # noqa: E731
    assert c.by_equivalence(["a", "b"], one_way).tolist() == [0, 0]
    assert c.by_equivalence(["a", "b"], one_way, both_ways=True).tolist() == [0, 1]
    assert c.by_equivalence([], near).tolist() == [] and c.by_equivalence(["5"], near).tolist() == [0]


def test_average_linkage_by_hand() -> None:
    """Similarities .9 (0,1), .5 (0,2), .7 (1,2): first 0 and 1; their mean to 2 is .6."""
    kernel = np.array([[1, 0.9, 0.5], [0.9, 1, 0.7], [0.5, 0.7, 1]])
    assert c.average_linkage(kernel, threshold=0.61).tolist() == [0, 0, 1]
    assert c.average_linkage(kernel, threshold=0.6).tolist() == [0, 0, 0]
    assert c.average_linkage(np.stack([kernel, np.eye(3)]), threshold=0.8).tolist() == [[0, 0, 1], [0, 1, 2]]
    assert c.average_linkage([[1.0]]).tolist() == [0]
    with pytest.raises(UserError, match=r"similarity\[1\]"):
        c.average_linkage([[1.0, 0.5], [math.nan, 1.0]])


@pytest.mark.parametrize(
    "partition", [c.density, lambda e: c.leader(e, threshold=0.9), lambda e: c.by_threshold(e, threshold=0.9)]
)
def test_blobs_are_found(partition) -> None:
    labels = partition(BLOBS)
    assert labels.tolist() == [0, 0, 1, 1, 0, 2]
    order = [5, 3, 1, 0, 2, 4]
    shuffled = partition(BLOBS[order])
    assert all(
        (shuffled[i] == shuffled[j]) == (labels[a] == labels[b])
        for i, a in enumerate(order)
        for j, b in enumerate(order)
    )


def test_density_of_small_groups_and_batches() -> None:
    assert c.density(BLOBS[:3]).tolist() == [0, 1, 2]
    assert c.density(np.stack([BLOBS, BLOBS[::-1]])).shape == (2, 6)


def test_a_stream_in_parts_is_the_stream() -> None:
    whole = c.Leader(threshold=0.9).add(BLOBS)
    parts = c.Leader(threshold=0.9)
    assert [*parts.add(BLOBS[:2]), *parts.add(BLOBS[2:])] == whole.tolist()
    assert parts.sizes == [3, 2, 1]
    bounded = c.Leader(threshold=0.9, most=1)
    assert set(bounded.add(BLOBS)) == {0}
    with pytest.raises(UserError, match="no cosine"):
        c.Leader(threshold=2)
    with pytest.raises(UserError, match="is zero"):
        c.Leader().add([[0.0, 0.0]])
