"""Quality-diversity archives: the best solution of every cell of a space of descriptors, and how it came there.

An archive is a fold over its log. Every addition is kept, so that saving is writing the log, loading is replaying it,
and lineage, acceptance rates and what each model contributed need no bookkeeping of their own. Geometry and
replacement are pyribs'; solutions are any JSON values, texts most of the time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.files import atomic_write, numbered_rows, to_json
from polypath.core.seeds import derive
from polypath.core.stages import parse_stage

NEW, BETTER, REJECTED, INVALID = "new", "better", "rejected", "invalid"
SCHEMA = 1


@dataclass(frozen=True)
class Entry:
    """One addition: what, how good, where in descriptor space, by which model, varied from which earlier entry."""

    solution: Any
    quality: float
    descriptor: tuple[Any, ...]
    source: str = ""
    parent: int | None = None
    number: int = -1  # its place in the log
    status: str = ""


class Cells(Protocol):
    """Where entries live. Entries are known by their number in the log."""

    total: int | None  # how many cells there are, None where that is not fixed

    def place(self, entry: Entry) -> str:
        """Insert if the entry's cell wants it: "new", "better" or "rejected". Raises ValueError without a cell."""
        ...

    def clips(self, descriptor: tuple[Any, ...]) -> bool:
        """Whether the descriptor lies outside the range, and counts at its border."""
        ...

    def members(self) -> list[int]:
        """Numbers of the entries that are in now."""
        ...

    def occupied(self, descriptor: tuple[Any, ...]) -> bool:
        """Whether the cell of a descriptor has an elite. Raises ValueError without a cell."""
        ...

    def filled(self) -> int:
        """How many cells have one."""
        ...


