"""The forms of archives: grid, CVT, categorical, proximity and sliding boundaries over pyribs, and lists per cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from polypath.core.errors import UserError, missing_extra
from polypath.core.registry import register
from polypath.diversity.archives import BETTER, NEW, REJECTED, Archive, Entry
from polypath.diversity.features import tokens
from polypath.diversity.measures.bleu import bleu_against_others

Ranges = Sequence[Sequence[float]]


class RibsCells:
    """Cells of a pyribs archive, one elite each. Outside of `ranges` a descriptor is clipped."""

    def __init__(self, ribs: Any, *, ranges: Ranges = (), numeric: bool = True) -> None:
        self.ribs, self.ranges, self.numeric = ribs, ranges, numeric
        self.total: int | None = int(ribs.cells)

    def place(self, entry: Entry) -> str:
        """Insert: pyribs decides. Raises ValueError for a descriptor that has no cell."""
        try:
            found = self.ribs.add_single(entry.number, entry.quality, self.measures(entry.descriptor))
        except KeyError as error:
            raise ValueError(f"there is no category {error}") from None
        return (REJECTED, BETTER, NEW)[int(np.asarray(found["status"]).item())]

    def clips(self, descriptor: tuple[Any, ...]) -> bool:
        """Whether a value is outside its range."""
        return any(not low <= value <= high for value, (low, high) in zip(descriptor, self.ranges, strict=False))

    def members(self) -> list[int]:
        """Numbers of the elites."""
        return [int(number) for number in self.ribs.data("solution")]

    def occupied(self, descriptor: tuple[Any, ...]) -> bool:
        """Whether its cell has an elite."""
        try:
            return bool(self.ribs.retrieve_single(self.measures(descriptor))[0])
        except KeyError as error:
            raise ValueError(f"there is no category {error}") from None

    def filled(self) -> int:
        """One elite per cell."""
        return len(self.ribs)

    def measures(self, descriptor: tuple[Any, ...]) -> Any:
        """The descriptor as pyribs wants it. Raises ValueError for numbers that are not finite."""
        if len(descriptor) != self.ribs.measure_dim:
            what = f"{len(descriptor)} values for {self.ribs.measure_dim} dimensions"
            raise UserError("archive.descriptor", what, "Give one value per dimension of the archive.")
        values = np.array(descriptor, dtype=np.float64 if self.numeric else object)
        if self.numeric and not np.isfinite(values).all():
            raise ValueError(f"{descriptor} is not finite")
        return values


class ProximityCells(RibsCells):
    """A pyribs proximity archive: no cells, but entries that keep their distance."""

    def __init__(self, ribs: Any) -> None:
        super().__init__(ribs)
        self.total = None

    def occupied(self, descriptor: tuple[Any, ...]) -> bool:
        """Whether an entry there would not be novel enough."""
        novelty = self.ribs.compute_novelty(self.measures(descriptor)[None])
        return bool(novelty[0] < self.ribs.novelty_threshold)


class ListCells:
    """A list per tuple of categories: everything good enough and different enough, at most `capacity` of it."""

    def __init__(
        self,
        categories: Sequence[Sequence[Hashable]],
        min_quality: float,
        capacity: int | None,
        similar: Callable[[Any, Any], float] | None,
        max_similarity: float,
    ) -> None:
        self.categories = [set(names) for names in categories]
        self.min_quality, self.capacity, self.similar = min_quality, capacity, similar
        self.max_similarity = max_similarity
        self.total: int | None = int(np.prod([len(names) for names in categories]))
        self.lists: dict[tuple[Hashable, ...], list[Entry]] = defaultdict(list)

    def place(self, entry: Entry) -> str:
        """Append; beyond the capacity the least good goes (the latest of equals). Raises ValueError without a cell."""
        self.check(entry.descriptor)
        inside = self.lists[entry.descriptor]
        if not entry.quality > self.min_quality:
            return REJECTED
        if self.similar and any(self.similar(entry.solution, e.solution) >= self.max_similarity for e in inside):
            return REJECTED
        inside.append(entry)
        if self.capacity is None or len(inside) <= self.capacity:
            return NEW
        worst = min(inside, key=lambda e: (e.quality, -e.number))
        inside.remove(worst)
        return REJECTED if worst is entry else BETTER

    def clips(self, descriptor: tuple[Any, ...]) -> bool:
        """Categories have no range."""
        return False

    def members(self) -> list[int]:
        """Numbers of all entries of all lists."""
        return [entry.number for entries in self.lists.values() for entry in entries]

    def occupied(self, descriptor: tuple[Any, ...]) -> bool:
        """Whether its list has an entry."""
        self.check(descriptor)
        return bool(self.lists.get(descriptor))

    def filled(self) -> int:
        """How many lists have an entry."""
        return sum(bool(entries) for entries in self.lists.values())

    def check(self, descriptor: tuple[Any, ...]) -> None:
        """Raises ValueError for an unknown category."""
        if len(descriptor) != len(self.categories):
            what = f"{len(descriptor)} values for {len(self.categories)} dimensions"
            raise UserError("archive.descriptor", what, "Give one value per dimension of the archive.")
        for value, known in zip(descriptor, self.categories, strict=True):
            if value not in known:
                raise ValueError(f"there is no category {value!r}")


@register("archive", "grid", paper="MAP-Elites, arXiv:1504.04909", traits={"merge_associative"})
def grid(*, dims: list[int], ranges: list, offset: float = 0.0) -> Archive:
    """Equal cells: `dims` of them along each dimension of `ranges` (low, high).

    >>> archive = grid(dims=[2], ranges=[(0, 1)])
    >>> archive.add(["a", "b", "c"], [1.0, 2.0, 0.5], [[0.1], [0.2], [0.9]])
    ['new', 'better', 'new']
    >>> [elite.solution for elite in archive.elites()]
    ['b', 'c']
    """
    _check_ranges(ranges, len(dims), "grid")
    made = _ribs().GridArchive(dims=dims, ranges=ranges, **_fields(np.float64))
    config = {"grid": {"dims": list(dims), "ranges": _plain(ranges), "offset": offset}}
    return Archive(config, RibsCells(made, ranges=ranges), offset=offset)


@register("archive", "cvt", paper="CVT-MAP-Elites, arXiv:1610.05729", traits={"merge_associative"})
def cvt(*, ranges: list, cells: int = 50, centroids: list | None = None, seed: int = 0, offset: float = 0.0) -> Archive:
    """The cells of the nearest of some centroids: given, or `cells` of them spread evenly by k-means.

    The centroids are saved with the archive. To follow the data, give k-means centroids of first descriptors (0.117).
    """
    _check_ranges(ranges, None, "cvt")
    options = {"samples": max(1000, 20 * cells)} if centroids is None else {}
    wanted = cells if centroids is None else np.asarray(centroids, dtype=np.float64)
    made = _ribs().CVTArchive(centroids=wanted, ranges=ranges, seed=seed, **_fields(np.float64), **options)
    points = np.asarray(made.centroids).tolist()
    config = {"cvt": {"ranges": _plain(ranges), "centroids": points, "offset": offset}}
    return Archive(config, RibsCells(made, ranges=ranges), offset=offset)


@register("archive", "categorical", paper="Rainbow teaming, arXiv:2402.16822 [1.104]", traits={"merge_associative"})
def categorical(*, categories: list, offset: float = 0.0) -> Archive:
    """A cell for every combination of names: `categories` holds the names along each dimension."""
    made = _ribs().CategoricalArchive(categories=categories, **_fields(object))
    config = {"categorical": {"categories": _plain(categories), "offset": offset}}
    return Archive(config, RibsCells(made, numeric=False), offset=offset)


@register("archive", "proximity", paper="Novelty search with local competition [1.34]")
def proximity(*, size: int, min_distance: float, neighbours: int = 1, offset: float = 0.0) -> Archive:
    """No cells: in comes what is `min_distance` from its nearest (mean over `neighbours`), or better than the nearest.

    `size` is the number of dimensions; the distance is Euclidean.
    """
    made = _ribs().ProximityArchive(
        measure_dim=size,
        k_neighbors=neighbours,
        novelty_threshold=min_distance,
        local_competition=True,
        **_fields(np.float64),
    )
    knobs = {"size": size, "min_distance": min_distance, "neighbours": neighbours, "offset": offset}
    return Archive({"proximity": knobs}, ProximityCells(made), offset=offset)


@register("archive", "sliding", paper="MAP-Elites with sliding boundaries, arXiv:1904.10656 [1.96]")
def sliding(*, dims: list[int], ranges: list, every: int = 100, buffer: int = 1000, offset: float = 0.0) -> Archive:
    """A grid whose borders move to the quantiles of the last `buffer` descriptors, after `every` additions."""
    _check_ranges(ranges, len(dims), "sliding")
    made = _ribs().SlidingBoundariesArchive(
        dims=dims, ranges=ranges, remap_frequency=every, buffer_capacity=buffer, **_fields(np.float64)
    )
    knobs = {"dims": list(dims), "ranges": _plain(ranges), "every": every, "buffer": buffer, "offset": offset}
    return Archive({"sliding": knobs}, RibsCells(made, ranges=ranges), offset=offset)


@register("archive", "lists", paper="RainbowPlus, arXiv:2504.15047 [1.104]")
def lists(
    *,
    categories: list,
    min_quality: float = 0.5,
    capacity: int | None = None,
    max_bleu: float | None = 0.6,
    offset: float = 0.0,
) -> Archive:
    """Every cell keeps a list: all of quality above `min_quality` whose BLEU-4 to its cell's entries is below a limit.

    `max_bleu=None` compares nothing, and then merging is associative. Lists grow without bound unless `capacity` says
    how many of the best to keep.
    """
    cells = ListCells(categories, min_quality, capacity, None if max_bleu is None else text_bleu, max_bleu or 1.0)
    knobs = {
        "categories": _plain(categories),
        "min_quality": min_quality,
        "capacity": capacity,
        "max_bleu": max_bleu,
        "offset": offset,
    }
    return Archive({"lists": knobs}, cells, offset=offset)


def text_bleu(a: str, b: str) -> float:
    """BLEU-4 of one text against another.

    >>> round(text_bleu("the cat sat on the mat", "the cat sat on a mat"), 3)
    0.537
    """
    return float(bleu_against_others([tokens(a), tokens(b)])[0])


def _ribs() -> Any:
    try:
        from ribs import archives
    except ImportError:
        raise missing_extra("archive", "ribs", "measure") from None
    return archives


def _fields(measures: Any) -> dict[str, Any]:
    """pyribs keeps the number of the entry as its solution; the solution itself stays in our log."""
    types = {"solution_dtype": np.int64, "objective_dtype": np.float64, "measures_dtype": measures}
    return {"solution_dim": (), **types}


def _plain(values: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(part) for part in values]


def _check_ranges(ranges: Ranges, size: int | None, name: str) -> None:
    bad = [pair for pair in ranges if len(pair) != 2 or not pair[0] < pair[1]]
    if bad or not ranges or size not in (None, len(ranges)):
        what = f"{bad[0]} is not low < high" if bad else f"{len(ranges)} ranges for {size} dimensions"
        raise UserError(f"{name}.ranges", what, "Give one (low, high) per dimension.")
