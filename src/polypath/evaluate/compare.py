"""Paired comparison of arms: the same seeds, the same prompts, differences with intervals.

An arm is one treatment, run with several seeds. Values are paired per seed and prompt, so that what the arms share (a
starting policy, an easy prompt) cancels. Two intervals stand beside each other: t over seeds, and a bootstrap that
resamples seeds and prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polypath.core.errors import UserError, did_you_mean
from polypath.core.seeds import derive
from polypath.evaluate.stats import Estimate, holm, mean_interval, t_test
from polypath.evaluate.summary import Summary

Matrix = NDArray[np.float64]
Arms = Mapping[str, Mapping[int, Summary]]  # arm -> seed -> its evaluation
FEW_SEEDS = 3


@dataclass(frozen=True)
class Difference:
    """`arm` minus `baseline` in one metric. `unit` says over what the t interval was taken."""

    metric: str
    arm: str
    baseline: str
    t: Estimate
    bootstrap: Estimate
    per_seed: dict[int, float]
    unit: str  # "seeds" or "prompts"
    n_prompts: int
    p: float  # two-sided, of the t test
    p_holm: float = math.nan

    @property
    def value(self) -> float:
        """The mean over seeds of the mean paired difference."""
        return self.t.value

    @property
    def same_sign(self) -> bool:
        """Whether every seed agrees on the direction."""
        signs = {np.sign(d) for d in self.per_seed.values() if not math.isnan(d)}
        return len(signs) == 1 and 0.0 not in signs


@dataclass
class Comparison:
    """Arms with their summaries, the paired differences, the tokens each arm used, and notes for the reader."""

    arms: dict[str, dict[int, Summary]]
    baseline: str
    differences: list[Difference]
    tokens: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def seeds(self) -> list[int]:
        """All seeds of all arms, ascending."""
        return sorted({seed for runs in self.arms.values() for seed in runs})

    def value(self, arm: str, metric: str) -> Estimate:
        """An arm's mean over seeds; the interval is t over seeds, or over prompts when there is one seed."""
        runs = [summary for summary in self.arms[arm].values() if metric in summary.table]
        if len(runs) == 1:
            return runs[0].mean(metric)
        return mean_interval([summary.mean(metric).value for summary in runs])

    def spread(self, arm: str, metric: str, *, samples: int = 2000) -> Estimate:
        """An arm's mean with a bootstrap interval over seeds and prompts: for pictures, where t of 3 seeds is wide."""
        runs = [dict(zip(s.prompt_ids, s[metric], strict=True)) for s in self.arms[arm].values() if metric in s.table]
        prompt_ids = list(dict.fromkeys(prompt_id for run in runs for prompt_id in run))
        matrix = np.array([[run.get(prompt_id, math.nan) for prompt_id in prompt_ids] for run in runs])
        return bootstrap_interval(matrix, samples=samples, level=0.95, seed=0)

    def difference(self, arm: str, metric: str, *, baseline: str = "") -> Difference:
        """The difference of `arm` and `baseline`. Raises KeyError when it was not computed."""
        for d in self.differences:
            if (d.arm, d.metric, d.baseline) == (arm, metric, baseline or self.baseline):
                return d
        raise KeyError(f"{arm} - {baseline or self.baseline} in {metric}")

    def to_json(self) -> dict[str, Any]:
        """Values, differences, tokens and notes as plain data; `core.files.to_json` writes its NaN as null."""
        metrics = list(dict.fromkeys(d.metric for d in self.differences))
        return {
            "baseline": self.baseline,
            "values": {arm: {m: asdict(self.value(arm, m)) for m in metrics} for arm in self.arms},
            "differences": [{**asdict(d), "value": d.value, "same_sign": d.same_sign} for d in self.differences],
            "tokens": self.tokens,
            "notes": self.notes,
        }


