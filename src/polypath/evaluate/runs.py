"""Runs on disk as arms and seeds: what `compare` and `report` read."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from polypath.core.errors import UserError
from polypath.core.importers import load_rows
from polypath.core.record import Rollout
from polypath.core.rundir import RunDir
from polypath.core.store import read_rollouts
from polypath.evaluate.compare import Comparison, compare
from polypath.evaluate.summary import DEFAULT_KS, Summary, summarise

_SEED = re.compile(r"(?:(?P<arm>.+)[-_.])?(?:seed|s)[-_]?(?P<seed>\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


@dataclass
class Run:
    """One trained or sampled arm with one seed: its final evaluation, its curves, and where the rollouts are."""

    path: Path
    arm: str
    seed: int
    summary: Summary
    metrics: list[dict[str, Any]] = field(default_factory=list)

    @property
    def trained_tokens(self) -> float:
        """Tokens generated in training, 0 when nothing was trained."""
        return float(sum(row.get("generated_tokens", 0.0) for row in self.metrics))

    @property
    def sampled_tokens(self) -> float:
        """Tokens generated in the final evaluation; NaN when they were not recorded."""
        return float((self.summary["samples"] * self.summary["length"]).sum())

    def rollouts(self) -> list[Rollout]:
        """The final evaluation's rollouts, read anew."""
        return final_rollouts(self.path)


def load_run(path: Path | str, *, ks: Sequence[int] = DEFAULT_KS) -> Run:
    """Read a run directory (`evaluation/*.jsonl`, `metrics.jsonl`) or one file of rollouts.

    Raises UserError when there is nothing to evaluate.
    """
    path = Path(path)
    arm, seed = arm_and_seed(path)
    return Run(path, arm, seed, summarise(final_rollouts(path), ks=ks), RunDir(path).read_metrics())


def arm_and_seed(path: Path) -> tuple[str, int]:
    """What the path says: `grpo/seed1`, `grpo/1`, `grpo-seed1` and `grpo_s1.jsonl` are arm grpo, seed 1; else seed 0.

    >>> arm_and_seed(Path("runs/grpo/seed1")), arm_and_seed(Path("alpha-0.5_s2.jsonl"))
    (('grpo', 1), ('alpha-0.5', 2))
    """
    name = path.name.removesuffix(".jsonl").removesuffix(".parquet")
    match = _SEED.fullmatch(name)
    if match:
        return match["arm"] or path.absolute().parent.name, int(match["seed"])
    return (path.absolute().parent.name, int(name)) if _NUMBER.fullmatch(name) else (name, 0)


def final_rollouts(path: Path) -> list[Rollout]:
    """The final evaluation of a run directory (else its last one by name), or the rows of a file."""
    if path.is_file():
        return load_rows(path)
    files = sorted((path / "evaluation").glob("*.jsonl"))
    if not files:
        raise UserError(str(path), "has no evaluation rollouts", "Give a finished run, or a file of rollouts.")
    final = path / "evaluation" / "final.jsonl"
    return read_rollouts(final if final in files else files[-1])


def find_runs(paths: Sequence[Path | str]) -> list[Path]:
    """The runs below the given paths: a directory without an evaluation of its own stands for those inside it."""
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise UserError(str(path), "does not exist", "Give run directories or files of rollouts.")
        inside = [] if path.is_file() else sorted({f.parent.parent for f in path.rglob("evaluation/*.jsonl")})
        found += inside or [path]
    return list(dict.fromkeys(found))


def arms_of(runs: Sequence[Run]) -> dict[str, dict[int, Summary]]:
    """Summaries by arm and seed, in the given order. Raises UserError when two runs claim the same place."""
    arms: dict[str, dict[int, Summary]] = {}
    for run in runs:
        seeds = arms.setdefault(run.arm, {})
        if run.seed in seeds:
            fix = "Compare one of them, or name the directories <arm>/seed<n>."
            raise UserError(str(run.path), f"is a second run of arm '{run.arm}' with seed {run.seed}", fix)
        seeds[run.seed] = run.summary
    return arms


def compare_runs(
    paths: Sequence[Path | str],
    *,
    baseline: str = "",
    pairs: Sequence[tuple[str, str]] | None = None,
    metrics: Sequence[str] | None = None,
    ks: Sequence[int] = DEFAULT_KS,
    samples: int = 4000,
    seed: int = 0,
) -> Comparison:
    """Compare run directories, studies or files of rollouts; arm and seed come from the path. See `compare`."""
    runs = [load_run(path, ks=ks) for path in find_runs(paths)]
    return compare_loaded(runs, baseline=baseline, pairs=pairs, metrics=metrics, samples=samples, seed=seed)


def compare_loaded(
    runs: Sequence[Run],
    *,
    baseline: str = "",
    pairs: Sequence[tuple[str, str]] | None = None,
    metrics: Sequence[str] | None = None,
    samples: int = 4000,
    seed: int = 0,
) -> Comparison:
    """`compare_runs` for runs that were already read.

    Arms that were not trained, among others that were, are starting points: they are shown first, and the baseline
    is compared with them, for that difference is what training did. Then comes the baseline, then the other arms.
    """
    baseline = baseline or _control(runs) or runs[0].arm
    arms = arms_of(runs)
    tokens = mean_tokens(runs)
    starts = [arm for arm in arms if arm != baseline and tokens.get(arm) == 0.0]
    arms = dict(sorted(arms.items(), key=lambda item: (item[0] not in starts, item[0] != baseline)))
    if pairs is None and baseline in arms:
        trained = [arm for arm in arms if arm not in starts and arm != baseline]
        pairs = [*((baseline, start) for start in starts), *((arm, baseline) for arm in trained)]
    return compare(arms, baseline=baseline, pairs=pairs, metrics=metrics, tokens=tokens, samples=samples, seed=seed)


def mean_tokens(runs: Sequence[Run]) -> dict[str, float]:
    """Known generated tokens per run of each arm: in training, or in the evaluation when no arm was trained."""
    trained = any(run.trained_tokens > 0 for run in runs)
    tokens: dict[str, list[float]] = {}
    for run in runs:
        tokens.setdefault(run.arm, []).append(run.trained_tokens if trained else run.sampled_tokens)
    means = {arm: sum(values) / len(values) for arm, values in tokens.items()}
    return {arm: mean for arm, mean in means.items() if not math.isnan(mean)}


def _control(runs: Sequence[Run]) -> str:
    """The control arm that the runs' recipe names, empty when it names none of these arms."""
    for run in runs:
        recipe = RunDir(run.path).recipe
        control = yaml.safe_load(recipe.read_text(encoding="utf-8")).get("control") if recipe.is_file() else None
        if any(control == other.arm for other in runs):
            return str(control)
    return ""
