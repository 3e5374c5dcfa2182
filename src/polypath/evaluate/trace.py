"""A run's course as numbers: metrics at its start and its end with their noise, and some groups of rollouts of both."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from polypath.core.errors import UserError
from polypath.core.record import Rollout
from polypath.core.rundir import RunDir
from polypath.core.store import read_rollouts, to_rollout
from polypath.diversity.features import ngrams, tokens
from polypath.evaluate.summary import Summary, summarise

WINDOW = 0.2  # share of the steps that is the start, and that is the end
MOST_STEPS = 50  # of a window
TAIL = 4_000_000  # bytes read from either end of rollouts.jsonl
MOST_GROUPS = 64


@dataclass(frozen=True)
class Window:
    """The mean of a metric over some steps, with its standard error (0 for a single step)."""

    mean: float
    error: float
    first: int
    last: int
    n: int


@dataclass(frozen=True)
class Trace:
    """What `explain` looks at.

    `rows` are those of metrics.jsonl, `early` and `late` whole groups of rollouts, `evaluations` the first and the last
    evaluation during training.
    """

    path: Path
    rows: Sequence[Mapping[str, Any]]
    early: list[list[Rollout]] = field(default_factory=list)
    late: list[list[Rollout]] = field(default_factory=list)
    evaluations: tuple[Summary, Summary] | None = None

    @classmethod
    def read(cls, path: Path | str) -> Trace:
        """A run directory of reinforcement learning. Raises UserError when it holds no training metrics."""
        run = RunDir(path)
        rows = run.read_metrics()
        if not any("reward" in row for row in rows):
            what = "has no metrics of a reinforcement-learning run"
            raise UserError(str(path), what, "Give the directory that polypath train wrote.")
        early, late = ends(run.rollouts)
        files = sorted((run.path / "evaluation").glob("step-*.jsonl"))
        curve = (summarise(read_rollouts(files[0])), summarise(read_rollouts(files[-1]))) if len(files) > 1 else None
        return cls(run.path, rows, early, late, curve)

    @cached_property
    def training(self) -> list[Mapping[str, Any]]:
        """The rows of training steps, without those of evaluations."""
        return [row for row in self.rows if "reward" in row]

    def values(self, metric: str) -> list[tuple[int, float]]:
        """The (step, value) of every row that defines the metric; `a / b` is the quotient of two metrics."""
        over, _, under = metric.partition(" / ")
        found = []
        for row in self.rows:
            value = row.get(over)
            if value is not None and under:
                value = value / row[under] if row.get(under) else None
            if value is not None and math.isfinite(value):
                found.append((int(row["step"]), float(value)))
        return found

    def start(self, metric: str) -> Window | None:
        """The metric over the first fifth of the steps; None when it was never defined."""
        return self._window(metric, at_end=False)

    def end(self, metric: str) -> Window | None:
        """The metric over the last fifth of the steps; None when it was never defined."""
        return self._window(metric, at_end=True)

    def _window(self, metric: str, *, at_end: bool) -> Window | None:
        values = self.values(metric)
        if not values:
            return None
        size = min(MOST_STEPS, max(1, round(WINDOW * len(values))))
        part = values[-size:] if at_end else values[:size]
        numbers = [value for _, value in part]
        error = stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
        return Window(fmean(numbers), error, part[0][0], part[-1][0], len(numbers))


def ends(path: Path, size: int = TAIL) -> tuple[list[list[Rollout]], list[list[Rollout]]]:
    """Whole groups of the first and of the last steps of a file of rollouts, read from its two ends alone."""
    if not path.is_file():
        return [], []
    total = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(size)
        file.seek(max(0, total - size))
        tail = file.read(size)
    if total <= size:
        groups = _groups(head.splitlines())
        count = min(MOST_GROUPS, max(1, round(WINDOW * len(groups))))
        return groups[:count], groups[-count:]
    # The lines and the groups at the cuts may lack a part.
    first, last = _groups(head.splitlines()[:-1])[:-1], _groups(tail.splitlines()[1:])[1:]
    return first[:MOST_GROUPS], last[-MOST_GROUPS:]


def _groups(lines: Sequence[bytes]) -> list[list[Rollout]]:
    groups: dict[str, list[Rollout]] = {}
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:  # the torn last line of a run that was killed
            continue
        rollout = to_rollout(row, "rollouts")
        groups.setdefault(rollout.group_id, []).append(rollout)
    return list(groups.values())


def similarity(groups: Sequence[Sequence[Rollout]]) -> tuple[float, float, int]:
    """Mean over groups of the mean Jaccard similarity of the texts' word pairs, its standard error, and the groups.

    Texts too short for a pair of words are compared by their words. NaN when no group has two texts.
    """
    found = []
    for group in groups:
        words = [tokens(row.text) for row in group if row.text]
        sets = [ngrams(row, [min(2, len(row))]) for row in words if row]
        if len(sets) > 1:
            found.append(fmean(len(a & b) / len(a | b) for a, b in combinations(sets, 2)))
    if not found:
        return math.nan, math.nan, 0
    error = stdev(found) / math.sqrt(len(found)) if len(found) > 1 else 0.0
    return fmean(found), error, len(found)