def compare(
    arms: Arms,
    *,
    baseline: str = "",
    pairs: Sequence[tuple[str, str]] | None = None,
    metrics: Sequence[str] | None = None,
    tokens: Mapping[str, float] | None = None,
    tolerance: float = 0.02,
    samples: int = 4000,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare every arm with `baseline` (default: the first arm), or the given (arm, baseline) `pairs`.

    `tokens` are the generated tokens of each arm; arms that differ by more than the share `tolerance` from their
    baseline are noted, because a comparison at unequal budgets is not a fair one. `samples` bootstrap resamples are
    drawn, deterministically in `seed`. Raises UserError for an unknown arm and for pairs without a common prompt.
    """
    if not arms:
        raise UserError("compare", "there is nothing to compare", "Give at least two runs.")
    baseline = baseline or next(iter(arms))
    pairs = [(arm, baseline) for arm in arms if arm != baseline] if pairs is None else list(pairs)
    for name in {baseline, *(name for pair in pairs for name in pair)}:
        if name not in arms:
            raise UserError("compare", f"there is no arm named '{name}'", did_you_mean(name, arms))
    known = {name for seeds in arms.values() for summary in seeds.values() for name in summary.table}
    for metric in metrics or ():
        if metric not in known:
            raise UserError("compare -m", f"no arm has the metric '{metric}'", did_you_mean(metric, known))
    if metrics is None:
        metrics = _common_metrics(arms)
    differences: list[Difference] = []
    for metric in metrics:
        of_metric = [_compare_pair(arms, *pair, metric, samples=samples, level=level, seed=seed) for pair in pairs]
        adjusted = holm([d.p for d in of_metric])
        differences += [replace(d, p_holm=p) for d, p in zip(of_metric, adjusted, strict=True)]
    tokens = dict(tokens or {})
    notes = _seed_notes(arms, pairs) + _token_notes(tokens, pairs, tolerance)
    return Comparison({arm: dict(runs) for arm, runs in arms.items()}, baseline, differences, tokens, notes)


def _common_metrics(arms: Arms) -> list[str]:
    summaries = [summary for runs in arms.values() for summary in runs.values()]
    counts = ("samples", "correct", "solutions")  # sizes, not outcomes
    return [m for m in summaries[0].table if m not in counts and all(m in s.table for s in summaries)]


def _compare_pair(
    arms: Arms, arm: str, baseline: str, metric: str, *, samples: int, level: float, seed: int
) -> Difference:
    seeds = sorted(set(arms[arm]) & set(arms[baseline]))
    if not seeds:
        raise UserError("compare", f"'{arm}' and '{baseline}' have no seed in common", "Compare runs of equal seeds.")
    rows = [paired(arms[arm][s], arms[baseline][s], metric) for s in seeds]
    prompt_ids = list(dict.fromkeys(prompt_id for row in rows for prompt_id in row))
    if not prompt_ids:
        raise UserError("compare", f"'{arm}' and '{baseline}' have no prompt in common", "Evaluate on one split.")
    matrix = np.array([[row.get(prompt_id, math.nan) for prompt_id in prompt_ids] for row in rows])
    per_seed = {s: mean_interval(row).value for s, row in zip(seeds, matrix, strict=True)}
    over_prompts = len(seeds) == 1
    units = matrix[0] if over_prompts else np.array(list(per_seed.values()))
    bootstrap = bootstrap_interval(matrix, samples=samples, level=level, seed=seed)
    return Difference(
        metric=metric,
        arm=arm,
        baseline=baseline,
        t=mean_interval(units, level=level),
        bootstrap=bootstrap,
        per_seed=per_seed,
        unit="prompts" if over_prompts else "seeds",
        n_prompts=int(np.isfinite(matrix).any(axis=0).sum()),
        p=t_test(units),
    )


def paired(a: Summary, b: Summary, metric: str) -> dict[str, float]:
    """a - b for each prompt that both have, by prompt id (NaN where either is undefined)."""
    other = dict(zip(b.prompt_ids, b[metric].tolist(), strict=True))
    return {p: x - other[p] for p, x in zip(a.prompt_ids, a[metric].tolist(), strict=True) if p in other}


def bootstrap_interval(matrix: Matrix, *, samples: int, level: float, seed: int) -> Estimate:
    """Percentile interval of the mean over seeds, resampling seeds and, within each, prompts.

    Shapes: `matrix` (S, M) of paired differences, NaN where a seed lacks a prompt or a value. A column is one prompt;
    prompts seen by several seeds are resampled together, because they are not new evidence in each of them.
    """
    defined = np.isfinite(matrix)
    if not defined.any():
        return Estimate(math.nan, math.nan, math.nan, 0)
    n_seeds, n_prompts = matrix.shape
    prompt_weights = _resamples(n_prompts, samples, derive(seed, "prompts"))
    seed_weights = _resamples(n_seeds, samples, derive(seed, "seeds"))
    with np.errstate(invalid="ignore"):
        means = (prompt_weights @ np.where(defined, matrix, 0.0).T) / (prompt_weights @ defined.T.astype(float))
    usable = np.isfinite(means)
    seed_weights = np.where(usable, seed_weights, 0.0)
    total = seed_weights.sum(axis=1)
    drawn = (seed_weights * np.where(usable, means, 0.0)).sum(axis=1)[total > 0] / total[total > 0]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    point = float(np.mean([row[ok].mean() for row, ok in zip(matrix, defined, strict=True) if ok.any()]))
    return Estimate(point, float(low), float(high), int(defined.sum()))


@lru_cache(maxsize=8)  # the same resamples serve every metric and every pair, so that all of them are comparable
def _resamples(n: int, samples: int, seed: int) -> Matrix:
    """How often each of `n` items is drawn in each of `samples` resamples of size n: (samples, n)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1 / n), size=samples).astype(float)


def _seed_notes(arms: Arms, pairs: Sequence[tuple[str, str]]) -> list[str]:
    notes = []
    for arm, baseline in pairs:
        shared = set(arms[arm]) & set(arms[baseline])
        if len(shared) < FEW_SEEDS:
            notes.append(f"{arm} - {baseline}: {len(shared)} paired seed(s), descriptive only")
        unpaired = sorted((set(arms[arm]) | set(arms[baseline])) - shared)
        if unpaired:
            notes.append(f"{arm} - {baseline}: seeds {unpaired} are in one arm only and were left out")
        for s in sorted(shared):
            ids_a, ids_b = set(arms[arm][s].prompt_ids), set(arms[baseline][s].prompt_ids)
            if ids_a != ids_b:
                missing = len(ids_a ^ ids_b)
                notes.append(f"{arm} - {baseline}, seed {s}: {missing} prompt(s) are in one arm only and were left out")
    return notes


def _token_notes(tokens: Mapping[str, float], pairs: Sequence[tuple[str, str]], tolerance: float) -> list[str]:
    notes = []
    for arm, baseline in pairs:
        a, b = tokens.get(arm, math.nan), tokens.get(baseline, math.nan)
        if min(a, b) > 0 and abs(a / b - 1) > tolerance:  # an arm without any is a starting point, not a rival
            notes.append(f"{arm} generated {a:,.0f} tokens, {baseline} {b:,.0f} ({a / b - 1:+.0%}): unequal budgets")
    return notes
