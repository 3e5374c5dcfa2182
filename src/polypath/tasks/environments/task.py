"""From an environment to a task: its games as prompts, its episodes as answers, its simulators in processes."""

from __future__ import annotations

import atexit
import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar, overload

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.core.seeds import rng
from polypath.tasks.environments import needs
from polypath.tasks.environments.episode import Episode, Invalid, Rules
from polypath.tasks.environments.process import EnvironmentDied, ProcessEnvironment
from polypath.tasks.environments.protocol import Environment, Turn
from polypath.tasks.protocol import Prompt, Score
from polypath.tasks.splits import check_split, content_id

C = TypeVar("C", bound=type)
PLAN_REQUEST = "{prompt}\n\nBefore acting, write one short strategy. Do not act yet."
PLAN_SHOWN = "{prompt}\n\nStrategy: {context}"
OPENINGS = 3  # attempts at opening a game
ASK = "Answer with one action and nothing else."


class EnvironmentTask:
    """Games of an environment, played in at most `turns` turns (see `polypath.tasks.environments.episode.Rules`).

    A prompt is the opening of one game; `games` bounds how many of a split are used. A whole answer is an episode: the
    policy's words and the environment's, of which only the first are trained. At most `workers` simulators live at a
    time, each in its own process when `isolate` (the default for all that are not pure Python).
    """

    def __init__(
        self,
        name: str,
        knobs: dict[str, Any],
        *,
        turns: Annotated[int, Range(1, None)] = 10,
        action_tokens: Annotated[int, Range(1, None)] = 16,
        show: Annotated[int, Range(0, None)] = 12,
        invalid: Invalid = "try",
        penalty: Annotated[float, Range(0.0, None)] = 0.0,
        games: Annotated[int, Range(1, None)] = 64,
        workers: Annotated[int, Range(1, None)] = 4,
        timeout: Annotated[float, Range(0.1, None)] = 60.0,
        isolate: bool | None = None,
        chat: bool | None = None,
        instructions: str | None = None,
    ) -> None:
        """Nothing starts before the first prompt. Raises UserError for bad knobs and a missing simulator."""
        entry = registry.entry("environment", name)
        bounds = {"turns": turns, "action_tokens": action_tokens, "games": games, "workers": workers}
        for knob, value in bounds.items():
            if value < 1:
                raise UserError(f"task {name}.{knob}", f"is {value}", "It must be at least 1.")
        needs.check(name, entry.traits)
        kind: Any = registry.get("environment", name)
        about = kind(**knobs)  # its mistakes are told now; a constructor starts nothing
        self.name, self.knobs = name, knobs
        self.chat = bool(about.chat) if chat is None else chat
        self.isolate = any(trait.startswith(needs.PACKAGE) for trait in entry.traits) if isolate is None else isolate
        self.turns, self.action_tokens, self.games = turns, action_tokens, games
        self.width = workers if self.isolate else 1_000_000  # episodes at a time
        self.timeout = timeout
        self.rules = Rules(turns, show, invalid, penalty, self.chat)
        self.instructions = str(about.instructions) if instructions is None else instructions
        self.plan_request = str(getattr(about, "plan_request", PLAN_REQUEST))  # how an expert's plan is asked for
        self.plan_shown = str(getattr(about, "plan_shown", PLAN_SHOWN))  # and shown to those who follow it
        self._id = json.dumps([name, knobs, self.chat, show, self.instructions], sort_keys=True)
        self._idle: list[Environment] = []
        self._openings: dict[int, Prompt] = {}
        atexit.register(self.close)

    def prompts(self, split: str, *, n: int, seed: int = 0) -> Sequence[Prompt]:
        """At most `n` games of a split in an order given by `seed`; a game is opened when its prompt is read.

        Raises UserError for an unknown split, for n < 1 and when the split has no game.
        """
        check_split(f"task {self.name}", split)
        if n < 1:
            raise UserError(f"task {self.name}", f"{n} prompts were asked for", "Ask for at least 1.")
        environment = self._take()
        seeds = environment.games(split, self.games)
        self._give(environment)
        if not seeds:
            raise UserError(f"task {self.name}", f"the split '{split}' has no games", "Take another split.")
        rng(seed, "prompts", split).shuffle(seeds)
        return Games(self, seeds[:n])

    def opening(self, seed: int) -> Prompt:
        """The prompt of one game: what the policy is told, and what it sees first.

        A simulator that dies here is started again; raises UserError when it dies every time.
        """
        if seed not in self._openings:
            shown = self.rules.text(self._open(seed))
            text = f"{self.instructions}\n\n{shown}\n\n{ASK}" if self.chat and self.instructions else shown
            self._openings[seed] = Prompt(content_id(self._id, str(seed)), text, {"seed": seed})
        return self._openings[seed]

    def episode(self, prompt: Prompt, actions: Sequence[str] = ()) -> Episode:
        """Play a prompt's game from its start, or from where `actions` lead. Close it to let others use its process."""
        return Episode(self._take(), self.rules, int(prompt.data["seed"]), self._give).start(actions)

    def verify(self, prompt: Prompt, text: str) -> Score:
        """Play the lines of a text as actions from the start. Raises EnvironmentDied."""
        episode = self.episode(prompt)
        for line in text.strip().splitlines():
            if not episode.over:
                episode.play(line)
        episode.close()
        if episode.error:
            raise RuntimeError(episode.error)
        return episode.score()

    def close(self) -> None:
        """End every idle simulator."""
        while self._idle:
            self._idle.pop().close()

    def expert(self, prompt: Prompt, seed: int) -> list[tuple[str, list[str]]]:
        """Episodes to imitate, as (plan, actions); a plan of "" is none. Raises UserError where there is no expert."""
        kind: Any = registry.get("environment", self.name)
        if not hasattr(kind, "expert"):
            raise UserError(f"task {self.name}", "has no expert to imitate", "Use a task that has demonstrations.")
        found: list[tuple[str, list[str]]] = kind(**self.knobs).expert(int(prompt.data["seed"]), seed)
        return found

    def vocabulary(self) -> list[str]:
        """Every word of a game written in a closed vocabulary. Raises UserError for one that is not."""
        kind: Any = registry.get("environment", self.name)
        if self.chat or not hasattr(kind, "vocabulary"):
            raise UserError("model", f"task '{self.name}' has no word-level vocabulary", "Name a model: {name: ...}")
        words: list[str] = kind(**self.knobs).vocabulary()
        return words

    def _open(self, seed: int) -> Turn:
        """The first turn of a game. A run has no group yet that could go on without it, so a death is tried again."""
        died = ""
        for _ in range(OPENINGS):
            environment = self._take()
            try:
                return environment.reset(seed)
            except EnvironmentDied as error:
                died = str(error)
            finally:
                self._give(environment)
        what = f"the game of seed {seed} cannot be opened ({died})"
        raise UserError(f"task {self.name}", what, "Try the simulator alone, beginning with polypath doctor.")

    def _take(self) -> Environment:
        if self._idle:
            return self._idle.pop()
        if self.isolate:
            return ProcessEnvironment(self.name, self.knobs, timeout=self.timeout)
        environment: Environment = registry.get("environment", self.name)(**self.knobs)
        return environment

    def _give(self, environment: Environment) -> None:
        self._idle.append(environment)


