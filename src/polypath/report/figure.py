"""A figure as data: one description from which the SVG, the PNG and the table that says the same are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["line", "points", "front"]


@dataclass(frozen=True)
class Series:
    """Values of one arm. `colour` numbers the palette; `low` and `high` bound a band; `faint` draws a single seed."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    colour: int = 0
    kind: Kind = "line"
    faint: bool = False
    label: str = ""  # written beside the last point


@dataclass(frozen=True)
class Figure:
    """Series on one pair of axes. `id` is the anchor; `text` is what a reader who cannot see it is told."""

    id: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    text: str = ""
    zero: bool = field(default=True)  # whether the y axis starts at zero

    def x_range(self) -> tuple[float, float]:
        """The x values shown; logarithmic axes get no margin."""
        values = [x for s in self.series for x in s.x if math.isfinite(x)]
        low, high = min(values, default=0.0), max(values, default=1.0)
        if self.log_x:
            return (low, high) if high > low else (low / 2, high * 2)
        if any(s.kind == "line" for s in self.series):
            return (low, high) if high > low else (low - 1, high + 1)
        margin = 0.12 * (high - low) or 0.5
        return low - margin, high + margin

    def y_range(self) -> tuple[float, float]:
        """The y values shown, with a margin; from zero when `zero`."""
        values = [y for s in self.series for y in (*s.y, *s.low, *s.high) if math.isfinite(y)]
        low, high = min(values, default=0.0), max(values, default=1.0)
        margin = 0.08 * (high - low) or 0.1 * abs(high) or 0.5
        bottom = min(0.0, low) if self.zero else low - margin
        return bottom, high + margin

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headers and rows with every value that the picture shows."""
        headers = ["series", self.x_label, self.y_label]
        banded = any(s.low for s in self.series)
        if banded:
            headers += ["low", "high"]
        rows = []
        for s in self.series:
            if s.kind == "front":
                continue
            for i, (x, y) in enumerate(zip(s.x, s.y, strict=True)):
                band = [number(s.low[i]), number(s.high[i])] if s.low else ["", ""] if banded else []
                rows.append([s.name, short(x), number(y), *band])
        return headers, rows


def number(x: float, *, sign: bool = False) -> str:
    """Three decimals, fewer for large numbers, a dash for an undefined value.

    >>> number(0.12345), number(-0.5, sign=True), number(1234567), number(float("nan"))
    ('0.123', '-0.500', '1,234,567', '–')
    """
    if not math.isfinite(x):
        return "–"
    if abs(x) >= 100:
        return f"{x:{'+' if sign else ''},.0f}"
    return f"{x:{'+' if sign else ''}.{2 if abs(x) >= 10 else 3}f}"


def short(x: float) -> str:
    """A coordinate as an axis shows it.

    >>> short(16.0), short(0.25), short(12000.0)
    ('16', '0.25', '12,000')
    """
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers within low..high.

    >>> ticks(0, 1), ticks(0, 17)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0, 15.0])
    """
    span = high - low
    if not span > 0:
        return [low]
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of two within low..high, every second one when there are many.

    >>> log_ticks(1, 8), log_ticks(1, 256)
    ([1.0, 2.0, 4.0, 8.0], [1.0, 4.0, 16.0, 64.0, 256.0])
    """
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    return [2.0**i for i in range(first, last + 1, 2 if last - first > 5 else 1)]
