"""Archives of good and different items: the maps of pyribs for texts, and one that keeps several items per cell.

An archive takes batches of (item, quality, descriptor) and keeps the best of every cell. Items may be any JSON value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from polypath.core.errors import UserError, did_you_mean, missing_extra
from polypath.core.seeds import derive

Policy = Literal["uniform", "softmax", "inverse", "ucb"]


@dataclass(frozen=True)
class Elite:
    """One kept item: its quality, its descriptor, and the cell that it holds."""

    item: Any
    quality: float
    descriptor: tuple[Any, ...]
    cell: int


class Archive(Protocol):
    """What every archive can do; see `open_archive`."""

    def add(self, items: Sequence[Any], quality: Sequence[float], descriptors: Sequence[Sequence[Any]]) -> list[int]:
        """Insert a batch: 0 not kept, 1 kept in place of a worse one, 2 kept in a new cell. NaN is refused."""
        ...

    def elites(self) -> list[Elite]:
        """All kept items, by cell."""
        ...


def check_batch(
    items: Sequence[Any], quality: Sequence[float], descriptors: Sequence[Sequence[Any]]
) -> tuple[list[Any], np.ndarray]:
    """Items and qualities of one batch. Raises UserError for other lengths and for a value that is not finite."""
    values = np.asarray(quality, dtype=float)
    if not len(items) == len(values) == len(descriptors):
        what = f"{len(items)} items, {len(values)} qualities and {len(descriptors)} descriptors"
        raise UserError("archive.add", what, "Give one of each per item.")
    for i, (value, descriptor) in enumerate(zip(values, descriptors, strict=True)):
        numbers = [v for v in descriptor if isinstance(v, float | np.floating)]
        if not math.isfinite(value) or not all(math.isfinite(v) for v in numbers):
            raise UserError(f"archive.add item {i}", "its quality or descriptor is not finite", "Leave it out.")
    return list(items), values


class Ribs:
    """An archive of pyribs behind the protocol. Descriptors outside the ranges fall into the border cells."""

    def __init__(self, kind: str, archive: Any) -> None:
        self.kind, self.archive = kind, archive

    def add(self, items: Sequence[Any], quality: Sequence[float], descriptors: Sequence[Sequence[Any]]) -> list[int]:
        """See `Archive.add`."""
        held, values = check_batch(items, quality, descriptors)
        if not held:
            return []
        solutions = np.empty(len(held), dtype=object)
        solutions[:] = held
        measures = np.array([list(d) for d in descriptors], dtype=object if self.kind == "categorical" else float)
        return [int(status) for status in self.archive.add(solutions, values, measures)["status"]]

    def elites(self) -> list[Elite]:
        """See `Archive.elites`."""
        data = self.archive.data()
        found = [
            Elite(item, float(quality), tuple(_plain(v) for v in measures), int(index))
            for item, quality, measures, index in zip(
                data["solution"], data["objective"], data["measures"], data["index"], strict=True
            )
        ]
        return sorted(found, key=lambda elite: elite.cell)


@dataclass
class Lists:
    """Cells that keep up to `most` items each, the best first: RainbowPlus (1.104).

    The cell is the descriptor itself. An item that is in its cell already is not added again.
    """

    most: int | None = None
    cells: dict[tuple[Any, ...], list[tuple[float, Any]]] = field(default_factory=dict)

    def add(self, items: Sequence[Any], quality: Sequence[float], descriptors: Sequence[Sequence[Any]]) -> list[int]:
        """See `Archive.add`."""
        held, values = check_batch(items, quality, descriptors)
        statuses = []
        for item, value, descriptor in zip(held, values, descriptors, strict=True):
            cell = self.cells.setdefault(tuple(descriptor), [])
            fresh = not cell
            if any(other == item for _, other in cell):
                statuses.append(0)
                continue
            cell.append((float(value), item))
            cell.sort(key=lambda pair: -pair[0])  # stable: among equals the earlier stays ahead
            dropped = cell[self.most :] if self.most is not None else []
            del cell[len(cell) - len(dropped) :]
            statuses.append(0 if any(other is item for _, other in dropped) else 2 if fresh else 1)
        return statuses

    def elites(self) -> list[Elite]:
        """See `Archive.elites`; a cell's number is its place in order of appearance."""
        return [
            Elite(item, quality, descriptor, number)
            for number, (descriptor, cell) in enumerate(self.cells.items())
            for quality, item in cell
        ]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _ribs(kind: str, name: str, **options: Any) -> Ribs:
    try:
        import ribs.archives
    except ImportError:
        raise missing_extra(f"archive {kind}", "ribs", "measure") from None
    return Ribs(kind, getattr(ribs.archives, name)(solution_dim=(), solution_dtype=object, **options))


def _grid(*, dims: Sequence[int], ranges: Sequence[tuple[float, float]]) -> Ribs:
    return _ribs("grid", "GridArchive", dims=dims, ranges=ranges)


def _sliding(*, dims: Sequence[int], ranges: Sequence[tuple[float, float]], buffer: int = 1000) -> Ribs:
    return _ribs("sliding", "SlidingBoundariesArchive", dims=dims, ranges=ranges, buffer_capacity=buffer)


