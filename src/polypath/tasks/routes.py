"""Town routes: one fixed map that the model learns only from examples, and many valid routes for each errand.

A prompt is `A1 C3 F6 >` (start, via, goal), an answer a walk over the map's streets that visits no town twice, passes
`via`, and is at most `slack` streets longer than the shortest such route. All valid routes are enumerated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import islice, permutations

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.core.seeds import rng
from polypath.tasks.protocol import EOS, PAD, Prompt, Score
from polypath.tasks.splits import Pools, content_id, draw, pools, split_of

Town = tuple[int, int]  # column and row
Map = dict[Town, list[Town]]  # the neighbours of each town, sorted
Path = tuple[Town, ...]
MapKnobs = tuple[int, float, int, int]  # side, removed, shortcuts, seed


def town_name(town: Town) -> str:
    """Column letter and row number, as on a chess board.

    >>> town_name((0, 0)), town_name((5, 2))
    ('A1', 'F3')
    """
    return f"{chr(ord('A') + town[0])}{town[1] + 1}"


@cache
def build_map(side: int, removed: float, shortcuts: int, seed: int) -> Map:
    """A grid without a share of its streets, still connected, plus streets between towns that are not neighbours.

    Raises UserError when the grid has too few streets or towns for that.
    """
    random = rng(seed, "map", side)
    towns = [(x, y) for x in range(side) for y in range(side)]
    streets = [(a, b) for a in towns for b in ((a[0] + 1, a[1]), (a[0], a[1] + 1)) if b in towns]
    grid = set(streets)
    random.shuffle(streets)
    spare = round(removed * len(streets))
    for street in list(streets):
        rest = [other for other in streets if other != street]
        if spare and len(_distances(_neighbours(towns, rest), towns[0])) == len(towns):
            streets, spare = rest, spare - 1
    far = [(a, b) for i, a in enumerate(towns) for b in towns[i + 1 :] if (a, b) not in grid]
    if spare:
        raise UserError("task.removed", f"without {removed} of its streets the map falls apart", "Remove fewer.")
    if shortcuts > len(far):
        raise UserError("task.shortcuts", f"there is room for {len(far)} only, not {shortcuts}", "Take fewer.")
    return _neighbours(towns, streets + random.sample(far, shortcuts))


def _neighbours(towns: Sequence[Town], streets: Sequence[tuple[Town, Town]]) -> Map:
    found: Map = {town: [] for town in towns}
    for a, b in streets:
        found[a].append(b)
        found[b].append(a)
    return {town: sorted(near) for town, near in found.items()}


def _distances(neighbours: Map, origin: Town) -> dict[Town, int]:
    """Streets from `origin` to every town that can be reached."""
    distance, frontier = {origin: 0}, [origin]
    for town in frontier:  # grows while it is walked: breadth first
        for near in neighbours[town]:
            if near not in distance:
                distance[near] = distance[town] + 1
                frontier.append(near)
    return distance


@cache
def simple_paths(laid: MapKnobs, start: Town, goal: Town, max_towns: int) -> list[Path]:
    """All paths on the map of `laid` from start to goal with at most `max_towns` towns and none twice."""
    neighbours = build_map(*laid)
    to_goal = _distances(neighbours, goal)
    found: list[Path] = []

    def extend(path: Path) -> None:
        if path[-1] == goal:
            found.append(path)
            return
        for near in neighbours[path[-1]]:
            if near not in path and len(path) + 1 + to_goal[near] <= max_towns:
                extend((*path, near))

    extend((start,))
    return found


def valid_routes(laid: MapKnobs, start: Town, via: Town, goal: Town, max_towns: int, slack: int) -> list[Path]:
    """The paths through `via` that are at most `slack` streets longer than the shortest of them."""
    through = [path for path in simple_paths(laid, start, goal, max_towns) if via in path]
    longest = min(map(len, through), default=0) + slack
    return [path for path in through if len(path) <= longest]


@cache
def _generate(laid: MapKnobs, max_towns: int, slack: int, min_solutions: int, problems: int, seed: int) -> Pools:
    """`problems` errands with enough routes, drawn without repetition; all of them when there are fewer."""
    errands = list(permutations(build_map(*laid), 3))
    rng(seed, "routes").shuffle(errands)
    enough = (e for e in errands if len(valid_routes(laid, *e, max_towns, slack)) >= min_solutions)
    chosen = list(islice(enough, problems))
    splits = [split_of(f"routes {sorted((start, goal))} {via}") for start, via, goal in chosen]
    return pools((make_prompt(*map(town_name, errand)) for errand in chosen), splits)


def make_prompt(start: str, via: str, goal: str) -> Prompt:
    """The prompt of one errand between named towns; `data` holds the three."""
    text = f"{start} {via} {goal} >"
    return Prompt(content_id("routes", text), text, {"start": start, "via": via, "goal": goal})


@register("task", "routes")
class Routes:
    """Walk through a town map from start to goal by way of a third town; every valid route is known.

    The map is a `side` x `side` grid, the share `removed` of its streets taken away, `shortcuts` added, fixed by
    `map_seed`. A route has at most `max_towns` towns and `slack` streets more than the shortest. A problem's split is
    a hash of its towns, the way there and the way back being one problem.
    """

    name = "routes"
    chat = False

    def __init__(
        self,
        *,
        side: int = 6,
        removed: float = 0.25,
        shortcuts: int = 4,
        map_seed: int = 0,
        slack: int = 4,
        max_towns: int = 11,
        min_solutions: int = 3,
        problems: int = 12_000,
        seed: int = 0,
    ) -> None:
        """Nothing is enumerated before the first use. Raises UserError for knobs that leave no map."""
        if not 3 <= side <= 9:
            raise UserError("task.side", f"a map of side {side} is not possible", "Choose 3 to 9.")
        if not 3 <= max_towns <= 14:
            raise UserError("task.max_towns", f"routes of {max_towns} towns cannot be listed", "Choose 3 to 14.")
        if min(removed, shortcuts, slack, min_solutions - 1, problems - 1) < 0:
            raise UserError("task", "removed, shortcuts and slack cannot be negative, the rest must be positive")
        self._laid = (side, removed, shortcuts, map_seed)
        self._limits = (max_towns, slack)
        self._drawn = (min_solutions, problems, seed)
        self._neighbours = build_map(*self._laid)
        self._towns = {town_name(town): town for town in self._neighbours}

    def vocabulary(self) -> list[str]:
        """Every word of prompts and answers after PAD and EOS; 39 with the defaults."""
        return [PAD, EOS, *self._towns, ">"]

    def edges(self) -> list[tuple[str, str]]:
        """The streets as pairs of names, each once."""
        return [(town_name(a), town_name(b)) for a, near in self._neighbours.items() for b in near if a < b]

    def coordinates(self) -> dict[str, tuple[int, int]]:
        """Name -> (column, row), for drawing the map."""
        return dict(self._towns)

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """At most `n` prompts; see `splits.draw`."""
        return draw("task routes", _generate(self._laid, *self._limits, *self._drawn), split, n, seed)

    def verify(self, prompt: Prompt, text: str) -> Score:
        """1 for a valid route. A text of town names is a valid attempt, its canonical form is itself."""
        words = text.split()
        if not words or not all(word in self._towns for word in words):
            return Score(0.0, False, valid=False)
        route = " ".join(words)
        right = route in self.solutions(prompt)
        return Score(float(right), right, route, canonical=route)

    def solutions(self, prompt: Prompt) -> frozenset[str]:
        """All valid routes."""
        return frozenset(self.demonstrations(prompt))

    def demonstrations(self, prompt: Prompt) -> list[str]:
        """All valid routes, in a stable order."""
        start, via, goal = (self._towns[prompt.data[key]] for key in ("start", "via", "goal"))
        routes = valid_routes(self._laid, start, via, goal, *self._limits)
        return [" ".join(map(town_name, route)) for route in routes]
