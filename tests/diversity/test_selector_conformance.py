"""Every registered selector: what its traits promise, and what no selector may do with bad input."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from polypath.core import registry
from polypath.core.errors import UserError

N = 24
ENTRIES = {entry.name: entry for entry in registry.entries("selector")}
KNOWN_TRAITS = {
    "prefix",  # the first picks of a larger selection are the smaller one
    "warm_start",  # continuing from `chosen` gives what would have come after them
    "gains_fall",  # no pick gains more than one before it
    "seeded",  # the seed decides, and another one gives another selection
}
KNOBS: dict[str, dict[str, Any]] = {"swap": {"target": {"a": (0.2, 0.5)}}, "compatible": {"similarity": 0.3}}
COLUMNS = ("infinite",)  # they choose columns
FEW = ("compatible", "portfolio", "set_cover", "cluster_bandit", "subset_bandit", "min_distance")  # may give fewer


def data(n: int = N, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 14))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = ["abc"[i % 3] for i in range(n)]
    return {
        "embeddings": rows,
        "similarity": rows @ rows.T,
        "sources": [rows @ rows.T, np.exp(-np.abs(np.subtract.outer(np.arange(n), np.arange(n))))],
        "quality": rng.uniform(size=n),
        "density": rng.uniform(1, 2, size=n),
        "rewards": rng.uniform(size=n),
        "scores": rng.uniform(size=(n, 4)),
        "value": rng.uniform(size=n).tolist(),
        "labels": labels,
        "items": list(range(n)),
        "attributes": [[label] for label in labels],
        "sets": [set(rng.integers(0, 40, size=5).tolist()) for _ in range(n)],
        "success": (rng.uniform(size=(n, 30)) < 0.4).astype(float),
        "probabilities": rng.dirichlet(np.ones(3), size=(n, 4)),
        "columns": rng.normal(size=(50, n)),
        "feedback": rng.uniform(size=(n, 2)).tolist(),
    }


def run(name: str, k: int, given: dict[str, Any] | None = None, **knobs: Any) -> Any:
    entry, given = ENTRIES[name], given or data()
    given = given | ({"rewards": data()["scores"][: len(given["items"])]} if name == "crowd" else {})
    values = {key: given[key] for key in entry.data if key in given and key not in ("cost", "density")}
    return registry.get("selector", name)(**values, k=k, **KNOBS.get(name, {}), **knobs)


def declares(trait: str) -> list[str]:
    return [name for name, entry in ENTRIES.items() if trait in entry.traits]


@pytest.mark.parametrize("name", ENTRIES)
def test_picks_are_different_and_explained(name: str) -> None:
    found = run(name, 8)
    assert set(ENTRIES[name].traits) <= KNOWN_TRAITS and ENTRIES[name].paper and ENTRIES[name].summary
    assert len(set(found.indices)) == len(found.indices) == len(found.gains) and set(found.indices) <= set(range(N))
    assert len(found) == 8 or (name in FEW and 0 < len(found) < 8)
    assert len(found.reasons) in (0, len(found)) and all(type(i) is int for i in found.indices)
    assert run(name, 8).indices == found.indices  # nothing is left to chance


@pytest.mark.parametrize("name", declares("prefix"))
def test_a_beginning_is_the_smaller_selection(name: str) -> None:
    whole = run(name, 12)
    for k in (1, 5):
        assert run(name, k).indices == whole.indices[:k]


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - set(declares("prefix"))))
def test_who_does_not_declare_a_prefix_has_none(name: str) -> None:
    whole = run(name, 12).indices
    if name in ("subset_bandit", "compatible", "sparse"):  # on these data they may happen to
        return
    assert any(run(name, k).indices != whole[:k] for k in range(1, 12))


@pytest.mark.parametrize("name", declares("warm_start"))
def test_a_selection_can_be_continued(name: str) -> None:
    whole = run(name, 10).indices
    found = run(name, 10, chosen=whole[:4]).indices
    assert found[:4] == whole[:4] and len(set(found)) == 10
    if "prefix" in ENTRIES[name].traits and name != "min_distance":  # which goes down the list again
        assert found == whole
    assert run(name, 3, chosen=whole[:4]).indices == whole[:3]  # never more than k
    with pytest.raises(UserError, match="chosen"):
        run(name, 10, chosen=[0, 0])


@pytest.mark.parametrize("name", declares("gains_fall"))
def test_gains_fall(name: str) -> None:
    gains = run(name, 12).gains
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(gains)), gains


@pytest.mark.parametrize("name", declares("seeded"))
def test_the_seed_decides(name: str) -> None:
    assert run(name, 6, seed=1).indices == run(name, 6, seed=1).indices
    assert len({tuple(run(name, 6, seed=seed).indices) for seed in range(8)}) > 1


@pytest.mark.parametrize("name", ENTRIES)
def test_no_picks_and_too_many(name: str) -> None:
    for k in (0, -1):
        with pytest.raises(UserError, match="Pick at least one"):
            run(name, k)
    if name == "k_dpp":  # 14 dimensions carry no more
        with pytest.raises(UserError, match="rank 14"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(name, N + 3)
        return
    with pytest.warns(UserWarning, match="all are taken"):
        found = run(name, N + 3)
    assert len(set(found.indices)) == len(found) <= N


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - {"random", "set_cover", "features", "swap"}))
def test_nan_is_refused(name: str) -> None:
    entry = ENTRIES[name]
    for field in set(entry.data) & {"embeddings", "similarity", "quality", "scores", "success", "rewards", "columns"}:
        if field == "rewards" and name == "crowd":
            continue
        given = data()
        broken = np.array(given[field], dtype=float)
        broken[3] = math.nan
        with pytest.raises(UserError):
            run(name, 4, {**given, field: broken})


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - {"k_dpp", *COLUMNS}))
def test_one_item(name: str) -> None:
    given = {key: value[:1] for key, value in data().items() if key not in ("columns", "similarity", "sources")}
    given |= {"similarity": np.ones((1, 1)), "sources": [np.ones((1, 1))]}
    given["value"], given["success"] = [1.0], np.ones((1, 5))
    assert run(name, 1, given).indices == [0]


@pytest.mark.parametrize(
    "name", ("dpp", "k_center", "mmr", "max_sum", "vendi", "novel", "farthest", "facility_location")
)
def test_copies_come_last(name: str) -> None:
    """Three different rows and five copies: the three are the first three, and all eight can be had."""
    rows = np.eye(3)[[0, 0, 0, 1, 1, 2, 2, 2]]
    given = data(8) | {"embeddings": rows, "similarity": rows @ rows.T, "quality": np.ones(8)}
    found = run(name, 8, given).indices
    assert {int(np.argmax(rows[i])) for i in found[:3]} == {0, 1, 2} and sorted(found) == list(range(8))


@pytest.mark.parametrize("name", ("dpp", "k_center", "mmr", "vendi", "min_distance"))
def test_the_order_of_the_rows_decides_nothing(name: str) -> None:
    given = data(seed=3)
    order = np.random.default_rng(1).permutation(N)
    if name in ("dpp", "k_center"):  # whose first pick is a tie, or given
        start = [int(order[0])]
        whole = run(name, 10, given, chosen=start).indices
        shuffled = {**given, "embeddings": given["embeddings"][order], "quality": given["quality"][order]}
        assert [int(order[i]) for i in run(name, 10, shuffled, chosen=[0]).indices] == whole
        return
    shuffled = {**given, "embeddings": given["embeddings"][order], "quality": given["quality"][order]}
    knobs = {"weight": 0.1} if name == "vendi" else {}
    mapped = [int(order[i]) for i in run(name, 10, shuffled, **knobs).indices]
    assert mapped == run(name, 10, given, **knobs).indices
