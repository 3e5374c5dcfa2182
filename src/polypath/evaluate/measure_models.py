"""The models, judges and files that `measure` takes beside the rows, from how a user names them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polypath.core.document import parse_value
from polypath.core.errors import UserError, did_you_mean
from polypath.core.progress import Progress
from polypath.core.readers import read_rows
from polypath.core.record import Rollout
from polypath.core.stages import parse_stage
from polypath.evaluate.measure_sources import Embed, Known, Sketch, parsed

SPLITS = ("train", "dev", "test")
MANY = 1_000_000  # prompts of a split that are looked through for those of the rows
CHUNK = 128  # texts between two lines of progress
SAME = "Do these two solutions take the same approach?"
SOLUTIONS = ("solutions", "known", "canonical", "answer")  # columns of a file of known solutions, the likeliest first


def embedder(name: str) -> Embed:
    """An encoder: "hash" (words, no model), "openai:URL#MODEL", or an alias, directory or hub id."""
    if name == "hash":
        from polypath.evaluate.selection import hashed

        return hashed
    if name.startswith("openai:"):
        from polypath.engines.embed_endpoint import EndpointEmbedder

        return EndpointEmbedder.of(name.removeprefix("openai:"))
    from polypath.engines.embed import Embedder

    return Embedder.load(name)


def proxy(name: str) -> Sketch:
    """Gradient sketches of a small language model."""
    from polypath.engines.gradients import gradient_sketches
    from polypath.engines.transformers import TransformersPolicy

    return partial(gradient_sketches, TransformersPolicy.load(name))


def embed_once(embed: Embed, texts: Iterable[str], *, show: bool = True) -> Embed:
    """An encoder that has seen each distinct text once, with progress and the time that is left on stderr.

    Other texts are embedded when they are asked for.
    """
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    distinct = list(place)
    parts = []
    with Progress(len(distinct), "embed", enabled=show and len(distinct) > CHUNK) as progress:
        for start in range(0, len(distinct), CHUNK):
            parts.append(np.asarray(embed(distinct[start : start + CHUNK])))
            progress.update(len(parts[-1]))
    rows = np.concatenate(parts) if parts else np.zeros((0, 0))

    def lookup(asked: Sequence[str]) -> Any:
        where = [place.get(text, -1) for text in asked]
        return rows[where] if where and min(where) >= 0 else np.asarray(embed(list(asked)))

    return lookup


def judges(
    name: str, values: Mapping[str, Sequence[str]]
) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
    """What labels approaches, and what reads the declared attributes: a judge at "URL#MODEL", or a decision model."""
    if not name:
        return None, None
    if name.startswith(("http://", "https://")):
        from polypath.engines.judgements import approaches_by, attributes_by, judge_at

        judge = judge_at(name)
        return approaches_by(judge), attributes_by(judge, values) if values else None
    return _decisions(name, values)


def _decisions(name: str, values: Mapping[str, Sequence[str]]) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    from polypath.decide.readout import ask
    from polypath.decide.types import Choice, YesNo, options
    from polypath.diversity.features.judged import judged_attributes
    from polypath.engines.transformers import TransformersPolicy

    policy = TransformersPolicy.load(name)

    def same(a: str, b: str) -> bool:
        answer = ask(policy, f"Solution 1:\n{a}\n\nSolution 2:\n{b}", {"same": YesNo(SAME)})["same"]
        return bool(answer.question.options[answer.best].value is True)

    def grouped(texts: Sequence[str]) -> list[int]:
        """Each joins the first group whose first member takes the same approach."""
        leaders: list[str] = []
        labels = []
        for text in texts:
            label = next((i for i, leader in enumerate(leaders) if text == leader or same(leader, text)), len(leaders))
            if label == len(leaders):
                leaders.append(text)
            labels.append(label)
        return labels

    def read(texts: Sequence[str]) -> list[Mapping[str, Hashable]]:
        def one(text: str, attribute: str, allowed: Sequence[str]) -> str:
            question = Choice(options(list(allowed), f"attribute {attribute}"), f"What is its {attribute}?")
            answer = ask(policy, text, {attribute: question})[attribute]
            return str(answer.question.options[answer.best].label)

        return list(judged_attributes(texts, one, values).values)

    return grouped, read if values else None


def known_solutions(name: str, rollouts: Sequence[Rollout]) -> Known:
    """The known solutions of the prompts of the rows, from a file or from a task that knows all of its solutions.

    A file has a row per prompt or per solution: `prompt_id` or `prompt` beside `solutions` (a list), `canonical` or
    `answer`. A task is a name, or {name: {knob: value}}. Raises UserError when no prompt of the rows is in it.
    """
    found = _solutions_of_file(Path(name)) if Path(name).exists() else _solutions_of_task(name, rollouts)
    if not any(rollout.prompt_id in found for rollout in rollouts):
        what = f"knows none of the prompts of the rows (the first is {rollouts[0].prompt_id})"
        raise UserError(f"--known {name}", what, "Prompts are matched by prompt_id, or by a hash of the prompt.")
    return found


def _solutions_of_file(path: Path) -> Known:
    found: dict[str, set[str]] = {}
    for where, row in read_rows(path):
        column = next((column for column in SOLUTIONS if row.get(column) is not None), None)
        prompt_id = row.get("prompt_id")
        if prompt_id in (None, "") and row.get("prompt") not in (None, ""):
            prompt_id = hashlib.sha256(str(row["prompt"]).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        if column is None or prompt_id in (None, ""):
            fix = f"Give prompt_id or prompt, and one of {', '.join(SOLUTIONS)}."
            raise UserError(where, "does not say which solutions of which prompt are known", fix)
        cell = parsed(row[column])
        found.setdefault(str(prompt_id), set()).update(map(str, cell) if isinstance(cell, list) else [str(cell)])
    return found


def _solutions_of_task(name: str, rollouts: Sequence[Rollout]) -> Known:
    from polypath.core import registry
    from polypath.tasks.protocol import Enumerable

    node = parse_value(name, "--known")
    stage = node if isinstance(node, dict) else str(node)
    first = next(iter(stage)) if isinstance(stage, dict) else stage
    if first not in {entry.name for entry in registry.entries("task")}:
        raise UserError(f"--known {name}", "is neither a file nor a task", _suggest(str(first)))
    task = parse_stage({"task": stage}, "--known", ("task",)).bind()()
    if not isinstance(task, Enumerable):
        raise UserError(f"--known {name}", "is a task whose solutions are not all known", "Give a file of solutions.")
    wanted, found = {rollout.prompt_id for rollout in rollouts}, {}
    for split in SPLITS:
        for prompt in _prompts(task, split):
            if prompt.id in wanted:
                found[prompt.id] = task.solutions(prompt)
    return found


def _prompts(task: Any, split: str) -> Sequence[Any]:
    """All prompts of a split; some tasks give at most as many as they have, others refuse more."""
    try:
        return list(task.prompts(split, n=MANY))
    except UserError:
        return []


def _suggest(name: str) -> str:
    from polypath.core import registry

    return did_you_mean(name, [entry.name for entry in registry.entries("task")])
