"""Route frequencies on a town map: one picture per arm, a street as wide as the share of routes that take it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from polypath.core.document import load_document
from polypath.core.recipe import resolve
from polypath.core.record import Rollout
from polypath.core.rundir import RunDir
from polypath.evaluate.runs import Run
from polypath.report.svg import PALETTE
from polypath.train.config import Recipe

Town = str
Coordinates = Mapping[Town, tuple[float, float]]
Street = tuple[Town, Town]
STEP, MARGIN, WIDEST = 70, 40, 15.0
LABEL = 40  # room for the marks of the last column


def street_shares(routes: Sequence[Sequence[Town]]) -> dict[frozenset[Town], float]:
    """The share of routes that take each street, in either direction.

    >>> sorted(street_shares([["A", "B"], ["B", "A", "C"]]).values())
    [0.5, 1.0]
    """
    counts = Counter(street for route in routes for street in {frozenset(pair) for pair in pairwise(route)})
    return {street: count / len(routes) for street, count in counts.items()}


def map_figure(
    name: str,
    coordinates: Coordinates,
    streets: Iterable[Street],
    routes: Sequence[Sequence[Town]],
    *,
    marks: Mapping[Town, str] | None = None,
    colour: int = 1,
) -> str:
    """A `<figure>` with one map. `marks` are the towns to emphasise, with what each of them is (start, via, goal)."""
    marks = marks or {}
    shares = street_shares(routes)
    columns, rows = zip(*coordinates.values(), strict=True)
    at = {
        town: (MARGIN + STEP * (x - min(columns)), MARGIN + STEP * (max(rows) - y))
        for town, (x, y) in coordinates.items()
    }
    width, height = (2 * MARGIN + STEP * (max(v) - min(v)) for v in (columns, rows))
    streets = list(streets)
    lines = [_line(at[a], at[b], 'class="grid" stroke-width="2"') for a, b in streets]
    walked = [(a, b, shares[frozenset((a, b))]) for a, b in streets if frozenset((a, b)) in shares]
    lines += [_way(at[a], at[b], share, f"{a}–{b}", colour) for a, b, share in walked]  # above all bare streets
    towns = [_town(town, place, marks.get(town, ""), colour) for town, place in at.items()]
    different = len({tuple(route) for route in routes})
    text = f"{len(routes)} correct routes, {different} different"
    caption = f'{escape(name)} <span class="soft small">{text}</span>'
    drawing = (
        f'<svg viewBox="0 0 {width + LABEL:g} {height:g}" role="img" class="plot" aria-label="{escape(name)}: {text}">'
    )
    ways = _ways(routes)
    return f"<figure><figcaption>{caption}</figcaption>{drawing}{''.join(lines)}{''.join(towns)}</svg>{ways}</figure>"


def route_pictures(runs: Sequence[Run]) -> list[str]:
    """One map per arm for the prompt with the most different routes; none when the runs' task has no map."""
    task = _task(runs)
    if not (hasattr(task, "coordinates") and hasattr(task, "edges")):
        return []
    routes = {arm: _routes(run.rollouts()) for arm, run in {run.arm: run for run in reversed(runs)}.items()}
    shared = set.intersection(*(set(by_prompt) for by_prompt in routes.values()))
    if not shared:
        return []

    def variety(prompt: str) -> tuple[int, str]:
        return sum(len(set(by_prompt[prompt])) for by_prompt in routes.values()), prompt

    chosen = max(shared, key=variety)
    arms = list(dict.fromkeys(run.arm for run in runs))
    marks = dict(zip(chosen.split(), ("start", "via", "goal"), strict=False))
    return [
        map_figure(f"{arm}: {chosen}", task.coordinates(), task.edges(), routes[arm][chosen], marks=marks, colour=i)
        for i, arm in enumerate(arms)
    ]


def _task(runs: Sequence[Run]) -> Any:
    """The task that the runs' recipe names, None when there is no recipe."""
    for run in runs:
        recipe = RunDir(run.path).recipe
        if recipe.is_file():
            return resolve(load_document(recipe), Recipe).task.bind()()
    return None


def _routes(rollouts: Iterable[Rollout]) -> dict[str, list[tuple[Town, ...]]]:
    """The correct routes by the text of their prompt."""
    found: dict[str, list[tuple[Town, ...]]] = {}
    for rollout in rollouts:
        if rollout.correct and rollout.canonical:
            found.setdefault(rollout.prompt, []).append(tuple(rollout.canonical.split()))
    return found


def _line(a: tuple[float, float], b: tuple[float, float], look: str, inside: str = "") -> str:
    return f'<line {look} x1="{a[0]:g}" y1="{a[1]:g}" x2="{b[0]:g}" y2="{b[1]:g}">{inside}</line>'


def _way(a: tuple[float, float], b: tuple[float, float], share: float, name: str, colour: int) -> str:
    """A street as wide as its share, with a visible least width."""
    look = f'class="way c{colour % PALETTE}" stroke-width="{max(1.5, WIDEST * share):.1f}"'
    return _line(a, b, look, f"<title>{escape(name)}: {share:.0%}</title>")


def _town(town: Town, place: tuple[float, float], mark: str, colour: int) -> str:
    x, y = place
    look, radius = (f"dot c{colour % PALETTE}", 9) if mark else ("town", 5)
    label = mark or town
    weight = "label" if mark else "tick"
    return (
        f'<circle class="{look}" cx="{x:g}" cy="{y:g}" r="{radius}"/>'
        f'<text class="{weight} c{colour % PALETTE}" x="{x + 11:g}" y="{y - 9:g}">{escape(label)}</text>'
    )


def _ways(routes: Sequence[Sequence[Town]], most: int = 12) -> str:
    """The same as a list: the most frequent routes with their shares."""
    ranked = Counter(tuple(route) for route in routes).most_common(most)
    items = "".join(f"<li>{escape(' '.join(route))}: {n / len(routes):.0%}</li>" for route, n in ranked)
    return f"<details><summary>The most frequent routes</summary><ol>{items}</ol></details>"
