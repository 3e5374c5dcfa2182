"""One episode: what the policy is shown, what it answers, what that earns, and how all of it is kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from polypath.tasks.environments.process import EnvironmentDied
from polypath.tasks.environments.protocol import Environment, Turn, listed
from polypath.tasks.protocol import Score

Invalid = Literal["try", "tell", "end"]
PREFIXES = ("action:", ">", "-", "*")  # what models like to write before an action


@dataclass(frozen=True)
class Rules:
    """How answers become actions, and what the policy is shown of the environment.

    `show` bounds the admissible actions that are listed. An answer that is not among them is handed to the simulator
    all the same (`try`), answered with a sentence (`tell`), or ends the episode (`end`); `penalty` is what it costs.
    """

    turns: int
    show: int
    invalid: Invalid
    penalty: float
    chat: bool

    def text(self, turn: Turn) -> str:
        """What the policy reads of a turn."""
        words = turn.observation.strip()
        if self.chat and self.show and turn.actions and not turn.done:
            words += f"\nPossible actions: {listed(turn.actions, self.show)}"
        return words


def action_of(text: str, actions: Sequence[str] | None = None) -> str:
    """The action that an answer names: its first line, without a mark before or a stop after it.

    An admissible action that it differs from only in case or blanks is what is meant.

    >>> action_of("Action: Go East.", ["go east"])
    'go east'
    """
    line = next((line for line in text.strip().splitlines() if line.strip()), "").strip()
    for prefix in PREFIXES:
        if line.casefold().startswith(prefix) and line.casefold() not in (actions or ()):
            line = line[len(prefix) :].strip()
    line = " ".join(line.split())
    bare = line.strip("`\"'").rstrip(".").strip()
    meant = {action.casefold(): action for action in actions or ()}
    return meant.get(line.casefold()) or meant.get(bare.casefold()) or bare


@dataclass
class Episode:
    """A game that is being played by text. `shown` is what the policy reads next.

    After `over`, `score` holds the verdict: the sum of the rewards, whether the goal was reached, and the actions as
    the canonical form of a success. A simulator that died leaves `error` and no verdict.
    """

    environment: Environment
    rules: Rules
    seed: int
    release: Callable[[Environment], None]
    steps: list[dict[str, Any]] = field(default_factory=list)
    over: bool = False
    cut: bool = False  # the turns ran out before the game ended
    error: str = ""
    success: bool | None = None
    turn: Turn = field(default_factory=lambda: Turn(""))

    def start(self, actions: Sequence[str] = ()) -> Episode:
        """Reset to the seed and play `actions` again; they count as turns."""
        self._guard(lambda: self.environment.reset(self.seed))
        for action in actions:
            if not self.over:
                self.play(action)
        return self

    @property
    def shown(self) -> str:
        """What the policy reads before its next answer."""
        return self.rules.text(self.turn)

    def play(self, text: str) -> None:
        """One answer of the policy."""
        before, action = self.turn, action_of(text, self.turn.actions)
        state = state_of(before)
        known = before.actions is None or action in before.actions
        if known or self.rules.invalid == "try":
            self._guard(lambda: self.environment.step(action))
            valid = self.turn.valid
        else:
            self.turn = Turn(f"'{action}' is not possible here.", actions=before.actions, valid=False)
            valid = False
            self.over = self.rules.invalid == "end"
        reward = self.turn.reward - (0.0 if valid else self.rules.penalty)
        self.steps.append({"state": state, "action": action, "valid": valid, "reward": reward})
        self.cut = not self.over and len(self.steps) >= self.rules.turns
        self.over = self.over or self.cut

    def score(self) -> Score:
        """The verdict of what was played so far; undefined when the simulator died."""
        if self.error:
            return Score(math.nan, False, valid=False)
        total = math.fsum(step["reward"] for step in self.steps)
        done = [step["action"] for step in self.steps if step["valid"]]
        success = bool(self.success) if self.success is not None else False
        return Score(total, success, answer=done[-1] if done else None, valid=bool(done),
                     canonical=" / ".join(done) if success else None)  # fmt: skip

    def snapshot(self) -> str:
        """The seed and the actions as text, from which the episode can be played again."""
        return json.dumps({"seed": self.seed, "actions": [step["action"] for step in self.steps]})

    def close(self) -> None:
        """Give the environment back."""
        self.release(self.environment)

    def _guard(self, call: Callable[[], Turn]) -> None:
        try:
            self.turn = call()
        except EnvironmentDied as error:
            self.error, self.over = f"{error} (seed {self.seed})", True
            self.turn = Turn("", done=True)
            return
        self.over = self.turn.done
        self.success = self.turn.success if self.turn.success is not None else self.success


def state_of(turn: Turn) -> str:
    """A short name of what the policy sees, equal for equal sights: what step-level credit compares by."""
    text = "\x1f".join([turn.observation.strip(), *(turn.actions or ())])
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
