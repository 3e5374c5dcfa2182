"""Every name of the measures' vocabulary: whether a file's rows have it, what makes it of a group, how to give it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from polypath.diversity.features import ngram_sets
from polypath.diversity.features.steps import reasoning_steps
from polypath.diversity.kernels.vector import cosine_kernel
from polypath.evaluate.measure_sources import Group, Rows, Sources, matrix


class Input(NamedTuple):
    """Whether it can be had, what makes it of a group (None: undefined there), and how to give it."""

    there: Callable[[Rows, Sources], bool]
    make: Callable[[Group, str, Sources], Any]
    fix: str


def _rewards(members: Group, *_: Any) -> list[float] | None:
    values = [rollout.reward for rollout in members]
    return None if any(math.isnan(value) for value in values) else values


def _correct(members: Group, *_: Any) -> list[bool] | None:
    return None if any(r.correct is None for r in members) else [bool(r.correct) for r in members]


def _labels(members: Group, *_: Any) -> list[str | None]:
    return [r.canonical if r.canonical is not None else r.answer for r in members]


def _embeddings(members: Group, _: str, sources: Sources) -> np.ndarray:
    if sources.embed is not None:
        return np.asarray(sources.embed([r.text for r in members]))
    return matrix([r.extra["embedding"] for r in members], "embedding")


def _similarity(members: Group, group: str, sources: Sources) -> np.ndarray:
    if all("embeddings" in r.extra for r in members):
        return cosine_kernel(matrix([r.extra["embeddings"] for r in members], "embeddings")).matrix()
    return cosine_kernel(_embeddings(members, group, sources)).matrix()


def _steps(members: Group, _: str, sources: Sources) -> list[np.ndarray] | None:
    return [np.asarray(sources.embed(reasoning_steps(r.text))) for r in members] if sources.embed else None


def _gradients(members: Group, _: str, sources: Sources) -> np.ndarray | None:
    found = sources.gradients([r.prompt for r in members], [r.text for r in members]) if sources.gradients else None
    return None if found is None else np.asarray(getattr(found, "values", found))


def _reference(group: str, sources: Sources) -> Group:
    """The reference of a group: its own rows, or all where the reference is not by group."""
    rows = sources.reference or {}
    return rows.get("") or rows.get(group, ())


def _reference_embeddings(_: Group, group: str, sources: Sources) -> np.ndarray | None:
    rows = _reference(group, sources)
    return _embeddings(rows, group, sources) if rows else None


def _reference_gradients(_: Group, group: str, sources: Sources) -> np.ndarray | None:
    rows = _reference(group, sources)
    return _gradients(rows, group, sources) if rows else None


def _known(members: Group, _: str, sources: Sources) -> set[tuple[str, str]] | None:
    """The known solutions of the prompts of a group, each with its prompt."""
    prompts = {rollout.prompt_id for rollout in members}
    return {(prompt, form) for prompt in prompts for form in (sources.known or {}).get(prompt, ())} or None


def _solutions(members: Group, *rest: Any) -> list[tuple[str, str] | None]:
    """Labels with their prompts: the same form for another prompt is another solution."""
    labels = _labels(members, *rest)
    return [None if form is None else (r.prompt_id, form) for r, form in zip(members, labels, strict=True)]


def _known_features(_: Group, group: str, sources: Sources) -> set[Any] | None:
    rows = _reference(group, sources)
    return set().union(*ngram_sets([r.text for r in rows]).values) or None


def _approaches(members: Group, _: str, sources: Sources) -> list[Hashable] | None:
    """A judge's groups of the correct solutions; the others have none."""
    right = [i for i, rollout in enumerate(members) if rollout.correct]
    labels: list[Hashable] = [None] * len(members)
    if sources.approaches is None or len(right) < 2:
        return labels
    for i, label in zip(right, sources.approaches([members[i].text for i in right]), strict=True):
        labels[i] = label
    return labels


def _attributes(members: Group, _: str, sources: Sources) -> list[Mapping[str, Hashable]] | None:
    return list(sources.attributes([r.text for r in members])) if sources.attributes else None


