"""Questions and labels as System One JSON: the inverse of `wire.parse_system_one`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polypath.core.errors import UserError
from polypath.decide.answers import Answer
from polypath.decide.types import Pair, Question, Score, YesNo

KINDS = {"YesNo": "noul", "Choice": "choice", "Score": "score", "MultiLabel": "multilabel", "Rank": "rank"}


def request_of(question: Question) -> dict[str, Any]:
    """A question as a System One object. Raises UserError where two options have one label there.

    >>> from polypath.decide.types import Choice, options
    >>> request_of(Choice(options({"bug": "it breaks", "idea": None}), "What is it?"))["criteria"]
    {'bug': 'it breaks', 'idea': None}
    """
    shared = {"instructions": question.instructions or None}
    if isinstance(question, Pair):
        return {"type": "pair", **shared, "criteria": {"first": question.first, "second": question.second}}
    if isinstance(question, YesNo):
        sides = {name: text for name, text in (("true", question.yes), ("false", question.no)) if text}
        return {"type": "noul", **shared, "criteria": sides or None}
    if isinstance(question, Score):
        return {"type": "score", **shared, "criteria": [o.description or o.label for o in question.options]}
    criteria = {option.label: option.description or None for option in question.options}
    if len(criteria) < len(question.options):
        raise UserError("question", "two options have the same label", "System One names options by their label.")
    return {"type": KINDS[type(question).__name__], **shared, "criteria": criteria}


def label_of(question: Question, correct: int) -> Any:
    """The correct option as `read_items` expects it: true or false, or a label."""
    option = question.options[correct]
    if isinstance(question, YesNo):
        return option.value
    return str(correct) if isinstance(question, Score) else option.label


def probabilities_of(question: Question, answer: Any, where: str) -> np.ndarray:
    """The probabilities (K,) of a System One answer. Raises UserError for another shape."""
    if not isinstance(answer, Mapping):
        raise UserError(where, f"is a {type(answer).__name__}", "Give a System One answer.")
    try:
        if isinstance(question, YesNo):
            return np.array([float(answer["noul"]), 1 - float(answer["noul"])])
        names = [str(i) if isinstance(question, Score) else o.label for i, o in enumerate(question.options)]
        return np.array([float(answer["probabilities"][name]) for name in names])
    except (KeyError, TypeError, ValueError) as error:
        what = f"has no probability for every option ({type(error).__name__}: {error})"
        raise UserError(where, what, "Give `noul`, or `probabilities` by option.") from error


def answer_of(question: Question, p: np.ndarray) -> Answer:
    """An answer known by its probabilities alone."""
    p = np.asarray(p, dtype=np.float64)
    tiny = np.finfo(np.float64).tiny
    return Answer(question, np.log(np.maximum(p, tiny)), p)
