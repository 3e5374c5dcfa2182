"""Archives: one conformance for all kinds, and what is special to each."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.diversity import archives as a

pytest.importorskip("ribs")
UNIT = [(0.0, 1.0), (0.0, 1.0)]
OPTIONS = {
    "grid": {"dims": [4, 4], "ranges": UNIT},
    "sliding": {"dims": [4, 4], "ranges": UNIT},
    "cvt": {"cells": 16, "ranges": UNIT, "samples": 500},
    "proximity": {"descriptor_dim": 2, "k": 1, "threshold": 0.1},
    "lists": {"most": 1},
}
SPOTS = [(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)]


@pytest.fixture(params=OPTIONS)
def empty(request):
    return lambda: a.open_archive(request.param, **OPTIONS[request.param])


def test_cells_decide_what_replaces_what(empty) -> None:
    """A better item replaces the one in its cell and no other: the feature map is used."""
    archive = empty()
    assert archive.elites() == [] and archive.add([], [], []) == []
    archive.add(["a", "b", "c", "d"], [1, 2, 3, 4], SPOTS)
    assert {e.item for e in archive.elites()} == {"a", "b", "c", "d"}
    assert archive.add(["worse"], [0.5], [SPOTS[0]]) == [0]
    archive.add(["better"], [9], [SPOTS[0]])
    assert {e.item for e in archive.elites()} == {"better", "b", "c", "d"}
    for elite in archive.elites():
        assert isinstance(elite.quality, float) and len(elite.descriptor) == 2
    found = a.statistics(archive, offset=1.0)
    assert found["n"] == found["occupied"] == 4 and found["best"] == 9 and found["qd_score"] == 8 + 1 + 2 + 3


def test_what_is_saved_is_what_was_kept(empty, tmp_path: Path) -> None:
    archive = empty()
    archive.add([{"text": "ü", "n": i} for i in range(4)], [1, 2, 3, 4], SPOTS)
    a.save(archive, tmp_path / "archive.jsonl")
    again = a.load(empty(), tmp_path / "archive.jsonl")
    assert [(e.item, e.quality, e.descriptor) for e in again.elites()] == [
        (e.item, e.quality, e.descriptor) for e in archive.elites()
    ]


@pytest.mark.parametrize("kind", ["grid", "cvt", "lists"])
def test_merging_is_associative(kind: str) -> None:
    def empty():
        return a.open_archive(kind, **OPTIONS[kind])

    rng = np.random.default_rng(0)
    parts = []
    for part in range(3):
        archive = empty()
        spots = [SPOTS[i] for i in rng.integers(0, 4, 6)]
        archive.add([f"{part}{i}" for i in range(6)], rng.permutation(18)[:6] + part / 10, spots)
        parts.append(archive)
    left = a.merge(a.merge(empty(), parts[0], parts[1]), parts[2])
    right = a.merge(a.merge(empty(), parts[2], parts[1]), parts[0])
    assert {e.item for e in left.elites()} == {e.item for e in right.elites()}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_refused_whole(empty, bad: float) -> None:
    archive = empty()
    with pytest.raises(UserError, match="item 1"):
        archive.add(["a", "b"], [1, bad], SPOTS[:2])
    with pytest.raises(UserError, match="item 0"):
        archive.add(["a"], [1], [(bad, 0.1)])
    with pytest.raises(UserError, match="2 items, 1 qualities"):
        archive.add(["a", "b"], [1], SPOTS[:2])
    assert archive.elites() == []


def test_outside_the_ranges_is_the_border_cell() -> None:
    archive = a.open_archive("grid", **OPTIONS["grid"])
    archive.add(["in", "out"], [1, 2], [(0.99, 0.99), (7.0, 7.0)])
    assert [e.item for e in archive.elites()] == ["out"]


def test_categories_and_lists() -> None:
    archive = a.open_archive("categorical", categories=[["poem", "tale"], ["sad", "glad"]])
    archive.add(["x", "y", "z"], [1, 2, 3], [("poem", "sad"), ("poem", "sad"), ("tale", "glad")])
    assert {(e.item, e.descriptor) for e in archive.elites()} == {("y", ("poem", "sad")), ("z", ("tale", "glad"))}
    lists = a.open_archive("lists", most=2)
    assert lists.add(["a", "b", "c", "a"], [1, 3, 2, 1], [("k",)] * 4) == [2, 1, 1, 0]  # "a" had to go
    assert [e.item for e in lists.elites()] == ["b", "c"] and a.statistics(lists, cells=4)["coverage"] == 0.25
    assert lists.add(["c"], [2], [("k",)]) == [0]


def test_parents_by_policy() -> None:
    archive = a.open_archive("lists")
    archive.add(["weak", "good"], [0.1, 0.9], [("x",), ("y",)])
    share = {
        p: np.mean([e.item == "good" for e in a.draw(archive, 400, policy=p)])
        for p in ("uniform", "softmax", "inverse")
    }
    assert 0.4 < share["uniform"] < 0.6 and share["softmax"] > 0.98 and share["inverse"] < 0.02
    assert [e.item for e in a.draw(archive, 1, policy="ucb", tried={0: (1, 10)})] == ["good"]  # never tried
    assert a.draw(archive, 5, seed=3) == a.draw(archive, 5, seed=3)
    with pytest.raises(UserError, match="empty"):
        a.draw(a.open_archive("lists"), 1)


def test_mistakes_in_opening() -> None:
    with pytest.raises(UserError, match="Did you mean grid"):
        a.open_archive("gird")
    with pytest.raises(UserError, match="archive grid"):
        a.open_archive("grid", dims=[2])
    assert all(math.isnan(a.statistics(a.open_archive("lists"))[name]) for name in ("best", "mean", "coverage"))