def _outcomes(members: Group, *_: Any) -> list[list[float]] | None:
    """Who solved what: a row per voter (a model, or the n-th sample), a column per prompt that all voters answered."""
    found: dict[Hashable, dict[str, float]] = {}
    seen: dict[tuple[str, str], int] = {}
    for rollout in members:
        name = str(rollout.extra.get("model") or (rollout.source or {}).get("name") or "")
        place = seen[name, rollout.prompt_id] = seen.get((name, rollout.prompt_id), -1) + 1
        if rollout.correct is not None:
            found.setdefault((name, place), {})[rollout.prompt_id] = float(rollout.correct)
    if not found:
        return None
    shared = set.intersection(*(set(row) for row in found.values()))
    order = [p for p in dict.fromkeys(r.prompt_id for r in members) if p in shared]
    return [[row[prompt_id] for prompt_id in order] for row in found.values()]


def _embedded(rows: Rows, sources: Sources) -> bool:
    return sources.embed is not None or "embedding" in rows.columns


def _column(*_: Any) -> bool:
    return False


JUDGE = "--with judge=URL#MODEL"
INPUTS: dict[str, Input] = {
    "texts": Input(lambda *_: True, lambda members, *_: [r.text for r in members], ""),
    "prompts": Input(
        lambda rows, _: "prompts" in rows.facts,
        lambda members, *_: list(dict.fromkeys(r.prompt for r in members)),
        "Map a column to it: --column prompt=NAME.",
    ),
    "rewards": Input(
        lambda rows, _: "rewards" in rows.facts, _rewards, "Map a column to it: --column reward=NAME (or several)."
    ),
    "correct": Input(
        lambda rows, _: "correct" in rows.facts, _correct, "Map a column of verdicts to it: --column correct=NAME."
    ),
    "labels": Input(
        lambda rows, _: "labels" in rows.facts, _labels, "Map a column to it: --column canonical=NAME (or answer=NAME)."
    ),
    "solutions": Input(
        lambda rows, _: "labels" in rows.facts,
        _solutions,
        "Map a column to it: --column canonical=NAME (or answer=NAME).",
    ),
    "embeddings": Input(_embedded, _embeddings, "Choose a model: --embed minilm; or add a column 'embedding'."),
    "similarity": Input(
        _embedded, _similarity, "Choose a model: --embed minilm; or add a column 'similarity' or 'embedding'."
    ),
    "steps": Input(
        lambda _, sources: sources.embed is not None,
        _steps,
        "Choose a model: --embed minilm; or add a column 'steps' of embedded steps.",
    ),
    "gradients": Input(
        lambda _, sources: sources.gradients is not None,
        _gradients,
        "Choose a proxy model: --with proxy=smollm2; or add a column 'gradients'.",
    ),
    "reference": Input(
        lambda rows, sources: sources.reference is not None and _embedded(rows, sources),
        _reference_embeddings,
        "Name a file and a model: --with reference=FILE --embed minilm.",
    ),
    "reference gradients": Input(
        lambda _, sources: sources.reference is not None and sources.gradients is not None,
        _reference_gradients,
        "Name a file and a model: --with reference=FILE --with proxy=smollm2.",
    ),
    "known": Input(
        lambda _, sources: sources.known is not None, _known, "Name a file or a task: --known solutions.jsonl."
    ),
    "features": Input(lambda *_: True, lambda members, *_: ngram_sets([r.text for r in members]).values, ""),
    "known features": Input(
        lambda _, sources: sources.reference is not None,
        _known_features,
        "Name the anchor texts: --with reference=FILE (or add columns 'features' and 'known').",
    ),
    "approaches": Input(
        lambda _, sources: sources.approaches is not None,
        _approaches,
        f"Choose a judge: {JUDGE}; or add a column 'approaches'.",
    ),
    "attributes": Input(
        lambda _, sources: sources.attributes is not None,
        _attributes,
        f"Declare them and choose a judge: --with attribute.tone=calm,angry {JUDGE}; or add a column 'attributes'.",
    ),
    "outcomes": Input(
        lambda rows, _: {"correct", "several"} <= rows.facts,
        _outcomes,
        "Measure verdicts over prompts: --group-by all with a column 'correct'; or add a column 'outcomes'.",
    ),
    "ratings": Input(_column, lambda *_: None, "Add a column 'ratings': a list of ordinal answers per agent."),
    "probabilities": Input(
        _column, lambda *_: None, "Add a column 'probabilities': a list of a classifier's probabilities per row."
    ),
}
