"""A figure as an SVG that scales with its container and takes its colours from the page's theme."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

from polypath.report.figure import Figure, Series, log_ticks, number, short, ticks

WIDTH, HEIGHT = 480, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 46
PALETTE = 8
Scale = Callable[[float], float]


def render(figure: Figure) -> str:
    """The `<svg>` element. Colours are the CSS classes c0..c7; every point has its values as a tooltip."""
    x_scale, y_scale = _scales(figure)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{figure.id}-t {figure.id}-d" class="plot">',
        f'<title id="{figure.id}-t">{escape(figure.title)}</title>',
        f'<desc id="{figure.id}-d">{escape(figure.text or figure.title)}</desc>',
        *_axes(figure, x_scale, y_scale),
    ]
    for layer in (_band, _line, _points, _label):
        for series in figure.series:
            parts += layer(series, x_scale, y_scale)
    return "\n".join([*parts, "</svg>"])


def _scales(figure: Figure) -> tuple[Scale, Scale]:
    (x0, x1), (y0, y1) = figure.x_range(), figure.y_range()
    to: Scale = math.log2 if figure.log_x else float
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    return (
        lambda x: LEFT + width * (to(x) - to(x0)) / (to(x1) - to(x0)),
        lambda y: TOP + height * (1 - (y - y0) / (y1 - y0)),
    )


def _axes(figure: Figure, x_scale: Scale, y_scale: Scale) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    for y in ticks(*figure.y_range()):
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_scale(y):.1f}" y2="{y_scale(y):.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 7}" y="{y_scale(y) + 4:.1f}" text-anchor="end">{short(y)}</text>'
    for x in log_ticks(*figure.x_range()) if figure.log_x else ticks(*figure.x_range()):
        yield f'<line class="axis" x1="{x_scale(x):.1f}" x2="{x_scale(x):.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
        yield f'<text class="tick" x="{x_scale(x):.1f}" y="{bottom + 18}" text-anchor="middle">{short(x)}</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text class="name" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(figure.x_label)}</text>'
    turned = f'transform="translate(13 {(TOP + bottom) / 2}) rotate(-90)"'
    yield f'<text class="name" {turned} text-anchor="middle">{escape(figure.y_label)}</text>'


def _finite(series: Series) -> list[int]:
    return [i for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)) if math.isfinite(x) and math.isfinite(y)]


def _band(series: Series, x_scale: Scale, y_scale: Scale) -> Iterator[str]:
    if not series.low:
        return
    shown = [i for i in _finite(series) if math.isfinite(series.low[i]) and math.isfinite(series.high[i])]
    if series.kind == "points":
        for i in shown:
            x = x_scale(series.x[i])
            ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{y_scale(series.low[i]):.1f}" y2="{y_scale(series.high[i]):.1f}"'
            yield f'<line class="bar {_colour(series)}" {ends}/>'
    elif len(shown) > 1:
        upper = [f"{x_scale(series.x[i]):.1f},{y_scale(series.high[i]):.1f}" for i in shown]
        lower = [f"{x_scale(series.x[i]):.1f},{y_scale(series.low[i]):.1f}" for i in reversed(shown)]
        yield f'<polygon class="band {_colour(series)}" points="{" ".join([*upper, *lower])}"/>'


def _line(series: Series, x_scale: Scale, y_scale: Scale) -> Iterator[str]:
    if series.kind == "points":
        return
    points = " ".join(f"{x_scale(series.x[i]):.1f},{y_scale(series.y[i]):.1f}" for i in _finite(series))
    look = "front" if series.kind == "front" else f"line {_colour(series)}{' faint' if series.faint else ''}"
    yield f'<polyline class="{look}" points="{points}"/>'


def _points(series: Series, x_scale: Scale, y_scale: Scale) -> Iterator[str]:
    if series.kind == "front" or (series.faint and series.kind == "line"):
        return
    size = 3.2 if series.faint else 5.5 if series.kind == "points" else 3.2
    if series.kind == "line" and len(series.x) > 24:
        return
    for i in _finite(series):
        tip = f"{series.name}: {short(series.x[i])}, {number(series.y[i])}"
        if series.low:
            tip += f" [{number(series.low[i])}, {number(series.high[i])}]"
        shape = _marker(series.colour, x_scale(series.x[i]), y_scale(series.y[i]), size)
        look = f"dot {_colour(series)}{' faint' if series.faint else ''}"
        yield f'<g class="{look}"><title>{escape(tip)}</title>{shape}</g>'


def _label(series: Series, x_scale: Scale, y_scale: Scale) -> Iterator[str]:
    shown = _finite(series)
    if not series.label or not shown:
        return
    x, y = x_scale(series.x[shown[-1]]), y_scale(series.y[shown[-1]])
    left = x > WIDTH - RIGHT - 90
    place = f'x="{x + (-10 if left else 10):.1f}" y="{y - 9:.1f}" text-anchor="{"end" if left else "start"}"'
    yield f'<text class="label {_colour(series)}" {place}>{escape(series.label)}</text>'


def _marker(colour: int, x: float, y: float, r: float) -> str:
    """Arms differ in shape as well as in colour: circle, square, diamond, triangle."""
    if colour % 4 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'
    corners = {
        1: [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2: [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
        3: [(0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
    }[colour % 4]
    return f'<polygon points="{" ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners)}"/>'


def swatch(colour: int) -> str:
    """A small picture of an arm's marker, for legends."""
    shape = _marker(colour, 7, 7, 4.6)
    return f'<svg class="swatch c{colour % PALETTE}" viewBox="0 0 14 14" aria-hidden="true">{shape}</svg>'


def _colour(series: Series) -> str:
    return f"c{series.colour % PALETTE}"
