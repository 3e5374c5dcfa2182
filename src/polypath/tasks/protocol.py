"""What a task is: prompts, a verifier, and a definition of when two correct solutions are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from polypath.core.errors import UserError

PAD, EOS = "<pad>", "<eos>"  # the first two words of every closed vocabulary


@dataclass(frozen=True)
class Prompt:
    """One problem. `id` is stable over runs and machines (a hash of the content); `data` is the task's own."""

    id: str
    text: str
    data: dict[str, Any] = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True)
class Score:
    """A verdict. `canonical` identifies the solution: equal forms are the same solution (None when not valid)."""

    reward: float
    correct: bool
    answer: str | None = None
    valid: bool = True
    canonical: str | None = None


@runtime_checkable
class Task(Protocol):
    """A verifiable task. Registered as `@register("task", name)` on a class whose knobs are keyword-only."""

    name: str
    chat: bool  # whether prompts go through the model's chat template

    def prompts(self, split: str, *, n: int, seed: int = 0) -> Sequence[Prompt]:
        """`n` prompts of `split` ("train", "dev", "test"; disjoint by hash). Raises UserError when there are none."""
        ...

    def verify(self, prompt: Prompt, text: str) -> Score:
        """Judge one completion. Deterministic; a text that cannot be parsed is wrong, never an exception."""
        ...


@dataclass
class Unverified:
    """Prompts of one's own, without a verdict: they can be sampled from, and not trained on."""

    texts: Sequence[str]
    name: str = "prompts"
    chat: bool = True

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """The first `n` texts, whatever the split."""
        return [Prompt(hashlib.sha256(text.encode()).hexdigest()[:16], text) for text in self.texts[:n]]

    def verify(self, prompt: Prompt, text: str) -> Score:
        """Raises UserError: there is nothing to judge by."""
        raise UserError("task", "these prompts have no verifier", "Name a task.")


@runtime_checkable
class Enumerable(Task, Protocol):
    """A task whose solution set is known, so that coverage is exact and demonstrations exist."""

    def solutions(self, prompt: Prompt) -> frozenset[str]:
        """All canonical solutions of the prompt."""
        ...

    def demonstrations(self, prompt: Prompt) -> Sequence[str]:
        """All surface texts of correct solutions, for supervised training."""
        ...


class Episode(Protocol):
    """One game that is being played by text (see `polypath.tasks.environments.episode`)."""

    steps: list[dict[str, Any]]  # {state, action, valid, reward} of every turn
    over: bool
    cut: bool  # the turns ran out before the game ended
    error: str

    @property
    def shown(self) -> str:
        """What the policy reads before its next answer."""
        ...

    def play(self, text: str) -> None:
        """One answer of the policy."""
        ...

    def score(self) -> Score:
        """The verdict of what was played so far."""
        ...

    def snapshot(self) -> str:
        """From what the episode can be played again."""
        ...

    def close(self) -> None:
        """Let go of the simulator."""
        ...


@runtime_checkable
class Interactive(Task, Protocol):
    """A task whose whole answer is an episode of several turns with an environment."""

    turns: int
    action_tokens: int  # of one answer
    width: int  # episodes that may be played at a time

    def episode(self, prompt: Prompt, actions: Sequence[str] = ()) -> Episode:
        """Play the prompt's game from its start, or from where the actions lead."""
        ...


class Closed(Enumerable, Protocol):
    """A task written in a small closed vocabulary, so that a model of our own can be trained from scratch."""

    def vocabulary(self) -> list[str]:
        """All words, PAD and EOS first; prompts and answers are these words separated by blanks."""
        ...
