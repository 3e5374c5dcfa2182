"""What a set of evaluation rollouts says: success within a budget, distinct solutions, coverage, length."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polypath.core.record import Rollout
from polypath.diversity.measures import pair_difference
from polypath.evaluate import passk
from polypath.evaluate.stats import Estimate, mean_interval

Solutions = Callable[[str], frozenset[str]] | Mapping[str, frozenset[str]] | None
DEFAULT_KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
N_SOLUTIONS = "n_solutions"  # extra column of a rollout: how many solutions its prompt is known to have


@dataclass(frozen=True)
class Summary:
    """A table with one row per prompt. `table[column]` has shape (M,), NaN where a value is undefined.

    Columns: `samples`, `correct` (counts), `pass@k` per budget, `distinct` (correct solutions seen in all samples),
    `solutions` (known ones), `coverage` (the share of them seen), `pairwise_difference` (the probability that two
    correct samples differ), `length` (tokens), `truncated` and `invalid` (shares).
    """

    prompt_ids: tuple[str, ...]
    table: dict[str, NDArray[np.float64]]

    def __getitem__(self, column: str) -> NDArray[np.float64]:
        return self.table[column]

    @property
    def ks(self) -> tuple[int, ...]:
        """The budgets k of the columns `pass@k`, ascending."""
        return tuple(sorted(int(name[5:]) for name in self.table if name.startswith("pass@")))

    def mean(self, column: str, *, level: float = 0.95) -> Estimate:
        """Mean over prompts with a t interval that speaks of new prompts of the same kind."""
        return mean_interval(self.table[column], level=level)

    def sampling_se(self, k: int) -> float:
        """Standard error of the mean pass@k if the same prompts were sampled again; NaN unless all have 2k samples."""
        if np.isnan(self["correct"]).any():
            return math.nan
        variance = passk.pass_at_k_variance(self["samples"], self["correct"], k)
        return math.sqrt(max(float(variance.sum()), 0.0)) / len(variance) if len(variance) else math.nan

    def means(self) -> dict[str, Estimate]:
        """All columns averaged."""
        return {column: self.mean(column) for column in self.table}

    def to_json(self) -> dict[str, Any]:
        """Columns and means as plain data; `core.files.to_json` writes its NaN as null, which `from_json` reads."""
        columns = {name: column.tolist() for name, column in self.table.items()}
        means = {name: asdict(estimate) for name, estimate in self.means().items()}
        return {"prompt_ids": list(self.prompt_ids), "columns": columns, "means": means}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Summary:
        """The inverse of `to_json`."""
        columns = {
            name: np.array([math.nan if x is None else x for x in column], dtype=float)
            for name, column in data["columns"].items()
        }
        return cls(tuple(data["prompt_ids"]), columns)


def summarise(rollouts: Sequence[Rollout], *, ks: Sequence[int] = DEFAULT_KS, solutions: Solutions = None) -> Summary:
    """Summarise evaluation rollouts per prompt.

    `solutions` gives the known canonical solutions of a prompt id; without it the extra column `n_solutions` of the
    rollouts is used, and coverage is NaN when that is missing too. A rollout whose correctness is unknown
    (`correct=None`) makes its prompt's success columns NaN. Budgets larger than every sample are left out.
    """
    by_prompt: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        by_prompt.setdefault(rollout.prompt_id, []).append(rollout)
    largest = max((len(group) for group in by_prompt.values()), default=0)
    ks = [k for k in ks if k <= largest]
    rows = [_summarise_prompt(group, ks, _known(prompt_id, group, solutions)) for prompt_id, group in by_prompt.items()]
    if not any(rollout.canonical is not None or rollout.answer is not None for rollout in rollouts):
        rows = [row | {"invalid": math.nan} for row in rows]  # nothing was parsed, so nothing failed to parse
    columns = rows[0].keys() if rows else ()
    return Summary(tuple(by_prompt), {name: np.array([row[name] for row in rows], dtype=float) for name in columns})


def success_row(
    n: int, correct: int | None, classes: Sequence[int] | None, known: float, ks: Sequence[int]
) -> dict[str, float]:
    """The columns of one prompt that follow from counts.

    `classes` are how often each correct solution was drawn. None for `correct` or `classes` is unknown, and so NaN.
    """
    row = {"samples": float(n), "correct": math.nan if correct is None else float(correct)}
    row |= {f"pass@{k}": math.nan if correct is None else float(passk.pass_at_k(n, correct, k)) for k in ks}
    row["distinct"] = math.nan if classes is None else float(len(classes))
    row["solutions"] = known
    row["coverage"] = row["distinct"] / known if known > 0 else math.nan
    row["pairwise_difference"] = math.nan if classes is None else pair_difference(classes)
    return row


def _summarise_prompt(group: list[Rollout], ks: Sequence[int], known: float) -> dict[str, float]:
    n = len(group)
    correct = sum(bool(r.correct) for r in group) if all(r.correct is not None for r in group) else None
    row = success_row(n, correct, solution_counts(group), known, ks)
    row["length"] = float(np.mean([length(rollout) for rollout in group]))
    row["truncated"] = sum(rollout.status == "truncated" for rollout in group) / n
    row["invalid"] = sum(rollout.canonical is None and rollout.answer is None for rollout in group) / n
    return row


def solution_counts(group: Sequence[Rollout]) -> list[int] | None:
    """How often each correct solution was drawn, the commonest first; None when that is unknown.

    A correct rollout without a canonical form has no class: counting the others would be a guess.
    """
    right = [rollout.canonical for rollout in group if rollout.correct]
    if any(rollout.correct is None for rollout in group) or None in right:
        return None
    return sorted(Counter(right).values(), reverse=True)


def length(rollout: Rollout) -> float:
    """Response length in tokens, NaN when neither token ids nor a token count were recorded."""
    return float(len(rollout.ids) or rollout.tokens.get("generated", math.nan))


def _known(prompt_id: str, group: list[Rollout], solutions: Solutions) -> float:
    if solutions is None:
        return float(group[0].extra.get(N_SOLUTIONS, math.nan))
    return float(len(solutions(prompt_id) if callable(solutions) else solutions[prompt_id]))
