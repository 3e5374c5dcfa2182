"""Files of labelled items with a system's answers: System One requests, `labels` and `answers`, one line an item.

Whatever answered can be evaluated and compared from such a file: a readout, a trained model, a server, a reasoner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from polypath.core.errors import UserError
from polypath.core.files import atomic_write, numbered_rows
from polypath.decide.probe import Item, items_of
from polypath.decide.requests import answer_of, label_of, probabilities_of, request_of
from polypath.decide.wire import emit_system_one
from polypath.evaluate.decisions import Told


def holds_answers(path: str | Path) -> bool:
    """Whether the first line of a file has `answers`. Raises UserError for a file that cannot be read."""
    return any("answers" in row for _, row, _ in islice(numbered_rows(Path(path)), 1))


def write_told(path: str | Path, told: Told, *, model: str) -> None:
    """One line an item: its request, label, contrast group and answer."""
    lines = []
    for item, p in told.pairs():
        answers = emit_system_one({"q": answer_of(item.question, p)}, model=model)["answers"]
        row = {
            "state": item.state,
            "questions": {"q": request_of(item.question)},
            "labels": {"q": label_of(item.question, item.correct)},
            **({"group_id": item.group} if item.group else {}),
            "answers": answers,
            "model": model,
        }
        lines.append(json.dumps(row, ensure_ascii=False))
    atomic_write(Path(path), "\n".join(lines) + "\n")


def read_told(path: str | Path) -> Told:
    """The inverse of `write_told`. Raises UserError that names file and line."""
    items: list[Item] = []
    found: list[np.ndarray] = []
    for number, row, line in numbered_rows(Path(path)):
        where = f"{path}:{number}"
        answers = row.get("answers")
        if not isinstance(answers, Mapping):
            raise UserError(where, "has no object 'answers'", "Add answers: {question: System One answer}.")
        for key, item in items_of(line, where).items():
            if key not in answers:
                raise UserError(f"{where} answers", f"has none for '{key}'", "Give one for each label.")
            p = probabilities_of(item.question, answers[key], f"{where} answers.{key}")
            if not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1) > 1e-3:
                what = f"the probabilities {p.round(6).tolist()} are no distribution"
                raise UserError(f"{where} answers.{key}", what, "They must be finite, at least 0, and sum to 1.")
            items.append(item)
            found.append(p)
    if not items:
        raise UserError(str(path), "holds no answered items", "Write one with: polypath decide eval ITEMS --save FILE.")
    return Told(items, found)
