"""TextWorld-Express: eight fast text games (Jansen and Côté 2022, arXiv:2208.01174), on Java."""

from __future__ import annotations

from typing import Any, Literal

from polypath.core.errors import UserError
from polypath.tasks.environments.protocol import Replayed, Turn
from polypath.tasks.environments.task import environment
from polypath.tasks.splits import check_split

Game = Literal["cookingworld", "twc", "coin", "mapreader", "arithmetic", "sorting", "simonsays", "peckingorder"]
STEPS = 1000  # the simulator's own limit: ours is the number of turns


@environment("textworld_express", paper="arXiv:2208.01174", needed={"package:textworld_express", "program:java"})
class TextWorldExpress(Replayed):
    """One of the eight games of TextWorld-Express; `parameters` are the game's own, as in "numLocations=3".

    The splits are its own folds. Rewards are what a step adds to the score, of which the whole game gives 1.
    """

    chat = True
    instructions = "You play a text game."

    def __init__(self, *, game: Game = "coin", parameters: str = "") -> None:
        super().__init__()
        self.game, self.parameters = game, parameters
        self._world: Any = None
        self._score = 0.0

    def begin(self, seed: int) -> Turn:
        """The game of a seed, from whichever fold holds it."""
        return self._open(seed, gold=False)

    def _open(self, seed: int, gold: bool) -> Turn:
        world = self._simulator()
        fold = next((name for name in ("train", "dev", "test") if seed in self._seeds(name)), None)
        if fold is None:
            raise UserError("textworld_express.seed", f"no fold holds the seed {seed}", "Take one of games(split, n).")
        _, info = world.reset(seed=seed, gameFold=fold, generateGoldPath=gold)
        self._score = 0.0
        return Turn(f"{info['taskDescription']}\n\n{_words(info)}", actions=_actions(info))

    def act(self, action: str) -> Turn:
        """Play one action."""
        _, _, done, info = self._world.step(action)
        score = max(float(info["score"]), 0.0)
        reward, self._score = score - self._score, score
        done = bool(done or info["tasksuccess"] or info["taskfailure"])
        valid = not str(info["observation"]).startswith("Unknown action")
        success = bool(info["tasksuccess"]) if done else None
        return Turn(_words(info), reward, done, () if done else _actions(info), success, valid)

    def walkthrough(self, seed: int) -> list[str]:
        """The simulator's own way to win."""
        self._open(seed, gold=True)
        return [str(action) for action in self._world.getGoldActionSequence()]

    def games(self, split: str, n: int) -> list[int]:
        """The first `n` seeds of the simulator's fold."""
        check_split("environment", split)
        self._simulator()
        return sorted(self._seeds(split))[:n]

    def close(self) -> None:
        """End the virtual machine."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _seeds(self, fold: str) -> range:
        world = self._world
        own = {"train": world.getValidSeedsTrain, "dev": world.getValidSeedsDev, "test": world.getValidSeedsTest}
        seeds = [int(seed) for seed in own[fold]()]
        return range(min(seeds), max(seeds) + 1)

    def _simulator(self) -> Any:
        if self._world is None:
            from textworld_express import TextWorldExpressEnv

            self._world = TextWorldExpressEnv(envStepLimit=STEPS)
            self._world.load(gameName=self.game, gameParams=self.parameters)
        return self._world


def _words(info: dict[str, Any]) -> str:
    return str(info["observation"]).strip()


def _actions(info: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(str(action) for action in info["validActions"]))  # the simulator's own order varies