class Games(Sequence[Prompt]):
    """Prompts that are made when they are read: opening a game may take its simulator seconds."""

    def __init__(self, task: EnvironmentTask, seeds: Sequence[int]) -> None:
        self._task, self._seeds = task, list(seeds)

    def __len__(self) -> int:
        return len(self._seeds)

    @overload
    def __getitem__(self, place: int) -> Prompt: ...
    @overload
    def __getitem__(self, place: slice) -> Games: ...
    def __getitem__(self, place: int | slice) -> Prompt | Games:
        if isinstance(place, slice):
            return Games(self._task, self._seeds[place])
        return self._task.opening(self._seeds[place])


def environment(name: str, *, paper: str = "", needed: Iterable[str] = ()) -> Callable[[C], C]:
    """Register a class as the environment `name`, and its games as the task of the same name.

    `needed` lists what must be installed: "package:NAME" for an importable module, "program:NAME" for a command. The
    class has `chat` (whether its texts go through a chat template) and `instructions` (what the policy is told first).
    """

    def add(kind: C) -> C:
        register("environment", name, paper=paper, traits=needed)(kind)
        kind.task = staticmethod(register("task", name, paper=paper)(_factory(name, kind)))  # type: ignore[attr-defined]
        return kind

    return add


def _factory(name: str, kind: type) -> Callable[..., EnvironmentTask]:
    """A function that makes the task, with the knobs of both for its signature."""
    own = _knobs(EnvironmentTask)
    theirs = _knobs(kind)
    both = sorted({p.name for p in own} & {p.name for p in theirs})
    if both:
        raise ValueError(f"environment {name}: the knobs {both} are those of every environment")
    common = {parameter.name for parameter in own}

    def make(**knobs: Any) -> EnvironmentTask:
        mine = {knob: value for knob, value in knobs.items() if knob in common}
        return EnvironmentTask(name, _without(knobs, common), **mine)

    make.__doc__, make.__module__, make.__qualname__ = kind.__doc__, kind.__module__, f"{kind.__qualname__}.task"
    make.__signature__ = inspect.Signature([*theirs, *own])  # type: ignore[attr-defined]
    return make


def _without(knobs: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {knob: value for knob, value in knobs.items() if knob not in names}


def _knobs(kind: type) -> list[inspect.Parameter]:
    parameters = inspect.signature(kind).parameters.values()
    return [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
