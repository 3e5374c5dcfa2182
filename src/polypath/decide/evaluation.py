"""A readout and the TF-IDF baseline on the same labelled items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polypath.decide.baseline import baseline_probabilities
from polypath.decide.metrics import evaluate_decisions
from polypath.decide.probe import Item
from polypath.decide.readout import ask
from polypath.decide.types import Question

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy


def compare_with_baseline(
    policy: TransformersPolicy, items: Sequence[Item], *, readout: str, length: str, seed: int
) -> dict[str, dict[str, float]]:
    """Figures (`evaluate_decisions`) of the model and of the baseline, which is fitted per question, out of fold."""
    by_state: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        by_state.setdefault(item.state, []).append(i)
    told: list[np.ndarray] = [np.empty(0)] * len(items)
    for state, members in by_state.items():  # all questions about one state in one forward
        answers = ask(policy, state, {str(i): items[i].question for i in members}, readout=readout, length=length)
        for i in members:
            told[i] = answers[str(i)].probabilities
    by_question: dict[Question, list[int]] = {}
    for i, item in enumerate(items):
        by_question.setdefault(item.question, []).append(i)
    guessed: list[np.ndarray] = [np.empty(0)] * len(items)
    for question, members in by_question.items():
        states, labels = [items[i].state for i in members], [items[i].correct for i in members]
        count = len(question.options)
        if len(set(states)) < 2:  # nothing to learn from
            rows = np.full((len(members), count), 1 / count)
        else:
            rows = baseline_probabilities(states, labels, classes=count, seed=seed)
        for i, row in zip(members, rows, strict=True):
            guessed[i] = row
    correct = [item.correct for item in items]
    return {
        "model": evaluate_decisions(told, correct, seed=seed),
        "baseline": evaluate_decisions(guessed, correct, seed=seed),
    }
