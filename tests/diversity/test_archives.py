"""Archives: insertion by the feature map, merging, saving, bad descriptors, lists, samplers, proximity."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.diversity import archives
from polypath.diversity.archives import Archive
from polypath.diversity.archives_cells import categorical, cvt, grid, lists, proximity, sliding, text_bleu
from polypath.diversity.archives_samplers import acceptance_bound, annealed_fitness, softmax_fitness

pytest.importorskip("ribs")
NAMES = [["a", "b"], ["x", "y", "z"]]
SQUARE = [(0.0, 1.0), (0.0, 1.0)]
FORMS = {
    "grid": lambda: grid(dims=[3, 2], ranges=SQUARE),
    "cvt": lambda: cvt(ranges=SQUARE, cells=7),
    "categorical": lambda: categorical(categories=NAMES),
    "proximity": lambda: proximity(size=2, min_distance=0.3),
    "sliding": lambda: sliding(dims=[3, 3], ranges=SQUARE, every=10, buffer=30),
    "lists": lambda: lists(categories=NAMES, min_quality=0.2, max_bleu=None, capacity=3),
}
MERGED_EXACTLY = [e.name for e in registry.entries("archive") if "merge_associative" in e.traits] + ["lists"]


def test_every_form_is_tested() -> None:
    assert set(FORMS) == {entry.name for entry in registry.entries("archive")}


def filled(name: str, n: int = 60, seed: int = 0, levels: int = 5) -> Archive:
    """An archive with `n` additions; qualities have few levels, so that there are ties."""
    rng = np.random.default_rng(seed)
    archive = FORMS[name]()
    named = name in ("categorical", "lists")
    where = [[rng.choice(d) for d in NAMES] if named else list(rng.random(2) * 1.2 - 0.1) for _ in range(n)]
    archive.add([f"{seed}-{i}" for i in range(n)], (rng.integers(0, levels, n) / levels).tolist(), where)
    return archive


def content(archive: Archive) -> set[tuple[str, float]]:
    return {(elite.solution, elite.quality) for elite in archive.elites()}


def test_the_feature_map_decides_what_is_replaced() -> None:
    """The bug of others: a better solution of another cell must not push one out, a worse one of its own must not."""
    archive = grid(dims=[2, 2], ranges=SQUARE)
    status = archive.add(
        ["low", "other", "worse", "equal", "best"],
        [0.5, 9.0, 0.4, 0.5, 0.6],
        [[0.1, 0.1], [0.9, 0.1], [0.2, 0.2], [0.3, 0.3], [0.49, 0.49]],
    )
    assert status == ["new", "new", "rejected", "rejected", "better"]
    assert content(archive) == {("best", 0.6), ("other", 9.0)}
    stats = archive.stats()
    assert (stats["added"], stats["size"], stats["coverage"], stats["rejected"]) == (5, 2, 0.5, 2)
    assert (stats["qd_score"], stats["best"], stats["mean"]) == (9.6, 9.0, 4.8)
    assert archive.occupied([[0.0, 0.0], [0.9, 0.9]]) == [True, False]


@pytest.mark.parametrize("name", ["grid", "cvt", "categorical"])
def test_each_cell_holds_the_first_of_its_best(name: str) -> None:
    """Brute force over the log, with the cell looked up in an archive of one."""
    archive = filled(name)
    best: dict[int, archives.Entry] = {}
    for entry in archive.log:
        cell = int(archive.cells.ribs.index_of_single(archive.cells.measures(entry.descriptor)))
        if cell not in best or entry.quality > best[cell].quality:
            best[cell] = entry
    assert {e.number for e in best.values()} == {e.number for e in archive.elites()}
    assert archive.stats()["cells"] == len(best)


@pytest.mark.parametrize("name", sorted(set(MERGED_EXACTLY)))
@given(seeds=st.tuples(*[st.integers(0, 99)] * 3))
@settings(max_examples=8, deadline=None)
def test_merging_is_associative(name: str, seeds: tuple[int, int, int]) -> None:
    a, b, c = (filled(name, 25, seed, levels=3) for seed in seeds)
    left, right, flat = a.merge(b).merge(c), a.merge(b.merge(c)), a.merge(b, c)
    assert content(left) == content(right) == content(flat)
    assert content(a.merge(a.empty())) == content(a) == content(a.empty().merge(a))


@pytest.mark.parametrize("name", FORMS)
def test_a_saved_archive_is_the_same(name: str, tmp_path: Path) -> None:
    archive = filled(name)
    archive.add(["ünï", {"code": [1]}], [math.nan, 2.0], [archive.log[0].descriptor, archive.log[1].descriptor])
    archive.save(tmp_path / "a.jsonl")
    again = archives.load(tmp_path / "a.jsonl")
    assert again.elites() == archive.elites() and again.config == archive.config
    assert again.stats() == pytest.approx(archive.stats(), nan_ok=True)
    more = filled(name, 20, seed=5).log  # and goes on alike
    for each in (archive, again):
        each.add([e.solution for e in more], [e.quality for e in more], [e.descriptor for e in more])
    assert again.elites() == archive.elites()


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for text in ("", '{"a": 1}\n'):
        path.write_text(text)
        with pytest.raises(UserError, match="is not an archive"):
            archives.load(path)
    path.write_text(json.dumps({"archive": {"grd": {}}}) + "\n")
    with pytest.raises(UserError, match="Did you mean grid"):
        archives.load(path)


@pytest.mark.parametrize("name", FORMS)
def test_nothing_undefined_gets_in(name: str) -> None:
    archive = filled(name, 5)
    before, size = archive.elites(), len(archive.log)
    good = archive.log[0].descriptor
    bad = ("q", "x") if name in ("categorical", "lists") else (math.nan, 0.5)
    assert archive.add(["a", "b", "c"], [math.nan, math.inf, 9.0], [good, good, bad]) == ["invalid"] * 3
    assert archive.elites() == before and archive.stats()["invalid"] == 3 and len(archive.log) == size + 3
    with pytest.raises(UserError, match="1 values for 2 dimensions"):
        archive.add(["a"], [1.0], [good[:1]])
    with pytest.raises(UserError, match="number 1, 2, 1 and 1"):
        archive.add(["a"], [1.0, 2.0], [good])
    empty = archive.empty()
    assert len(empty) == 0 and math.isnan(empty.stats()["best"]) and empty.stats()["qd_score"] == 0
    with pytest.raises(UserError, match="is empty"):
        empty.sample(1, seed=0)


def test_out_of_range_is_clipped_and_counted() -> None:
    archive = grid(dims=[2, 2], ranges=SQUARE)
    assert archive.add(["a", "b"], [1.0, 2.0], [[0.9, 0.9], [5.0, 7.0]]) == ["new", "better"]
    assert archive.stats()["clipped"] == 1
    for wrong in ([(1, 0), (0, 1)], [(0, 1)], []):
        with pytest.raises(UserError, match="ranges"):
            grid(dims=[2, 2], ranges=wrong)


def test_proximity_keeps_its_distance() -> None:
    """0 is in; .1 is too near and better, so it replaces; 1 is far; 1.05 is near and worse."""
    archive = proximity(size=1, min_distance=0.5)
    assert archive.add(list("abcd"), [1, 2, 1, 0], [[0.0], [0.1], [1.0], [1.05]]) == [
        "new", "better", "new", "rejected",
    ]  # fmt: skip
    assert archive.occupied([[0.3], [3.0]]) == [True, False] and math.isnan(archive.stats()["coverage"])
    copies = proximity(size=1, min_distance=0.5)
    assert copies.add(["a", "a"], [1, 1], [[0.0], [0.0]]) == ["new", "rejected"]  # copies of one batch too


def test_lists_keep_what_is_different() -> None:
    archive = lists(categories=NAMES, min_quality=0.5)
    texts = ["the cat sat on the mat", "the cat sat on the mat today", "dogs run fast", "weak"]
    assert archive.add(texts, [0.9, 0.9, 0.8, 0.5], [("a", "x")] * 4) == ["new", "rejected", "new", "rejected"]
    assert archive.stats()["cells"] == 1 and archive.stats()["size"] == 2
    assert text_bleu(texts[1], texts[0]) > 0.6 > text_bleu(texts[2], texts[0])
    small = lists(categories=NAMES, min_quality=0, max_bleu=None, capacity=2)
    status = small.add(list("abcd"), [0.2, 0.4, 0.3, 0.1], [("a", "x")] * 4)
    assert status == ["new", "new", "better", "rejected"] and content(small) == {("b", 0.4), ("c", 0.3)}


def test_what_each_model_contributed() -> None:
    """QD score 3 + 2; without m1 the first cell falls to 1 and the second stays; without m2 the second is empty."""
    archive = grid(dims=[2], ranges=[(0, 1)])
    archive.add(["a", "b"], [1.0, 2.0], [[0.1], [0.9]], source="m2")
    archive.add(["c"], [3.0], [[0.1]], source="m1")
    assert archive.contributions() == {"m1": 2.0, "m2": 2.0}


def test_worked_sampling_weights() -> None:
    assert softmax_fitness([0.2, 0.6, 1.0], temperature=1.2).tolist() == pytest.approx(
        [0.207560, 0.314848, 0.477592], abs=1e-6
    )
    assert annealed_fitness([0.2, 0.6, 1.0], progress=0.25).tolist() == pytest.approx(
        softmax_fitness([0.2, 0.6, 1.0], temperature=1.2).tolist()
    )  # a new cycle is hot again
    assert annealed_fitness([0.2, 0.6, 1.0], progress=1.0)[2] == pytest.approx(0.964370, abs=1e-6)
    assert acceptance_bound([10, 40], [4, 9])[0] == pytest.approx(0.4 + 2 * math.sqrt(math.log(51) / 10))
    assert math.isinf(acceptance_bound([0, 1], [0, 1])[0])


@pytest.mark.parametrize("entry", registry.entries("sampler"), ids=lambda e: e.name)
def test_samplers_give_probabilities(entry) -> None:
    data = {"quality": np.array([1.0, 1.0, 0.0]), "tries": np.array([0, 3, 3]), "accepted": np.array([0, 3, 0])}
    weights = registry.get("sampler", entry.name)(*(data[name] for name in entry.data))
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    equal = registry.get("sampler", entry.name)(*(np.ones(4) for _ in entry.data))
    assert equal.tolist() == pytest.approx([0.25] * 4)


def test_parents_follow_the_lineage_and_the_seed() -> None:
    archive = categorical(categories=[["a", "b"]])
    archive.add(["p", "q"], [0.5, 0.5], [["a"], ["b"]])
    archive.add(["c"] * 3, [0.1] * 3, [["a"]] * 3, parents=[0, 0, 0])  # none is accepted
    assert {e.solution for e in archive.sample(5, "ucb", seed=0)} == {"q"}  # never tried
    curious = archive.sample(400, "curiosity", seed=0)
    assert sum(e.solution == "q" for e in curious) / 400 == pytest.approx(1 / 1.1, abs=0.06)
    assert archive.sample(9, seed=3) == archive.sample(9, seed=3) != archive.sample(9, seed=4)
    with pytest.raises(UserError, match="Did you mean ucb"):
        archive.sample(1, "ucbb", seed=0)
    with pytest.raises(UserError, match="temperature"):
        archive.sample(1, {"softmax_fitness": {"temperature": 0.0}}, seed=0)
