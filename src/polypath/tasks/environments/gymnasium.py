"""Gymnasium's environments as text: the BabyAI and MiniGrid worlds, and those with few states and named actions."""

from __future__ import annotations

import re
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


class _Gym(Replayed):
    """A world of gymnasium with named actions."""

    chat = True

    def __init__(self, identifier: str, **options: Any) -> None:
        super().__init__()
        self._id, self._options = identifier, dict(options)
        self._world: Any = None
        self._last: Any = None

    def names(self) -> tuple[str, ...]:
        """The actions in the order of their numbers."""
        raise NotImplementedError

    def words(self, observation: Any) -> str:
        """What is seen, in words."""
        raise NotImplementedError

    def reached(self, reward: float, terminated: bool) -> bool:
        """Whether an episode that ended with this reward reached its goal."""
        return terminated and reward > 0

    def begin(self, seed: int) -> Turn:
        """Reset to a seed."""
        if self._world is None:
            import gymnasium

            self._world = gymnasium.make(self._id, **self._options)
        self._last, _ = self._world.reset(seed=seed)
        return Turn(self.words(self._last), actions=tuple(sorted(self.names())))

    def act(self, action: str) -> Turn:
        """Take one action; what is none changes nothing."""
        names = self.names()
        if action not in names:
            return Turn(self.words(self._last), actions=tuple(sorted(names)), valid=False)
        self._last, reward, terminated, truncated, _ = self._world.step(names.index(action))
        done = bool(terminated or truncated)
        success = self.reached(float(reward), bool(terminated)) if done else None
        actions = () if done else tuple(sorted(names))
        return Turn(self.words(self._last), float(reward), done, actions, success)

    def close(self) -> None:
        """Let go of the world."""
        if self._world is not None:
            self._world.close()
            self._world = None


@environment("gymnasium", paper="arXiv:2407.17032", needed={"package:gymnasium"})
class Gymnasium(_Gym):
    """A gymnasium world that can draw itself as text: FrozenLake, CliffWalking, Taxi; or Blackjack.

    Actions are words such as `left`. FrozenLake and CliffWalking do not slip here.
    """

    instructions = "You move in a small world that is drawn as text; you are marked by []."

    def __init__(self, *, id: str = "FrozenLake-v1") -> None:
        family = next((name for name in MOVES if id.startswith(name)), None)
        if family is None:
            raise UserError("gymnasium.id", f"'{id}' has no actions with names", f"Choose from: {', '.join(MOVES)}.")
        options: dict[str, Any] = {} if family.startswith("Black") else {"render_mode": "ansi"}
        if family.startswith(("Frozen", "Cliff")):
            options["is_slippery"] = False
        super().__init__(_find(id, ()), **options)
        self._names = MOVES[family]

    def names(self) -> tuple[str, ...]:
        """The family's actions."""
        return self._names

    def words(self, observation: Any) -> str:
        """The world's own drawing, or the numbers that it shows."""
        if "render_mode" not in self._options:
            return f"Your sum is {observation[0]}, the dealer shows {observation[1]}."
        drawn = ME.sub(lambda match: f"[{match[1] or match[2]}]", str(self._world.render()))
        lines = ANSI.sub("", drawn).strip().splitlines()
        return "\n".join(line for line in lines if not line.strip().startswith("("))

    def reached(self, reward: float, terminated: bool) -> bool:
        """A win; the cliff world, which only takes, ends at its goal alone."""
        return terminated and (reward > 0 or self._id.startswith("Cliff"))


@environment("babyai", paper="arXiv:1810.08272", needed={"package:gymnasium", "package:minigrid"})
class BabyAI(_Gym):
    """An instruction in a grid world, BabyAI or MiniGrid; what lies in the view is told by distance and side.

    The words follow GLAM (Carta et al. 2023, arXiv:2302.02662). `walkthrough` asks BabyAI's own bot.
    """

    instructions = "You move in a room of squares and follow an instruction."

    def __init__(self, *, id: str = "BabyAI-GoToLocal-v0") -> None:
        super().__init__(_find(id, ("minigrid",)))

    def names(self) -> tuple[str, ...]:
        """The seven actions of MiniGrid."""
        return ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")

    def words(self, observation: Any) -> str:
        """The instruction, and every thing in view."""
        from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT

        grid, seen = observation["image"], []
        width, height = grid.shape[:2]
        for x in range(width):
            for y in range(height):
                kind = IDX_TO_OBJECT[int(grid[x, y, 0])]
                if kind in ("unseen", "empty", "floor", "agent") or (x, y) == (width // 2, height - 1):
                    continue
                if kind != "wall":
                    state = (" open", " closed", " locked")[int(grid[x, y, 2])] if "door" in kind else ""
                    seen.append(f"a{state} {IDX_TO_COLOR[int(grid[x, y, 1])]} {kind} {_where(x, y, width, height)}")
        ahead = next((d for d in range(1, height) if int(grid[width // 2, height - 1 - d, 0]) == 2), None)
        walls = [f"a wall {_steps(ahead)} forward"] if ahead else []
        carried = self._world.unwrapped.carrying
        hands = f" You carry a {carried.color} {carried.type}." if carried else ""
        return f"Instruction: {observation['mission']}.\nYou see {', '.join([*seen, *walls]) or 'nothing'}.{hands}"

    def walkthrough(self, seed: int) -> list[str]:
        """What BabyAI's bot does to follow the instruction. Ends the game."""
        from minigrid.utils.baby_ai_bot import BabyAIBot

        self.reset(seed)
        bot = BabyAIBot(self._world)
        taken: list[str] = []
        while not self._turn.done and len(taken) < 200:
            taken.append(self.names()[int(bot.replan())])
            self.step(taken[-1])
        return taken


def _where(x: int, y: int, width: int, height: int) -> str:
    side, ahead = x - width // 2, height - 1 - y
    parts = [f"{_steps(abs(side))} {'left' if side < 0 else 'right'}"] if side else []
    return " and ".join([*parts, *([f"{_steps(ahead)} forward"] if ahead else [])])


def _steps(n: int) -> str:
    return "1 step" if n == 1 else f"{n} steps"
