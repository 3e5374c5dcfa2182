"""TextArena: hundreds of language games (Guertler et al. 2025, arXiv:2504.11442); those for one player."""

from __future__ import annotations

from typing import Any

from polypath.core.errors import UserError, did_you_mean
from polypath.core.seeds import derive
from polypath.tasks.environments.protocol import Replayed, Turn
from polypath.tasks.environments.task import environment


@environment("textarena", paper="arXiv:2504.11442", needed={"package:textarena"})
class TextArena(Replayed):
    """A game of TextArena for one player, by its id, such as GuessTheNumber-v0 or TowerOfHanoi-v0.

    Actions are written in square brackets, as the games ask. The reward is the game's, at its end.
    """

    chat = True
    instructions = "You play a game."

    def __init__(self, *, id: str = "GuessTheNumber-v0") -> None:
        super().__init__()
        from textarena.envs.registration import ENV_REGISTRY

        if id not in ENV_REGISTRY:
            raise UserError("textarena.id", f"there is no '{id}'", did_you_mean(id, ENV_REGISTRY))
        self._id = id
        self._world: Any = None
        self._said = ""

    def begin(self, seed: int) -> Turn:
        """The game of a seed. Raises UserError for one that needs more players."""
        import textarena

        self._world = textarena.make(self._id)
        try:
            self._world.reset(num_players=1, seed=derive(seed, "textarena") % 2**31)
        except (AssertionError, ValueError) as error:
            raise UserError(
                "textarena.id", f"'{self._id}' is no game for one player ({error})", "Choose another."
            ) from error
        self._said = ""
        return Turn(self._news())

    def act(self, action: str) -> Turn:
        """Say one thing."""
        from textarena.core import Env

        world: Env = self._world
        done, _ = world.step(action)
        if not done:
            news = self._news()
            return Turn(news, valid="invalid move" not in news)
        rewards, info = world.close()
        reward = float((rewards or {}).get(0, 0.0))
        reason = str((info or {}).get(0, {}).get("reason", "")) or "The game is over."
        return Turn(reason, reward, True, success=reward >= 1.0)

    def _news(self) -> str:
        """What the game said since the last turn."""
        _, whole = self._world.get_observation()
        before, self._said = self._said, str(whole)
        return self._said.removeprefix(before).strip()
