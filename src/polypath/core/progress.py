"""Progress on stderr: an updating line on a terminal, a plain line now and then elsewhere, always a heartbeat."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Progress:
    """Counts `total` units and shows the count, the phase, the given fields and the time that is left.

    On a terminal the line is redrawn every second, elsewhere (and when CI is set) a line is written every `interval`
    seconds. A thread keeps the line alive while the caller is busy, so a long phase never looks hung. `start` is what
    an earlier, interrupted run has done already. Use it as a context manager.
    """

    def __init__(
        self,
        total: int | None,
        label: str,
        *,
        start: int = 0,
        enabled: bool = True,
        interval: float = 10.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.label, self.done = total, label, start
        self._start, self._enabled, self._clock = start, enabled, clock
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty() and not os.environ.get("CI")
        self._interval = min(interval, 1.0) if self._live else interval
        self._began = self._shown = clock()
        self._phases: list[tuple[str, float]] = []
        self._fields: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        if enabled:
            self._thread.start()

    def update(self, n: int = 1, **fields: Any) -> None:
        """Count `n` more units as done and show the latest values of `fields`."""
        with self._lock:
            self.done += n
            self._fields |= fields
            if self._clock() - self._shown >= (0.1 if self._live else self._interval):
                self._show()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show that a phase is under way, and for how long: `loading model 12 s`."""
        with self._lock:
            self._phases.append((name, self._clock()))
            self._show()
        try:
            yield
        finally:
            with self._lock:
                self._phases.pop()

    def note(self, text: str) -> None:
        """Write a line of its own, above the updating one."""
        with self._lock:
            self._write(f"\r\x1b[2K{text}\n" if self._live else f"{text}\n")

    def close(self) -> None:
        """Show the final state and stop; closing twice is harmless."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._show()
            if self._live:
                self._write("\n")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def line(self) -> str:
        """The state in one line.

        >>> Progress(8, "train", start=2, enabled=False, clock=lambda: 0.0).line()
        'train | 2/8 25% | 0:00'
        """
        now = self._clock()
        parts = [self.label]
        if self.total:
            parts.append(f"{self.done}/{self.total} {100 * self.done // self.total}%")
        elif self.done:
            parts.append(str(self.done))
        parts += [f"{name} {round(now - began)} s" for name, began in self._phases[-1:]]
        parts += [f"{name} {_number(value)}" for name, value in self._fields.items()]
        parts.append(_duration(now - self._began))
        fresh = self.done - self._start
        if self.total and fresh > 0 and self.done < self.total:
            parts.append(f"eta {_duration((now - self._began) / fresh * (self.total - self.done))}")
        return " | ".join(parts)

    def _show(self) -> None:
        self._shown = self._clock()
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[2K{self.line()[:width]}")
        else:
            self._write(self.line() + "\n")

    def _write(self, text: str) -> None:
        if self._enabled:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):  # nobody reads any more: no reason to stop a run
                self._enabled = False

    def _beat(self) -> None:
        while not self._closed.wait(self._interval):
            with self._lock:
                self._show()


def _number(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _duration(75.2), _duration(3675)
    ('1:15', '1:01:15')
    """
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
