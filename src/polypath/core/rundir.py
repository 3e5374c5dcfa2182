"""The directory of one run: what it is, what it has produced, and who is writing it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from polypath.core.environment import versions
from polypath.core.errors import UserError
from polypath.core.files import JsonlWriter, atomic_write, read_jsonl, to_json
from polypath.core.record import SCHEMA_VERSION

Resume = Literal["auto", "never", "must"]


class RunDir:
    """A run's files by name. `RunDir(path)` only reads; `RunDir.open(...)` locks the directory and may write.

    recipe.yaml (resolved) · run.json · rollouts.jsonl · metrics.jsonl · progress.json · checkpoints/ · run.log
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.yaml"
        self.rollouts = self.path / "rollouts.jsonl"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.log = self.path / "run.log"
        self.progress = self.path / "progress.json"
        self.resumed = False
        self._lock: int | None = None
        self._metrics: JsonlWriter | None = None

    @classmethod
    def open(
        cls,
        path: str | Path,
        recipe_text: str,
        digest: str,
        resume: Resume = "auto",
        *,
        seed: int | None = None,
        argv: Sequence[str] | None = None,
    ) -> RunDir:
        """Start a run in a new or empty directory, or resume the run of the same recipe that is there.

        Raises UserError when the directory holds something else, another recipe's run or one that is being written,
        when `resume` is "never" and there is a run, or "must" and there is none.
        """
        run = cls(path)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                str(path), f"cannot be a run directory ({error.strerror})", "Choose another path."
            ) from error
        run._refuse_foreign()
        run._acquire()
        try:
            run._begin(recipe_text, digest, resume, seed, argv)
        except UserError:
            run.close()
            raise
        return run

    @property
    def info(self) -> dict[str, Any]:
        """What run.json says. Raises UserError when the directory is not a run."""
        try:
            return json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(str(self.path), "is not a run: no readable run.json", "Is the path right?") from error

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add one row to metrics.jsonl and flush it to the disk."""
        if self._metrics is None:
            self._metrics = JsonlWriter(self.metrics)
        self._metrics.write([row])

    def read_metrics(self) -> list[dict[str, Any]]:
        """All rows of metrics.jsonl; none when there is no such file yet. Undefined values are None."""
        return read_jsonl(self.metrics) if self.metrics.exists() else []

    def write_progress(self, state: Mapping[str, Any]) -> None:
        """Replace progress.json, atomically."""
        atomic_write(self.progress, to_json(state) + "\n")

    def read_progress(self) -> dict[str, Any]:
        """What progress.json says; empty when there is none yet."""
        return json.loads(self.progress.read_text(encoding="utf-8")) if self.progress.exists() else {}

    def free_space_check(self, bytes_needed: int) -> None:
        """Raises UserError when the disk has less free space than that."""
        free = shutil.disk_usage(self.path).free
        if free < bytes_needed:
            what = f"needs {bytes_needed / 1e9:.2f} GB of disk, and {free / 1e9:.2f} GB are free"
            raise UserError(str(self.path), what, "Free some space or choose a directory on another disk.")

    def close(self) -> None:
        """Release the lock; closing twice is harmless."""
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> RunDir:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _refuse_foreign(self) -> None:
        """Nothing may be written, not even a lock, into a directory of somebody else's."""
        # What a run killed while it started can leave: its lock, and a run.json not yet in place.
        found = sorted(entry.name for entry in self.path.iterdir() if entry.name not in (".lock", ".run.json.tmp"))
        if found and "run.json" not in found:
            what = f"holds files but no run ({', '.join(found[:3])}{', ...' if len(found) > 3 else ''})"
            raise UserError(str(self.path), what, "Choose a new or an empty directory.")

    def _acquire(self) -> None:
        """Lock the directory for this process; the lock ends with the process, however that ends."""
        try:
            import fcntl
        except ImportError:  # Windows has no such lock
            return
        lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.pread(lock, 20, 0).decode() or "unknown"
            os.close(lock)
            what = f"is being written by process {pid}"
            raise UserError(str(self.path), what, "Wait for it to end or choose another directory.") from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        self._lock = lock

    def _begin(
        self, recipe_text: str, digest: str, resume: Resume, seed: int | None, argv: Sequence[str] | None
    ) -> None:
        exists = (self.path / "run.json").exists()
        choices = "Choose another directory, use the same recipe, or delete this one."
        if exists and resume == "never":
            raise UserError(str(self.path), "already holds a run, and resume is 'never'", choices)
        if exists and self.info["digest"] != digest:
            raise UserError(str(self.path), "holds the run of another recipe (its digest differs)", choices)
        if not exists and resume == "must":
            raise UserError(str(self.path), "holds no run to resume", "Use `resume: auto` to start one.")
        self.resumed = exists
        if not exists:
            info = {
                # The same recipe and seed are the same run, wherever it is written: rows can then be compared.
                "run": digest[:12] if seed is None else f"{digest[:12]}-{seed}",
                "schema": SCHEMA_VERSION,
                "digest": digest,
                "seed": seed,
                "versions": versions(),
                "commit": _commit(),
                "argv": list(sys.argv if argv is None else argv),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            atomic_write(self.path / "run.json", json.dumps(info, indent=1, ensure_ascii=False) + "\n")
        if not self.recipe.exists():
            atomic_write(self.recipe, recipe_text)
        self.checkpoints.mkdir(exist_ok=True)


def _commit() -> str | None:
    """The git commit of the working directory, None outside of a repository or without git."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return None
