"""ScienceWorld: elementary-school science in a simulated house (Wang et al. 2022, arXiv:2203.07540), on Java."""

from __future__ import annotations

from typing import Annotated, Any

from polypath.core.errors import UserError, did_you_mean
from polypath.core.recipe_types import Range
from polypath.tasks.environments.protocol import Replayed, Turn
from polypath.tasks.environments.task import environment
from polypath.tasks.splits import check_split

FULL = 100  # the score of a finished task
META = ("reset task", "task", "wait1")  # actions on the simulator, not in the house


@environment("scienceworld", paper="arXiv:2203.07540", needed={"package:scienceworld", "program:java"})
class ScienceWorld(Replayed):
    """ScienceWorld, the real simulator: `game` is one of its 30 tasks, a seed one of the task's variations.

    The splits are its own. The reward of a step is what it adds to the score, of which the whole task gives 1; a fatal
    mistake takes back what was earned. `simplification` is the simulator's, such as "easy" or "teleportAction".
    """

    chat = True
    instructions = (
        "You are in a house with many rooms and things. You can look around, go to places, take and use things."
    )

    def __init__(
        self,
        *,
        game: str = "find-living-thing",
        simplification: str = "easy",
        steps: Annotated[int, Range(1, None)] = 100,
        valid_actions: bool = True,
    ) -> None:
        super().__init__()
        from scienceworld.constants import ID2TASK, NAME2ID

        known = {*ID2TASK.values()} | {*NAME2ID}
        if game not in known:
            raise UserError("scienceworld.game", f"there is no game '{game}'", did_you_mean(game, known))
        self.game, self.simplification, self.steps, self.valid_actions = game, simplification, steps, valid_actions
        self._world: Any = None
        self._score = 0.0

    def begin(self, seed: int) -> Turn:
        """Variation `seed`. Raises UserError for a variation that the task does not have."""
        world = self._simulator()
        most = world.get_max_variations(self.game)
        if not 0 <= seed < most:
            raise UserError("scienceworld.seed", f"'{self.game}' has no variation {seed}", f"Choose 0 to {most - 1}.")
        world.load(self.game, seed, self.simplification)
        observation, info = world.reset()
        self._score = max(float(info["score"]), 0.0)
        return Turn(f"{world.get_task_description()}\n\n{observation}", actions=self._actions())

    def act(self, action: str) -> Turn:
        """Play one action; one that the simulator does not know costs no time in the house."""
        if action in META:
            return Turn("No known action matches that input.", actions=self._actions(), valid=False)
        observation, _, done, info = self._world.step(action)
        score = max(float(info["score"]), 0.0)
        reward, self._score = (score - self._score) / FULL, score
        done = bool(done) or info["score"] < 0
        valid = not str(observation).startswith(("No known action", "Unknown action"))
        success = score >= FULL if done or score >= FULL else None
        return Turn(str(observation), reward, done, () if done else self._actions(), success, valid)

    def games(self, split: str, n: int) -> list[int]:
        """The variations that the simulator assigns to the split."""
        check_split("environment", split)
        world = self._simulator()
        world.load(self.game, 0, self.simplification)
        own = {"train": world.get_variations_train, "dev": world.get_variations_dev, "test": world.get_variations_test}
        return sorted(int(variation) for variation in own[split]())[:n]

    def close(self) -> None:
        """End the virtual machine."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _simulator(self) -> Any:
        if self._world is None:
            from scienceworld import ScienceWorldEnv

            self._world = ScienceWorldEnv("", envStepLimit=self.steps)
        return self._world

    def _actions(self) -> tuple[str, ...] | None:
        if not self.valid_actions:
            return None
        found = self._world.get_valid_action_object_combinations()
        return tuple(sorted({str(action) for action in found} - {*META}))
