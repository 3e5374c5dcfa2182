"""The laboratory in one seed: GRPO forgets solutions and rarity credit keeps more of them."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SHORT = ("train.steps=75", "evaluate={prompts: 64, samples: 64, ks: [1, 16]}", "seed=0")


def measured(arm: str, output: Path, *overrides: str) -> dict[str, float]:
    """The final evaluation of one arm of the quickstart, shortened."""
    command = [sys.executable, "-m", "polypath", "train", "quickstart", "--output", str(output), "--arms", arm]
    for override in (*SHORT, *overrides):
        command += ["-o", override]
    done = subprocess.run([*command, "--seeds", "1"], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return json.loads((output / arm / "seed-0" / "final.json").read_text())


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(1800)
def test_collapse_and_remedy(tmp_path: Path) -> None:
    """Margins are well inside what was measured. Differences in pass@1 between arms are noise here: not tested."""
    with ThreadPoolExecutor(2) as pool:
        jobs = {
            arm: pool.submit(measured, arm, tmp_path / arm, *(("train.steps=0",) if arm == "start" else ()))
            for arm in ("start", "grpo", "rarity-1")
        }
        start, grpo, rarity = (jobs[arm].result() for arm in ("start", "grpo", "rarity-1"))
    assert start["eval/distinct"] >= 2.9
    assert grpo["eval/distinct"] <= 2.2
    assert rarity["eval/distinct"] >= grpo["eval/distinct"] + 0.3
    assert grpo["eval/pass@16"] <= start["eval/pass@16"] - 0.1
