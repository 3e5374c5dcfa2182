"""TextWorld: games of rooms, things and quests, generated on this machine (Côté et al. 2018, arXiv:1806.11532)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

from polypath.core.recipe_types import Range
from polypath.engines.aliases import cache_dir
from polypath.tasks.environments.protocol import Replayed, Turn
from polypath.tasks.environments.task import environment

STATUS = re.compile(r"^>.*$", re.MULTILINE)  # the prompt of the interpreter, with its status bar


@environment("textworld", paper="arXiv:1806.11532", needed={"package:textworld"})
class TextWorld(Replayed):
    """A TextWorld game of `rooms` rooms, `objects` things and a quest of `quest` steps; every seed is another game.

    Games are compiled once (some seconds) and kept in the cache of models. The whole quest gives the reward 1.
    """

    chat = True
    instructions = "You play a text game."

    def __init__(
        self,
        *,
        rooms: Annotated[int, Range(1, None)] = 3,
        objects: Annotated[int, Range(1, None)] = 5,
        quest: Annotated[int, Range(1, None)] = 3,
    ) -> None:
        super().__init__()
        self.rooms, self.objects, self.quest = rooms, objects, quest
        self._world: Any = None
        self._score, self._most = 0.0, 1.0

    def begin(self, seed: int) -> Turn:
        """Compile the game of a seed, where that was not done before, and start it."""
        import textworld

        self.close()
        wanted = textworld.EnvInfos(
            admissible_commands=True, won=True, lost=True, score=True, max_score=True, objective=True,
            description=True, policy_commands=True,
        )  # fmt: skip
        self._world = textworld.start(str(self._compiled(seed)), request_infos=wanted)
        state = self._world.reset()
        self._score, self._most = 0.0, float(state.max_score or 1)
        self._way = [str(action) for action in state.policy_commands]
        text = f"{state.objective.strip()}\n\n{_tidy(state.description)}"
        return Turn(text, actions=tuple(sorted(state.admissible_commands)))

    def act(self, action: str) -> Turn:
        """Play one command."""
        before = self._turn.actions or ()
        state, _, done = self._world.step(action)
        reward, self._score = (state.score - self._score) / self._most, float(state.score)
        done = bool(done or state.won or state.lost)
        actions = () if done else tuple(sorted(state.admissible_commands))
        return Turn(_tidy(state.feedback), reward, done, actions, bool(state.won) if done else None, action in before)

    def walkthrough(self, seed: int) -> list[str]:
        """The generator's own way to win."""
        self.reset(seed)
        return list(self._way)

    def close(self) -> None:
        """End the interpreter."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _compiled(self, seed: int) -> Path:
        import textworld

        facts = json.dumps([self.rooms, self.objects, self.quest, seed, textworld.__version__])
        name = hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()
        folder = cache_dir() / "textworld"
        game = folder / name / "game.z8"
        if not game.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            options = textworld.GameOptions()
            options.nb_rooms, options.nb_objects, options.quest_length = self.rooms, self.objects, self.quest
            options.seeds = seed
            with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as scratch:
                options.path = os.path.join(scratch, "made", "game.z8")
                textworld.make(options)
                try:
                    os.rename(os.path.join(scratch, "made"), folder / name)
                except OSError:  # another process was faster, or was interrupted
                    if not game.is_file():
                        shutil.rmtree(folder / name, ignore_errors=True)
                        os.rename(os.path.join(scratch, "made"), folder / name)
        return game


def _tidy(text: str) -> str:
    """A text without the interpreter's prompt and without runs of blank lines."""
    return re.sub(r"\n{2,}", "\n", STATUS.sub("", text)).strip()
