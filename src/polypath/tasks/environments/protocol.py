"""What an environment is: reset by a seed, stepped by text, saved and restored, and what it needs to run.

>>> from polypath.core import registry
>>> game = registry.get("environment", "tictactoe")()
>>> opening = game.reset(0)
>>> saved = game.snapshot()
>>> first = game.step(opening.actions[0])
>>> game.restore(saved) == opening and game.step(opening.actions[0]) == first
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from polypath.core.errors import UserError
from polypath.tasks.splits import check_split, split_of

SEARCHED = 100_000  # seeds that are looked through for those of a split


@dataclass(frozen=True)
class Turn:
    """What an environment says after a reset or a step.

    `reward` is that of the step alone; an episode earns their sum. `actions` are the admissible ones where the
    simulator lists them; `success` is None as long as, or where, nothing says whether the goal was reached; `valid`
    is False when the simulator did not understand or allow the action.
    """

    observation: str
    reward: float = 0.0
    done: bool = False
    actions: tuple[str, ...] | None = None
    success: bool | None = None
    valid: bool = True


@runtime_checkable
class Environment(Protocol):
    """A game or simulator. Registered by `@environment(name)` on a class whose knobs are keyword-only.

    Everything that follows from a seed and the actions is the same on every machine: that is what replay rests on.
    """

    def reset(self, seed: int) -> Turn:
        """Start the game of that seed."""
        ...

    def step(self, action: str) -> Turn:
        """Play one action. A text that is no action is answered in words and with `valid` False, never raised."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """The state as JSON data: of the simulator itself, or the seed and the actions that lead to it."""
        ...

    def restore(self, state: dict[str, Any]) -> Turn:
        """Go back to a snapshot, also one of another process; returns the turn that stood there."""
        ...

    def games(self, split: str, n: int) -> list[int]:
        """The seeds of at most `n` games of a split, always in the same order."""
        ...

    def close(self) -> None:
        """Let go of everything that the simulator holds."""
        ...


class Replayed:
    """An environment whose snapshot is its seed and its actions, restored by playing them again.

    A simulator gives `begin` and `act`; after the end of an episode further actions change nothing.
    """

    def __init__(self) -> None:
        self._seed: int | None = None
        self._played: list[str] = []
        self._turn = Turn("")

    def begin(self, seed: int) -> Turn:
        """Start the game of a seed."""
        raise NotImplementedError

    def act(self, action: str) -> Turn:
        """Play one action."""
        raise NotImplementedError

    def reset(self, seed: int) -> Turn:
        """Start the game of that seed."""
        self._turn, self._seed, self._played = self.begin(seed), seed, []
        return self._turn

    def step(self, action: str) -> Turn:
        """Play one action. Raises UserError before the first reset."""
        if self._seed is None:
            raise UserError("environment", "is stepped before its first reset", "Call reset(seed) first.")
        if self._turn.done:
            return Turn("The game is over.", 0.0, True, (), self._turn.success, valid=False)
        self._played.append(action)
        self._turn = self.act(action)
        return self._turn

    def snapshot(self) -> dict[str, Any]:
        """The seed and the actions so far."""
        return {"seed": self._seed, "actions": list(self._played)}

    def restore(self, state: dict[str, Any]) -> Turn:
        """Start the seed again and play its actions, only those that are left when this game is on the way there."""
        seed, actions = int(state["seed"]), list(state["actions"])
        if seed != self._seed or actions[: len(self._played)] != self._played:
            self.reset(seed)
        for action in actions[len(self._played) :]:
            self.step(action)
        return self._turn

    def games(self, split: str, n: int) -> list[int]:
        """The first `n` seeds whose hash falls into the split."""
        return hashed_games(type(self).__name__, split, n)

    def close(self) -> None:
        """Nothing is held."""


def hashed_games(name: str, split: str, n: int) -> list[int]:
    """The first `n` seeds of a split, by the hash of the environment's name and the seed.

    >>> hashed_games("TicTacToe", "test", 3) == hashed_games("TicTacToe", "test", 5)[:3]
    True
    """
    check_split("environment", split)
    found: list[int] = []
    for seed in range(SEARCHED):
        if len(found) == n:
            break
        if split_of(f"environment {name} {seed}") == split:
            found.append(seed)
    return found


def listed(actions: Sequence[str], most: int) -> str:
    """Admissible actions in one line, the first `most` of them.

    >>> listed(["go east", "go west", "look"], 2)
    'go east; go west; ...'
    """
    return "; ".join([*actions[:most], *(["..."] if len(actions) > most else [])])
