"""An environment in a process of its own: whatever kills the simulator ends one episode and never the run."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.tasks.environments.protocol import Turn


class EnvironmentDied(RuntimeError):
    """The simulator's process ended, hung, or raised; the episode cannot go on, and the next starts a new process."""


class ProcessEnvironment:
    """The environment `name` behind a pipe. The process starts with the first call, and again after a death.

    `timeout` seconds bound every call but the first, which has `start` seconds: a virtual machine takes its time.
    """

    def __init__(self, name: str, knobs: dict[str, Any], *, timeout: float = 60.0, start: float = 180.0) -> None:
        self.name, self.knobs, self.timeout, self.start = name, knobs, timeout, start
        self.restarts = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._buffer = b""

    @property
    def pid(self) -> int | None:
        """The simulator's process, None while there is none."""
        return self._process.pid if self._process else None

    def reset(self, seed: int) -> Turn:
        """Start the game of that seed, in a new process if the last one died. Raises EnvironmentDied."""
        return turn_of(self._ask("reset", seed))

    def step(self, action: str) -> Turn:
        """Play one action. Raises EnvironmentDied."""
        return turn_of(self._ask("step", action))

    def snapshot(self) -> dict[str, Any]:
        """The state as JSON data. Raises EnvironmentDied."""
        return dict(self._ask("snapshot"))

    def restore(self, state: dict[str, Any]) -> Turn:
        """Go back to a snapshot. Raises EnvironmentDied."""
        return turn_of(self._ask("restore", state))

    def games(self, split: str, n: int) -> list[int]:
        """Seeds of a split. Raises EnvironmentDied."""
        return [int(seed) for seed in self._ask("games", split, n)]

    def close(self) -> None:
        """End the process and everything that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin:
                process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()
        self._errors.close()

    def _ask(self, method: str, *arguments: Any) -> Any:
        fresh = self._process is None
        process = self._process or self._begin()
        try:
            line = json.dumps({"do": method, "with": list(arguments)}) + "\n"
            os.write(process.stdin.fileno(), line.encode())  # type: ignore[union-attr]
            answer = json.loads(self._read(process, self.start if fresh else self.timeout))
        except OSError as error:
            raise self._died(_ending(process)) from error
        except ValueError as error:
            raise self._died(f"it did not answer in JSON ({error})") from error
        if "user_error" in answer:
            raise UserError(*answer["user_error"])
        if "error" in answer:
            raise self._died(f"it raised {answer['error']}")
        return answer["value"]

    def _begin(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        command = [sys.executable, "-m", "polypath.tasks.environments.child"]
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            start_new_session=True,  # an interrupt is for the run, which then ends its simulators
        )
        self.restarts, self._buffer = self.restarts + 1, b""
        module = registry.entry("environment", self.name).target.partition(":")[0]
        setup = json.dumps({"name": self.name, "knobs": self.knobs, "module": module}) + "\n"
        with contextlib.suppress(BrokenPipeError):  # then the first request tells
            os.write(self._process.stdin.fileno(), setup.encode())  # type: ignore[union-attr]
        return self._process

    def _read(self, process: subprocess.Popen[bytes], seconds: float) -> bytes:
        """One line of the answers. Raises EnvironmentDied when the process ends or the time is up."""
        pipe, until = process.stdout.fileno(), time.monotonic() + seconds  # type: ignore[union-attr]
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([pipe], [], [], max(until - time.monotonic(), 0))
            if not ready:
                raise self._died(f"it gave no answer within {seconds:g} s")
            part = os.read(pipe, 65536)
            if not part:
                raise self._died(_ending(process))
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _died(self, reason: str) -> EnvironmentDied:
        """The reason, with the last line that the simulator wrote; the process is ended."""
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self.close()
        return EnvironmentDied(f"environment {self.name}: {reason}" + (f"; it said: {said[-1][:200]}" if said else ""))


def _ending(process: subprocess.Popen[bytes]) -> str:
    """How a process ended whose pipes are closed."""
    code = process.wait()
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"its process ended ({how})"


def turn_of(answer: dict[str, Any]) -> Turn:
    """A turn from its JSON form."""
    actions = answer["actions"]
    return Turn(**{**answer, "actions": None if actions is None else tuple(actions)})
