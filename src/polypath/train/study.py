"""A study: every arm with every seed, as separate one-thread processes on the cores there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polypath.core.errors import ExitCode, UserError, UserErrors
from polypath.core.files import atomic_write
from polypath.core.progress import Progress
from polypath.core.recipe import dump
from polypath.core.rundir import RunDir
from polypath.engines.aliases import check_name
from polypath.train.config import ModelConfig, Recipe, seeded_name
from polypath.train.run import check_credit, load_recipe

POLL_SECONDS = 0.5
# glibc gives the large blocks of every training step back to the system and faults them in again; keep them instead.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
TICKS = 100  # progress units of one run


@dataclass(frozen=True)
class Job:
    """One run of a study."""

    arm: str
    seed: int
    recipe: str  # resolved when the study was planned, so that an edit meanwhile cannot make its runs differ
    output: Path
    model: str = ""  # the name of the model that it starts from, empty for one from scratch


def plan_study(
    name: str, overrides: Sequence[str], output: Path, *, seeds: Sequence[int], arms: Sequence[str] | None = None
) -> list[Job]:
    """All runs of the recipe's arms and seeds, every one resolved first. Raises UserError(s) before anything runs.

    Jobs are ordered seed by seed, so that a stopped study has complete seeds to compare.
    """
    recipe = load_recipe(name, overrides)
    chosen = recipe.arms or {"run": {}}
    unknown = sorted(set(arms or ()) - set(chosen))
    if unknown:
        raise UserError("--arms", f"the recipe has no arm '{unknown[0]}'", f"Choose from: {', '.join(chosen)}.")
    check_arms(name, overrides, recipe)
    recipe.task.bind()()  # its mistakes are told once, not by every run
    jobs = []
    for seed in seeds or recipe.seeds or [recipe.seed]:
        for arm, changes in chosen.items():
            if arms and arm not in arms:
                continue
            given = (*overrides, *arm_overrides(changes), f"seed={seed}")
            resolved = replace(load_recipe(name, given), arms={}, seeds=[])
            model = seeded_name(resolved.model, seed) if isinstance(resolved.model, ModelConfig) else ""
            jobs.append(Job(arm, seed, dump(resolved), output / arm / f"seed-{seed}", model))
    return jobs


def check_models(jobs: Sequence[Job]) -> None:
    """Refuse models that are not there, each once, before any run starts; runs that are done need theirs no more."""
    errors = []
    for name in dict.fromkeys(job.model for job in jobs if job.model and _share(job) < 1.0):
        try:
            check_name(name)
        except UserError as error:
            errors.append(error)
    if errors:
        raise UserErrors(errors)


def check_arms(name: str, overrides: Sequence[str], recipe: Recipe) -> None:
    """Resolve every arm. Raises UserErrors with the mistakes of all of them, each with its arm."""
    errors = []
    for arm, changes in recipe.arms.items():
        try:
            check_credit(load_recipe(name, [*overrides, *arm_overrides(changes)]))
        except UserError as error:
            found = error.errors if isinstance(error, UserErrors) else [error]
            errors += [UserError(f"arm '{arm}' {e.where.removeprefix('-o ')}", e.what, e.fix) for e in found]
    if errors:
        raise UserErrors(errors)


def arm_overrides(changes: Mapping[str, Any]) -> list[str]:
    """An arm's key paths and values in the form of `-o key.path=value`.

    >>> arm_overrides({"credit": {"rarity": {"alpha": 1}}, "train.steps": 0})
    ['credit={"rarity": {"alpha": 1}}', 'train.steps=0']
    """
    return [f"{path}={json.dumps(value)}" for path, value in changes.items()]


def run_study(jobs: Sequence[Job], *, workers: int, resume: str, progress: Progress) -> list[Job]:
    """Run all jobs, `workers` at a time, and return those that failed. Ctrl-C stops the children, which can resume."""
    waiting = list(jobs)
    running: dict[Job, subprocess.Popen[bytes]] = {}
    failed: list[Job] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop(0)
                running[job] = _start(job, resume)
            ended = [job for job, process in running.items() if process.poll() is not None]
            failed += [job for job in ended if running.pop(job).returncode != ExitCode.DONE]
            share = sum(_share(job) for job in jobs)
            idle = {f"[{slot}]": "idle" for slot in range(len(running) + 1, workers + 1)}
            progress.update(round(share * TICKS) - progress.done, **_now(jobs, running), **idle)
            time.sleep(POLL_SECONDS)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait(timeout=30)
    return failed


def failure(job: Job) -> str:
    """Why a run failed: the last line that it wrote."""
    lines = _messages(job).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"


def _start(job: Job, resume: str) -> subprocess.Popen[bytes]:
    """One child: its own process, one thread, its messages in a file beside the run."""
    try:
        job.output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(str(job.output), f"cannot be created ({error.strerror})", "Choose another --output.") from None
    recipe = job.output.with_name(f"{job.output.name}.yaml")
    atomic_write(recipe, job.recipe)
    command = [sys.executable, "-m", "polypath", "train", str(recipe), "--output", str(job.output), "--resume", resume]
    environment = {**KEEP_MEMORY, **os.environ, "OMP_NUM_THREADS": "1"}
    with _messages(job).open("wb") as sink:
        return subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, env=environment)


def _messages(job: Job) -> Path:
    return job.output.with_name(f"{job.output.name}.out")


def _share(job: Job) -> float:
    """The share of a run that is done. The final evaluation counts as a fifth of a run with steps."""
    state = RunDir(job.output).read_progress() if job.output.exists() else {}
    if state.get("phase") == "done":
        return 1.0
    return 0.8 * state["done"] / state["steps"] if state.get("steps") else 0.0


def _now(jobs: Sequence[Job], running: Mapping[Job, Any]) -> dict[str, str]:
    """What each running job is doing, with its latest values. Jobs share their slots, so that the line stays short."""
    said = {"runs": f"{sum(_share(job) == 1.0 for job in jobs)}/{len(jobs)}"}
    for slot, job in enumerate(running, start=1):
        state = RunDir(job.output).read_progress() if job.output.exists() else {}
        step = f"{state['done']}/{state['steps']}" if state.get("phase") == "train" else state.get("phase", "starting")
        values = [f"{key} {state[key]:.2f}" for key in ("reward", "distinct") if state.get(key) is not None]
        said[f"[{slot}]"] = " ".join([f"{job.arm}#{job.seed}", step, *values])
    return said
