"""From TRL's rows to the fields of groups, and from credit back to one tensor of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polypath.tasks.protocol import Prompt, Task
from polypath.tasks.verify import verify_all

Canonical = Callable[[Sequence[str], Mapping[str, Any]], Sequence[Any]]


def group_fields(
    texts: Sequence[str], ids: Sequence[Sequence[int]], row: Mapping[str, Any], canonical: Canonical | Task | None
) -> dict[str, Any]:
    """What one group holds before its rewards: texts, prompt, lengths in tokens, and what `canonical` says of them.

    The prompt is named by the row's `id`, or by itself. A task verifies every text against the prompt of the row's
    columns `prompt`, `id` and `data` (the last two may be missing).
    """
    name = str(row.get("id") or text_of(row["prompt"]))
    found: dict[str, Any] = {
        "texts": list(texts),
        "prompts": [name] * len(texts),
        "lengths": [len(each) for each in ids],
    }
    if isinstance(canonical, Task):
        prompt = Prompt(str(row.get("id") or ""), text_of(row["prompt"]), dict(row.get("data") or {}))
        verdicts = verify_all(canonical, [prompt] * len(texts), texts)
        found["labels"] = [verdict.canonical for verdict in verdicts]
        found["answers"] = [verdict.answer for verdict in verdicts]
        found["correct"] = [verdict.correct for verdict in verdicts]
    elif canonical is not None:
        found["labels"] = list(canonical(texts, row))
    return found


def total_rewards(rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sum over the reward functions that apply (not NaN), NaN where none does. (N, F), (F,) -> (N,).

    >>> total_rewards(np.array([[1.0, 2.0], [np.nan, 2.0], [np.nan, np.nan]]), np.array([1.0, 0.5])).tolist()
    [2.0, 1.0, nan]
    """
    return np.where(np.isnan(rewards).all(1), np.nan, np.nansum(rewards * weights, axis=1))


def stack_advantages(advantages: Sequence[np.ndarray]) -> np.ndarray:
    """(N,), or (N, T) when a group has an advantage per token; a group without any credit there has plain zeros."""
    width = max((part.shape[1] for part in advantages if part.ndim == 2), default=None)
    if width is None:
        return np.concatenate(advantages)
    return np.concatenate([p if p.ndim == 2 else np.repeat(p[:, None], width, axis=1) for p in advantages])


def text_of(content: Any) -> str:
    """Plain text of a prompt or completion: a string, or the last message of a conversation.

    >>> text_of([{"role": "user", "content": "Name a colour."}, {"role": "assistant", "content": "red"}])
    'red'
    """
    if isinstance(content, str):
        return content
    said = content[-1].get("content") or ""
    return said if isinstance(said, str) else "".join(part.get("text", "") for part in said)