def _cvt(*, cells: int, ranges: Sequence[tuple[float, float]], seed: int = 0, samples: int = 10_000) -> Ribs:
    numbers = derive(seed, "cvt") % 2**31
    return _ribs("cvt", "CVTArchive", centroids=cells, ranges=ranges, seed=numbers, samples=samples)


def _categorical(*, categories: Sequence[Sequence[Any]]) -> Ribs:
    return _ribs("categorical", "CategoricalArchive", categories=categories, measures_dtype=object)


def _proximity(*, descriptor_dim: int, k: int = 15, threshold: float = 0.1) -> Ribs:
    return _ribs(
        "proximity",
        "ProximityArchive",
        measure_dim=descriptor_dim,
        k_neighbors=k,
        novelty_threshold=threshold,
        local_competition=True,
    )


def _lists(*, most: int | None = None) -> Lists:
    return Lists(most)


KINDS: dict[str, Callable[..., Archive]] = {
    "grid": _grid,
    "sliding": _sliding,
    "cvt": _cvt,
    "categorical": _categorical,
    "proximity": _proximity,
    "lists": _lists,
}


def open_archive(kind: str, **options: Any) -> Archive:
    """An empty archive.

    - grid: dims, ranges; sliding: the same, with boundaries that follow the data
    - cvt: cells, ranges, seed
    - categorical: categories, one list of values per descriptor
    - proximity: descriptor_dim, k, threshold: unstructured, an item is kept when it is novel
    - lists: most

    Raises UserError for an unknown kind, options that do not fit, or without pyribs.
    """
    if kind not in KINDS:
        raise UserError("archive", f"there is no kind '{kind}'", did_you_mean(kind, KINDS))
    try:
        return KINDS[kind](**options)
    except (TypeError, ValueError) as error:
        raise UserError(f"archive {kind}", str(error), "See polypath.diversity.archives.open_archive.") from error


def merge(into: Archive, *others: Archive) -> Archive:
    """Add the elites of other archives. With distinct qualities the order does not matter, except for `proximity` and
    `sliding`, whose cells depend on what came before.
    """
    for other in others:
        found = other.elites()
        into.add([e.item for e in found], [e.quality for e in found], [e.descriptor for e in found])
    return into


def save(archive: Archive, path: Path) -> None:
    """Write the elites as JSON lines; `load` adds them to an empty archive of the same kind."""
    lines = [
        json.dumps({"item": e.item, "quality": e.quality, "descriptor": list(e.descriptor)}) for e in archive.elites()
    ]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def load(archive: Archive, path: Path) -> Archive:
    """Add what `save` wrote."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    archive.add([r["item"] for r in rows], [r["quality"] for r in rows], [r["descriptor"] for r in rows])
    return archive


def statistics(archive: Archive, *, cells: int | None = None, offset: float = 0.0) -> dict[str, float]:
    """Occupied cells, coverage of `cells`, QD score (sum of quality - offset), best and mean; NaN is undefined."""
    quality = np.array([elite.quality for elite in archive.elites()])
    occupied = len({elite.cell for elite in archive.elites()})
    return {
        "n": float(len(quality)),
        "occupied": float(occupied),
        "coverage": occupied / cells if cells else math.nan,
        "qd_score": float((quality - offset).sum()),
        "best": float(quality.max()) if len(quality) else math.nan,
        "mean": float(quality.mean()) if len(quality) else math.nan,
    }


def draw(
    archive: Archive,
    n: int,
    *,
    policy: Policy = "uniform",
    temperature: float = 0.1,
    tried: dict[int, tuple[int, int]] | None = None,
    exploration: float = 1.0,
    seed: int = 0,
) -> list[Elite]:
    """`n` parents, with replacement. Raises UserError for an empty archive.

    "uniform" over elites; "softmax" favours good ones; "inverse" weak ones, exp((1 - quality) / temperature) as in
    Ferret (0.92); "ucb" takes the cells of largest accepted/tried + exploration * sqrt(2 ln N / tried), `tried` holding
    (accepted, tried) by cell.
    """
    found = archive.elites()
    if not found:
        raise UserError("archive.draw", "the archive is empty", "Add something first.")
    rng = np.random.default_rng(derive(seed, "archive", policy))
    quality = np.array([elite.quality for elite in found])
    if policy == "ucb":
        counts = [(tried or {}).get(elite.cell, (0, 0)) for elite in found]
        total = max(sum(n for _, n in counts), 1)
        bound = [a / n + exploration * math.sqrt(2 * math.log(total) / n) if n else math.inf for a, n in counts]
        order = sorted(range(len(found)), key=lambda i: -bound[i])
        return [found[order[i % len(order)]] for i in range(n)]
    signs = {"uniform": 0.0, "softmax": 1.0, "inverse": -1.0}
    weights = draw_weights(quality * signs[policy], temperature)
    return [found[i] for i in rng.choice(len(found), size=n, p=weights)]


def draw_weights(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Softmax of scores / temperature.

    >>> [round(w, 6) for w in draw_weights(-np.array([0, 0.5, 1]), 0.1).tolist()]
    [0.993262, 0.006693, 4.5e-05]
    """
    shifted = (scores - scores.max()) / temperature
    weights = np.exp(shifted)
    return np.asarray(weights / weights.sum())
