"""A run's progress: a line for who watches it, and a small file for the study that started it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from polypath.core.progress import Progress
from polypath.core.rundir import RunDir

FILE_SECONDS = 1.0


class RunProgress:
    """Shows the steps of a run on stderr and keeps `progress.json` at most a second old."""

    def __init__(self, run: RunDir, steps: int, *, enabled: bool = True, writes: bool = True) -> None:
        self.run, self.steps, self.done, self.writes = run, steps, 0, writes
        self.display = Progress(steps or None, run.path.name, enabled=enabled)
        self._written = 0.0
        self._fields: dict[str, Any] = {}

    def step(self, done: int, **fields: float) -> None:
        """`done` steps are done; `fields` are the latest values to show."""
        self.display.update(done - self.done, **fields)
        self.done, self._fields = done, fields
        if time.monotonic() - self._written >= FILE_SECONDS or done == self.steps:
            self._write("train")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the run that has no steps."""
        self._write(name)
        with self.display.phase(name):
            yield

    def note(self, text: str) -> None:
        """A line of its own."""
        self.display.note(text)

    def _write(self, phase: str) -> None:
        self._written = time.monotonic()
        if self.writes:
            self.run.write_progress({"phase": phase, "done": self.done, "steps": self.steps, **self._fields})

    def __enter__(self) -> RunProgress:
        self.display.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.display.__exit__(*exc)
        if exc[0] is None:
            self._write("done")


class Silence:
    """Tells, once, that a method's diversity has changed no credit in the first steps of a run."""

    def __init__(self, steps: int, *, first: int = 10) -> None:
        self.left = min(steps, first)
        self.watched = self.left

    def tell(self, metrics: Mapping[str, float]) -> str | None:
        """The warning after the last of the watched steps; None before, and for a method whose diversity works."""
        if "frac_moved_by_diversity" not in metrics or metrics["frac_moved_by_diversity"] > 0:
            self.left = 0
        if self.left <= 0:
            return None
        self.left -= 1
        if self.left:
            return None
        what = (
            f"The method's diversity signal has changed no credit in {self.watched} steps: this is training without it."
        )
        return f"{what} polypath explain says where the signal is lost."
