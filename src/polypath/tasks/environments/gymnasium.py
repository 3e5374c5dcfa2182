"""Gymnasium's environments as text: the BabyAI and MiniGrid worlds, and those with few states and named actions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from polypath.core.errors import UserError, did_you_mean
from polypath.tasks.environments.protocol import Replayed, Turn
from polypath.tasks.environments.task import environment

MOVES = {  # the names of the actions of worlds that only number them
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
    "Blackjack": ("stick", "hit"),
}
GRID_MOVES = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
WALL = 2  # MiniGrid's number for it
LONGEST_WAY = 200
ANSI = re.compile(r"\x1b\[[0-9;]*m")
ME = re.compile(r"\x1b\[41m(.)\x1b\[0m|\x1b\[4[0-9]m(.)\x1b\[0m")  # where the renderer marks the player by colour


def _find(identifier: str, packages: tuple[str, ...]) -> str:
    """Check a name with gymnasium's registry. Raises UserError for one that is not there."""
    import importlib

    import gymnasium

    for package in packages:
        importlib.import_module(package)
    if identifier not in gymnasium.registry:
        raise UserError("gymnasium.id", f"there is no '{identifier}'", did_you_mean(identifier, gymnasium.registry))
    return identifier


@dataclass
class World:
    """A world of gymnasium whose actions have names and whose observations have words."""

    id: str
    names: tuple[str, ...]  # the actions in the order of their numbers
    words: Callable[[Any, Any], str]  # of the world and its observation
    reached: Callable[[float], bool]  # whether an episode that ended with this reward reached its goal
    options: dict[str, Any] = field(default_factory=dict)
    made: Any = None
    last: Any = None

    def begin(self, seed: int) -> Turn:
        """Reset to a seed."""
        if self.made is None:
            import gymnasium

            self.made = gymnasium.make(self.id, **self.options)
        self.last, _ = self.made.reset(seed=seed)
        return Turn(self.words(self.made, self.last), actions=tuple(sorted(self.names)))

    def act(self, action: str) -> Turn:
        """Take one action; what is none changes nothing."""
        if action not in self.names:
            return Turn(self.words(self.made, self.last), actions=tuple(sorted(self.names)), valid=False)
        self.last, reward, terminated, truncated, _ = self.made.step(self.names.index(action))
        done = bool(terminated or truncated)
        success = bool(terminated) and self.reached(float(reward)) if done else None
        actions = () if done else tuple(sorted(self.names))
        return Turn(self.words(self.made, self.last), float(reward), done, actions, success)

    def close(self) -> None:
        """Let go of the world."""
        if self.made is not None:
            self.made.close()
            self.made = None


@environment("gymnasium", paper="arXiv:2407.17032", needed={"package:gymnasium"})
class Gymnasium(Replayed):
    """A gymnasium world that can draw itself as text: FrozenLake, CliffWalking, Taxi; or Blackjack.

    Actions are words such as `left`. FrozenLake and CliffWalking do not slip here.
    """

    chat = True
    instructions = "You move in a small world that is drawn as text; you are marked by []."

    def __init__(self, *, id: str = "FrozenLake-v1") -> None:
        super().__init__()
        family = next((name for name in MOVES if id.startswith(name)), None)
        if family is None:
            raise UserError("gymnasium.id", f"'{id}' has no actions with names", f"Choose from: {', '.join(MOVES)}.")
        cards = family.startswith("Black")
        options: dict[str, Any] = {} if cards else {"render_mode": "ansi"}
        if family.startswith(("Frozen", "Cliff")):
            options["is_slippery"] = False
        only_goal = family.startswith("Cliff")  # this world takes at every step, and ends at its goal alone
        self._world = World(
            _find(id, ()),
            MOVES[family],
            _cards if cards else _drawing,
            lambda reward: reward > 0 or only_goal,
            options,
        )

    def begin(self, seed: int) -> Turn:
        """Reset to a seed."""
        return self._world.begin(seed)

    def act(self, action: str) -> Turn:
        """Take one action."""
        return self._world.act(action)

    def close(self) -> None:
        """Let go of the world."""
        self._world.close()


def _cards(world: Any, observation: Any) -> str:
    return f"Your sum is {observation[0]}, the dealer shows {observation[1]}."


def _drawing(world: Any, observation: Any) -> str:
    """The world's own drawing, the player in square brackets."""
    drawn = ME.sub(lambda match: f"[{match[1] or match[2]}]", str(world.render()))
    lines = ANSI.sub("", drawn).strip().splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith("("))


@environment("babyai", paper="arXiv:1810.08272", needed={"package:gymnasium", "package:minigrid"})
class BabyAI(Replayed):
    """An instruction in a grid world, BabyAI or MiniGrid; what lies in the view is told by distance and side.

    The words follow GLAM (Carta et al. 2023, arXiv:2302.02662). `walkthrough` asks BabyAI's own bot.
    """

    chat = True
    instructions = "You move in a room of squares and follow an instruction."

    def __init__(self, *, id: str = "BabyAI-GoToLocal-v0") -> None:
        super().__init__()
        self._world = World(_find(id, ("minigrid",)), GRID_MOVES, _view, lambda reward: reward > 0)

    def begin(self, seed: int) -> Turn:
        """Reset to a seed."""
        return self._world.begin(seed)

    def act(self, action: str) -> Turn:
        """Take one action."""
        return self._world.act(action)

    def close(self) -> None:
        """Let go of the world."""
        self._world.close()

    def walkthrough(self, seed: int) -> list[str]:
        """What BabyAI's bot does to follow the instruction. Ends the game."""
        from minigrid.utils.baby_ai_bot import BabyAIBot

        turn = self.reset(seed)
        bot = BabyAIBot(self._world.made)
        taken: list[str] = []
        while not turn.done and len(taken) < LONGEST_WAY:
            taken.append(GRID_MOVES[int(bot.replan())])
            turn = self.step(taken[-1])
        return taken


def _view(world: Any, observation: Any) -> str:
    """The instruction, and every thing in view."""
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT

    grid, seen = observation["image"], []
    width, height = grid.shape[:2]
    for x in range(width):
        for y in range(height):
            kind = IDX_TO_OBJECT[int(grid[x, y, 0])]
            if kind in ("unseen", "empty", "floor", "agent", "wall") or (x, y) == (width // 2, height - 1):
                continue
            state = (" open", " closed", " locked")[int(grid[x, y, 2])] if "door" in kind else ""
            seen.append(f"a{state} {IDX_TO_COLOR[int(grid[x, y, 1])]} {kind} {_where(x, y, width, height)}")
    ahead = next((d for d in range(1, height) if int(grid[width // 2, height - 1 - d, 0]) == WALL), None)
    walls = [f"a wall {_steps(ahead)} forward"] if ahead else []
    carried = world.unwrapped.carrying
    hands = f" You carry a {carried.color} {carried.type}." if carried else ""
    return f"Instruction: {observation['mission']}.\nYou see {', '.join([*seen, *walls]) or 'nothing'}.{hands}"


def _where(x: int, y: int, width: int, height: int) -> str:
    side, ahead = x - width // 2, height - 1 - y
    parts = [f"{_steps(abs(side))} {'left' if side < 0 else 'right'}"] if side else []
    return " and ".join([*parts, *([f"{_steps(ahead)} forward"] if ahead else [])])


def _steps(n: int) -> str:
    return "1 step" if n == 1 else f"{n} steps"
