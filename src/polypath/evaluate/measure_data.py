"""The data that measures name, from the rows of a file: columns, and what follows from texts and a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from polypath.core.errors import UserError, UserErrors
from polypath.core.record import Rollout
from polypath.diversity.features.steps import reasoning_steps
from polypath.diversity.kernels.vector import cosine_kernel

Group = Sequence[Rollout]
Embed = Callable[[Sequence[str]], Any]  # texts -> (n, d)
Sketch = Callable[[Sequence[str], Sequence[str]], Any]  # prompts, texts -> (n, d)
WHOLE = ("reference", "known")  # one value for the whole group
FIXES = {
    "correct": "Add a boolean column 'correct', or map one to it.",
    "labels": "Add a column 'canonical' or 'answer', or map one to it.",
    "embeddings": "Add a column 'embedding', or choose an embedding model.",
    "similarity": "Add a column 'similarity' or 'embedding', or choose an embedding model.",
    "steps": "Add a column 'steps' of embedded steps, or choose an embedding model.",
    "gradients": "Add a column 'gradients', or choose a proxy model.",
    "rewards": "Add a column 'rewards', or map one to it.",
}


def check_data(
    needed: Mapping[str, Collection[str]], rollouts: Group, embed: Embed | None, gradients: Sketch | None
) -> None:
    """Every measure must find its data; `needed` names it by measure. Raises UserErrors with how to give it."""
    columns = {name for name in rollouts[0].extra if all(name in rollout.extra for rollout in rollouts)}
    embedded = embed is not None or "embedding" in columns
    has = {
        "texts": True,
        "rewards": any(not math.isnan(r.reward) for r in rollouts),
        "correct": all(r.correct is not None for r in rollouts),
        "labels": any(r.canonical is not None or r.answer is not None for r in rollouts),
        "embeddings": embedded,
        "similarity": embedded or "similarity" in columns,
        "steps": embed is not None or "steps" in columns,
        "gradients": gradients is not None or "gradients" in columns,
    }
    errors = [
        UserError(
            f"-m {measure}",
            f"needs {name}, which the rows do not have",
            FIXES.get(name, f"Add a column '{name}' to the rows."),
        )
        for measure, names in needed.items()
        for name in names
        if not has.get(name, name in columns)
    ]
    if errors:
        raise errors[0] if len(errors) == 1 else UserErrors(errors)


def group_data(
    members: Group, needed: Collection[str], embed: Embed | None = None, gradients: Sketch | None = None
) -> dict[str, Any]:
    """What is `needed` of one group, by name.

    A column of that name comes first. Without one, `similarity` is the cosine of the embeddings, `steps` are the
    embedded reasoning steps of each text, and `gradients` are made by the proxy.
    """
    texts = [rollout.text for rollout in members]
    data: dict[str, Any] = {
        "texts": texts,
        "rewards": [rollout.reward for rollout in members],
        "correct": [bool(rollout.correct) for rollout in members],
        "labels": [rollout.canonical if rollout.canonical is not None else rollout.answer for rollout in members],
    }
    for name in set(members[0].extra) - set(data):
        if all(name in rollout.extra for rollout in members):
            data[name] = [rollout.extra[name] for rollout in members]
    for name in WHOLE:
        if name in data:
            data[name] = set(data[name][0]) if name == "known" else data[name][0]
    if "embeddings" in needed or ("similarity" in needed and "similarity" not in data):
        data["embeddings"] = np.asarray(embed(texts) if embed else [r.extra["embedding"] for r in members])
    if "similarity" in needed and "similarity" not in data:
        data["similarity"] = cosine_kernel(data["embeddings"]).matrix()
    if "steps" in needed and "steps" not in data and embed is not None:
        data["steps"] = [np.asarray(embed(reasoning_steps(text))) for text in texts]
    if "gradients" in needed and "gradients" not in data and gradients is not None:
        data["gradients"] = np.asarray(gradients([rollout.prompt for rollout in members], texts))
    return data
