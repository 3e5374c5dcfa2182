"""Labelled items, and which readout works on a model: measured on a handful of labels, never assumed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polypath.core.errors import UserError, did_you_mean
from polypath.decide.debias import binomial_upper
from polypath.decide.readout import PERMUTED, ask, reorder
from polypath.decide.types import MultiLabel, Question, YesNo
from polypath.decide.wire import parse_system_one

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy


@dataclass(frozen=True)
class Item:
    """A question about a state, and the index of its correct option; `group` names its contrast group, if it has one.

    The members of a contrast group differ in a detail that may turn the answer.
    """

    state: str
    question: Question
    correct: int
    group: str = ""


@dataclass(frozen=True)
class Probe:
    """Accuracy of one readout with a 95 % Clopper-Pearson interval, and the share of answers that reversing flips.

    `chance` is the better of guessing evenly and of always naming the most frequent label.
    """

    readout: str
    n: int
    accuracy: float
    low: float
    high: float
    chance: float
    flips: float

    @property
    def at_chance(self) -> bool:
        """Whether nothing shows that this readout reads: the interval reaches down to chance, or most answers flip."""
        return not self.low > self.chance or self.flips > 0.5

    def verdict(self) -> str:
        """One line for the user."""
        word = "readout is at chance" if self.at_chance else "better than chance"
        interval = f"{self.accuracy:.3f} [{self.low:.3f}, {self.high:.3f}], chance {self.chance:.3f}, n = {self.n}"
        return f"{self.readout}: {word}: {interval}, flips {self.flips:.2f}"


def probe_readout(
    policy: TransformersPolicy,
    items: Sequence[Item],
    *,
    readouts: Sequence[str] = ("label_tree", "letter", "yes_no"),
    length: str = "sum",
) -> list[Probe]:
    """Every readout on all items, in the given and in the reversed order of options, best accuracy first."""
    if not items:
        raise UserError("probe_readout", "there are no labelled items", "Give at least a dozen.")
    chance = chance_level(items)
    found = []
    for name in readouts:
        right, flipped, permuted = 0, 0, 0
        for item in items:
            count = len(item.question.options)
            back = list(range(count))[::-1]
            asked = {"given": item.question, "reversed": reorder(item.question, back)}
            answers = ask(policy, item.state, asked, readout=name, canonical=False, length=length)
            best = answers["given"].best
            right += best == item.correct
            if isinstance(item.question, PERMUTED):
                permuted += 1
                flipped += back[answers["reversed"].best] != best
        n = len(items)
        low, high = 1 - binomial_upper(n - right, n, 0.975), binomial_upper(right, n, 0.975)
        found.append(Probe(name, n, right / n, low, high, chance, flipped / permuted if permuted else 0.0))
    return sorted(found, key=lambda probe: -probe.accuracy)


def chance_level(items: Sequence[Item]) -> float:
    """The better of mean 1/K and the share of the most frequent correct label."""
    labels = Counter(item.question.options[item.correct].label for item in items)
    even = float(np.mean([1 / len(item.question.options) for item in items]))
    return max(even, max(labels.values()) / len(items))


def read_items(path: str | Path) -> list[Item]:
    """Items from JSON lines: System One requests with `labels` {question: correct label}, true or false for noul.

    A line may name its contrast group in `group_id`, which each of its questions then has apart.

    Raises UserError that names file and line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(str(path), f"cannot be read ({error})", "Name a file of JSON lines.") from error
    items: list[Item] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            items += items_of(line, f"{path}:{number}").values()
    if not items:
        raise UserError(str(path), "holds no labelled items", "Add labels: {question: label} to its lines.")
    return items


def items_of(line: str | bytes, where: str) -> dict[str, Item]:
    """The labelled items of one line, by question. Raises UserError."""
    try:
        body = json.loads(line)
        state, questions = parse_system_one(body)
    except json.JSONDecodeError as error:
        raise UserError(where, f"is no JSON ({error.msg})", "Give one object a line.") from error
    except UserError as error:
        raise UserError(f"{where} {error.where}", error.what, error.fix) from error
    labels = body.get("labels")
    if not isinstance(labels, dict):
        raise UserError(where, "has no object 'labels'", "Add labels: {question: label}.")
    group = body.get("group_id", "")
    if not isinstance(group, str | int) or isinstance(group, bool):
        raise UserError(f"{where} group_id", f"is a {type(group).__name__}", "Give a text or a number.")
    return {
        key: Item(
            state,
            *_labelled(questions, key, label, f"{where} labels.{key}"),
            "" if group == "" else f"{group}/{key}",
        )
        for key, label in labels.items()
    }


def _labelled(questions: dict[str, Question], key: str, label: Any, where: str) -> tuple[Question, int]:
    if key not in questions:
        raise UserError(where, "no such question", did_you_mean(key, questions))
    question = questions[key]
    if isinstance(question, MultiLabel):
        raise UserError(where, "several labels may hold", "Ask each as a yes/no question.")
    wanted: Any = label if isinstance(question, YesNo) else str(label)
    known = [o.value if isinstance(question, YesNo) else o.label for o in question.options]
    if wanted not in known or (isinstance(question, YesNo) and not isinstance(label, bool)):
        raise UserError(where, f"{label!r} is no option", did_you_mean(str(label), map(str, known)))
    return question, known.index(wanted)
