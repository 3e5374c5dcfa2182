"""Any dataset of reasoning-gym (Stojanovski et al. 2025, arXiv:2505.24760) by name, judged by its own scorer."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

from polypath.core.errors import UserError, did_you_mean, missing_extra
from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.tasks.expressions import algebra_form, expression_form
from polypath.tasks.protocol import Prompt, Score
from polypath.tasks.splits import SPLITS, check_split, content_id
from polypath.tasks.verifiers import find_answer, normalise

RANGE = 2**30  # a split's seeds: train from 0, dev from RANGE, test from 2 * RANGE
NUMBER = re.compile(r"(?<![\d.])-?\d+(?:\.\d+)?")  # "1+9=10" holds 1, 9 and 10: a minus counts after no digit
LONGEST = 20_000  # characters of an answer that a scorer gets to see


def json_form(text: str) -> str | None:
    """JSON with sorted keys, or None when the text is not JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return None


_INERT = (ast.Expression, ast.expr_context, ast.Constant, ast.Name, ast.List, ast.Tuple, ast.UnaryOp, ast.USub)


def literal_form(text: str) -> str | None:
    """The normalised text, or None for one that as Python would do more than build lists of constants and names.

    >>> literal_form("1 0\\n0 1"), literal_form("[[1, 0], [0, 1]]"), literal_form("exit()")
    ('1 0 0 1', '[[1, 0], [0, 1]]', None)
    """
    try:
        tree = ast.parse(text.lstrip(" \t"), mode="eval")  # as `eval` reads it
    except (SyntaxError, ValueError):
        return normalise(text)
    except (RecursionError, MemoryError):
        return None
    return normalise(text) if all(isinstance(node, _INERT) for node in ast.walk(tree)) else None


# The normal form of an answer, or None for a text that cannot be one. Such a text is not shown to the scorer, because
# many scorers evaluate it as Python: by `eval`, or by sympy, which does the same with formulas.
FORMS: dict[str, Callable[[str], str | None]] = {
    "countdown": expression_form,
    "puzzle24": expression_form,
    "graph_color": json_form,
    "jugs": json_form,
    **dict.fromkeys(("simple_integration", "intermediate_integration", "polynomial_multiplication"), algebra_form),
    **dict.fromkeys(("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"), literal_form),
}


@register("task", "reasoning_gym", paper="arXiv:2505.24760")
class ReasoningGym:
    """Generated problems of the reasoning-gym dataset `dataset`, with its `config`, judged by its own scorer.

    Correct means a score of at least `threshold` (some scorers give a little to any text); the reward is 1 or 0, or
    the score itself with `partial_credit`. `instruction` is appended to every question. Splits use disjoint ranges of
    generator seeds and repeated questions are dropped within a split; a dataset with few possible questions may still
    show one in two splits. The answer is the last `<answer>...</answer>`; without one, the whole text and then its
    last line are tried, or with `untagged="last_number"` the last number in the text, for models that answer in a
    sentence.
    """

    name = "reasoning_gym"

    def __init__(
        self,
        *,
        dataset: str,
        config: dict[str, Any] | None = None,
        threshold: float = 1.0,
        partial_credit: bool = False,
        instruction: str = "",
        untagged: Literal["text", "last_number"] = "text",
        chat: bool = True,
    ) -> None:
        """Raises UserError for an unknown dataset, a wrong config, or without the reasoning-gym package."""
        try:
            from reasoning_gym.factory import DATASETS, create_dataset
        except ImportError:
            raise missing_extra("task reasoning_gym", "reasoning-gym", "tasks") from None
        if dataset not in DATASETS:
            raise UserError("task.dataset", f"reasoning-gym has no '{dataset}'", did_you_mean(dataset, DATASETS))
        self.chat, self.dataset = chat, dataset
        self.scorer_errors = 0  # how often the scorer raised; such a text is wrong
        self._threshold, self._partial, self._instruction = threshold, partial_credit, instruction
        self._untagged = untagged
        self._create = partial(_create, create_dataset, dataset, config or {})
        self._scorer = self._create(seed=0, size=1).score_answer

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """`n` prompts, or fewer when 3 n tries give no more different ones; equal seeds give equal prompts.

        Raises UserError for an unknown split or when the dataset fails to make any item.
        """
        check_split("task reasoning_gym", split)
        first = SPLITS.index(split) * RANGE + derive(seed, "reasoning_gym") % (RANGE // 2)
        found: dict[str, Prompt] = {}
        for entry in self._entries(self._create(seed=first, size=3 * n), 3 * n):
            text = f"{entry['question']}\n{self._instruction}" if self._instruction else entry["question"]
            prompt = Prompt(content_id("reasoning_gym", self.dataset, text), text, {"entry": entry})
            found.setdefault(prompt.id, prompt)
            if len(found) == n:
                break
        if not found:
            raise UserError("task.dataset", f"'{self.dataset}' made no item for the split '{split}'", "Check config.")
        return list(found.values())

    def _entries(self, dataset: Any, tries: int) -> Iterator[dict[str, Any]]:
        """Items, without those that the generator fails to make (it gives up on some seeds)."""
        for i in range(tries):
            try:
                yield dataset[i]
            except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError):
                continue

    def verify(self, prompt: Prompt, text: str) -> Score:
        """The best verdict over the places where the answer may stand."""
        candidates = self._candidates(text)
        verdicts = [self._judge(prompt, candidate) for candidate in dict.fromkeys(candidates)]
        return max(verdicts, key=lambda score: (score.correct, score.reward, score.valid))

    def _candidates(self, text: str) -> list[str]:
        tagged = find_answer(text)
        if tagged is not None:
            return [tagged]
        if self._untagged == "last_number":
            return NUMBER.findall(text)[-1:] or [""]
        return [text.strip(), *(line.strip() for line in text.strip().splitlines()[-1:])]

    def _judge(self, prompt: Prompt, answer: str) -> Score:
        entry = prompt.data["entry"]
        source = entry["metadata"].get("source_dataset", self.dataset)  # of a composite: the one that made this entry
        form = FORMS.get(source, normalise)(answer) if 0 < len(answer) <= LONGEST else None
        if form is None:
            return Score(0.0, False, answer[:LONGEST] or None, valid=False)
        try:
            score = float(self._scorer(answer, entry))
        except Exception:  # noqa: BLE001 - the boundary to scorers, which raise on many malformed answers
            self.scorer_errors += 1
            return Score(0.0, False, answer, valid=False)
        correct = score >= self._threshold
        return Score(score if self._partial else float(correct), correct, answer, canonical=form)


def _create(create_dataset: Callable[..., Any], name: str, config: dict[str, Any], *, seed: int, size: int) -> Any:
    """A dataset object. Raises UserError for a config that it does not accept."""
    for knob in ("seed", "size"):
        if knob in config:
            raise UserError("task.config", f"'{knob}' is set by the split and the number of prompts", "Leave it out.")
    try:
        return create_dataset(name, seed=seed, size=size, **config)
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError("task.config", f"reasoning-gym '{name}' does not accept it ({error})", "Correct it.") from error