class Archive:
    """Cells, their elites, and the log of all additions. Made by a registered archive such as `grid`.

    `config` rebuilds it ({name: knobs}); `offset` is the quality that counts as 0 in the quality-diversity score.
    """

    def __init__(self, config: Mapping[str, Any], cells: Cells, *, offset: float = 0.0) -> None:
        self.config, self.cells, self.offset = dict(config), cells, offset
        self.log: list[Entry] = []

    def __len__(self) -> int:
        return len(self.cells.members())

    def add(
        self,
        solutions: Sequence[Any],
        quality: Sequence[float],
        descriptors: Sequence[Sequence[Any]],
        *,
        source: str = "",
        parents: Sequence[int | None] | None = None,
    ) -> list[str]:
        """The status of each, in order: "new" (an empty cell), "better" (replaces), "rejected" or "invalid".

        A quality or descriptor that is not finite, or of no known category, is invalid and counted. A descriptor out of
        range counts at the border. Ties keep the earlier one. Raises UserError for lists of different lengths.
        """
        parents = [None] * len(solutions) if parents is None else parents
        if not len(solutions) == len(quality) == len(descriptors) == len(parents):
            sizes = f"{len(solutions)}, {len(quality)}, {len(descriptors)} and {len(parents)}"
            what = f"solutions, quality, descriptors and parents number {sizes}"
            raise UserError("archive.add", what, "Give one of each per addition.")
        batch = zip(solutions, quality, descriptors, parents, strict=True)
        return [self._append(Entry(s, float(q), tuple(d), source, p)).status for s, q, d, p in batch]

    def _append(self, entry: Entry) -> Entry:
        entry = replace(entry, number=len(self.log))
        try:
            status = self.cells.place(entry) if math.isfinite(entry.quality) else INVALID
        except ValueError:
            status = INVALID
        self.log.append(replace(entry, status=status))
        return self.log[-1]

    def elites(self) -> list[Entry]:
        """What is in now, the oldest first."""
        return [self.log[number] for number in sorted(self.cells.members())]

    def occupied(self, descriptors: Sequence[Sequence[Any]]) -> list[bool]:
        """Whether the cell of each descriptor has an elite: 1 - that is the exploration bonus of EBC (1.101)."""
        return [self.cells.occupied(tuple(descriptor)) for descriptor in descriptors]

    def sample(self, n: int, policy: str | Mapping[str, Any] = "uniform", *, seed: int) -> list[Entry]:
        """`n` parents with replacement, by a registered sampler: its name or {name: knobs}.

        Raises UserError for an unknown sampler or knob, and for an empty archive.
        """
        elites = self.elites()
        if not elites:
            raise UserError("archive.sample", "the archive is empty", "Add a valid solution first.")
        call = parse_stage({"sampler": policy}, "archive.sample", ("sampler",))
        children = Counter(entry.parent for entry in self.log)
        accepted = Counter(entry.parent for entry in self.log if entry.status in (NEW, BETTER))
        data = {
            "quality": np.array([elite.quality for elite in elites]),
            "tries": np.array([children[elite.number] for elite in elites]),
            "accepted": np.array([accepted[elite.number] for elite in elites]),
        }
        weights = call.bind()(**{name: data[name] for name in registry.entry("sampler", call.name).data})
        rng = np.random.default_rng(derive(seed, "archive", len(self.log)))
        return [elites[i] for i in rng.choice(len(elites), size=n, p=weights)]

    def merge(self, *others: Archive) -> Archive:
        """A new archive of this form with the elites of all, this one's first.

        Per cell the best is kept, ties going to the earlier archive; for grid, CVT, categorical and unbounded list
        archives that is associative. Proximity and sliding archives depend on the order.
        """
        merged = self.empty()
        for archive in (self, *others):
            for elite in archive.elites():
                merged._append(replace(elite, parent=None))
        return merged

    def empty(self) -> Archive:
        """A new archive of the same form, with the same cells."""
        return _build(self.config, "archive")

    def contributions(self) -> dict[str, float]:
        """What each source adds to the quality-diversity score: all, less the score without that source's entries."""
        score = self.stats()["qd_score"]
        found = {}
        for source in sorted({entry.source for entry in self.log}):
            others = self.empty()
            for entry in self.log:
                if entry.source != source:
                    others._append(entry)
            found[source] = score - others.stats()["qd_score"]
        return found

    def stats(self) -> dict[str, float]:
        """Counts, coverage (NaN without a fixed number of cells), sum of quality - offset, best and mean quality."""
        quality = [elite.quality for elite in self.elites()]
        statuses = Counter(entry.status for entry in self.log)
        cells = self.cells.filled()
        return {
            "added": len(self.log),
            "size": len(quality),
            "cells": cells,
            "coverage": cells / self.cells.total if self.cells.total else math.nan,
            "qd_score": sum(value - self.offset for value in quality),
            "best": max(quality, default=math.nan),
            "mean": sum(quality) / len(quality) if quality else math.nan,
            "rejected": statuses[REJECTED],
            "invalid": statuses[INVALID],
            "clipped": sum(self.cells.clips(entry.descriptor) for entry in self.log if entry.status != INVALID),
        }

    def save(self, path: str | Path) -> None:
        """Write the log as JSONL, its first line the archive's form."""
        lines = [to_json({"archive": self.config, "schema": SCHEMA})]
        lines += [to_json({**asdict(entry), "descriptor": list(entry.descriptor)}) for entry in self.log]
        atomic_write(Path(path), "".join(f"{line}\n" for line in lines))


def load(path: str | Path) -> Archive:
    """The archive that `save` wrote. Raises UserError for another file."""
    rows = [row for _, row, _ in numbered_rows(Path(path))]
    if not rows or "archive" not in rows[0]:
        raise UserError(str(path), "is not an archive", "Give a file that Archive.save wrote.")
    archive = _build(rows[0]["archive"], str(path))
    for row in rows[1:]:
        quality = math.nan if row["quality"] is None else float(row["quality"])
        values = tuple(math.nan if value is None else value for value in row["descriptor"])
        archive._append(Entry(row["solution"], quality, values, row["source"], row["parent"]))
    return archive


def _build(config: Mapping[str, Any], where: str) -> Archive:
    archive: Archive = parse_stage({"archive": config}, where, ("archive",)).bind()()
    return archive
