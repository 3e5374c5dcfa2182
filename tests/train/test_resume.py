"""A killed run continues to the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polypath.core.errors import UserError
from polypath.core.rundir import RunDir
from polypath.train.run import RunRequest, load_recipe, run

FILES = ("rollouts.jsonl", "metrics.jsonl", "model/model.safetensors", "recipe.yaml", "evaluation/final.jsonl")
EVALUATE = "evaluate={prompts: 4, samples: 8, ks: [1, 4], every: 3, curve_prompts: 2, curve_samples: 4}"


def start(recipe: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "polypath", "train", str(recipe), "--output", str(output), "-o", EVALUATE]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rows(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kill_at_three_points(recipe: Path, tmp_path: Path) -> None:
    """Before the first checkpoint, between two, and during the last steps: the same files as without a kill."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(recipe, whole).wait(timeout=600) == 0
    for done in (1, 3, 5):
        process = start(recipe, killed)
        deadline = time.monotonic() + 120
        while rows(killed / "metrics.jsonl") < done and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start(recipe, killed).wait(timeout=600) == 0
    for name in FILES:
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_interrupt_says_what_is_kept(recipe: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "polypath",
        "train",
        str(recipe),
        "--output",
        str(output),
        "-o",
        "train.steps=2000",
    ]
    # A shell's background job has SIGINT ignored, and its children inherit that: here it is wanted.
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while rows(output / "metrics.jsonl") < 3 and process.poll() is None:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "continues it" in errors and "Traceback" not in errors


def test_another_recipe_is_refused_and_nothing_is_lost(recipe: Path, tmp_path: Path) -> None:
    request = RunRequest(load_recipe(str(recipe), ["train.steps=1"]), tmp_path / "run")
    run(request, summarise=lambda rollouts, ks: {}, show_progress=False)
    before = (tmp_path / "run" / "rollouts.jsonl").read_bytes()
    other = RunRequest(load_recipe(str(recipe), ["train.steps=2"]), tmp_path / "run")
    with pytest.raises(UserError, match="another recipe"):
        run(other, summarise=lambda rollouts, ks: {}, show_progress=False)
    assert (tmp_path / "run" / "rollouts.jsonl").read_bytes() == before
    assert RunDir(tmp_path / "run").info["digest"]
