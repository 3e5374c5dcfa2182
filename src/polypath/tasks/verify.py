"""The boundary where verdicts are made: what a verifier raises is contained, counted, and shown once."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from polypath.core.errors import UserError
from polypath.tasks.protocol import Prompt, Score, Task


@dataclass
class Failures:
    """How many of `total` verdicts could not be made, and the first reason in full."""

    count: int = 0
    total: int = 0
    first: str = ""

    @property
    def share(self) -> float:
        """Failed verdicts of all, NaN before there is any."""
        return self.count / self.total if self.total else math.nan

    def add(self, reason: str) -> None:
        """Count one failure."""
        self.count += 1
        self.first = self.first or reason


def verify_all(
    task: Task, prompts: Sequence[Prompt], texts: Sequence[str], failures: Failures | None = None
) -> list[Score]:
    """One verdict for each (prompt, text).

    An empty text is wrong and not valid; the task is not asked. A verifier that raises, or that gives a reward which
    is not finite, makes the verdict undefined (reward NaN, wrong, not valid) and adds to `failures`, so that the
    caller can stop when their share grows. UserError, a mistake in the set-up, passes through. Raises ValueError when
    the lengths differ.
    """
    failures = failures if failures is not None else Failures()
    return [_verify(task, prompt, text, failures) for prompt, text in zip(prompts, texts, strict=True)]


def _verify(task: Task, prompt: Prompt, text: str, failures: Failures) -> Score:
    failures.total += 1
    if not text.strip():
        return Score(0.0, False, valid=False)
    try:
        score = task.verify(prompt, text)
        if math.isfinite(score.reward):
            return score
        failures.add(f"prompt {prompt.id}: the verifier gave the reward {score.reward}")
    except UserError:
        raise
    except Exception:  # noqa: BLE001 - the boundary to verifiers, which may be anybody's code
        failures.add(f"prompt {prompt.id}: the verifier raised\n{traceback.format_exc()}")
    return Score(math.nan, False, valid=False)
