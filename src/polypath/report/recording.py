"""Recorded studies: small files from which every number of a report is computed again.

A recording is gzipped JSON lines: a header with the prompts and how many solutions each is known to have, a line per
run with the counts of its correct solutions per prompt and its curves, and a line with the full texts of some groups.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polypath.core.errors import UserError
from polypath.core.files import to_json
from polypath.evaluate.runs import Run
from polypath.evaluate.summary import DEFAULT_KS, Summary, solution_counts, success_row
from polypath.report.figures import CURVES
from polypath.report.groups import evaluation_groups, training_groups, within

VERSION = 1
SHARES = ("length", "truncated", "invalid")  # columns that counts do not give
MAX_GROUP_BYTES = 1_500_000  # of JSON, which compresses about tenfold


@dataclass
class Recording:
    """A study as it was recorded."""

    title: str
    baseline: str
    pairs: list[tuple[str, str]]
    runs: list[Run]
    groups: list[dict[str, Any]]


def save_recording(
    runs: Sequence[Run], path: Path, *, title: str, baseline: str = "", pairs: Sequence[tuple[str, str]] = ()
) -> Path:
    """Write a recording of finished runs. The bytes depend on the runs alone.

    Raises UserError when the runs were not evaluated on the same prompts, or when the solutions are unknown.
    """
    prompt_ids = runs[0].summary.prompt_ids
    header = {"version": VERSION, "title": title, "baseline": baseline, "pairs": pairs, "prompts": prompt_ids}
    header["solutions"] = runs[0].summary["solutions"]
    groups = within([*evaluation_groups(runs, prompts=12), *training_groups(runs, each=1)], MAX_GROUP_BYTES)
    lines = [header, *(_run_line(run, prompt_ids) for run in runs), {"groups": groups}]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write("".join(f"{to_json(line)}\n" for line in lines).encode())
    return path


def load_recording(path: Path) -> Recording:
    """Read a recording and compute its summaries. Raises UserError for a newer or a damaged file."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header, *lines, last = map(json.loads, file)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            str(path), f"is not a recording ({error})", "Reinstall polypath, or record it again."
        ) from error
    if header["version"] > VERSION:
        raise UserError(str(path), "was recorded by a newer polypath", "Run: pip install --upgrade polypath")
    runs = [_run(path, header, line) for line in lines]
    pairs = [(arm, baseline) for arm, baseline in header["pairs"]]
    return Recording(header["title"], header["baseline"], pairs, runs, last["groups"])


def _run_line(run: Run, prompt_ids: Sequence[str]) -> dict[str, Any]:
    by_prompt: dict[str, list[Any]] = {prompt_id: [] for prompt_id in prompt_ids}
    if run.summary.prompt_ids != tuple(prompt_ids):
        raise UserError(str(run.path), "was evaluated on other prompts", "Record runs of one study.")
    for rollout in run.rollouts():
        by_prompt[rollout.prompt_id].append(rollout)
    counts = [solution_counts(group) for group in by_prompt.values()]
    if None in counts:
        raise UserError(str(run.path), "has rollouts of unknown solution", "Record runs of a task that verifies.")
    kept = ("step", "generated_tokens", *CURVES)
    metrics = [
        {name: round(x, 5) for name, x in row.items() if (name in kept or name.startswith("eval/")) and _is_number(x)}
        for row in run.metrics
    ]
    shares = {name: run.summary[name].round(5) for name in SHARES}
    samples = run.summary["samples"].astype(int)
    return {"arm": run.arm, "seed": run.seed, "samples": samples, "counts": counts, **shares, "metrics": metrics}


def _run(path: Path, header: Mapping[str, Any], line: Mapping[str, Any]) -> Run:
    known = [math.nan if x is None else float(x) for x in header["solutions"]]
    ks = [k for k in DEFAULT_KS if k <= max(line["samples"])]
    rows = [
        success_row(n, sum(counts), counts, solutions, ks)
        for n, counts, solutions in zip(line["samples"], line["counts"], known, strict=True)
    ]
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    table |= {name: np.array([math.nan if x is None else x for x in line[name]], dtype=float) for name in SHARES}
    return Run(path, line["arm"], line["seed"], Summary(tuple(header["prompts"]), table), line["metrics"])


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)
