"""Two processes take the same steps as one.

`accelerate launch --cpu` starts a second process only through MPI. Its launcher of several processes is called
`--multi_gpu`, and does the same on a machine without one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from polypath.core.rundir import RunDir
from polypath.core.store import read_rollouts

STEPS = ("-o", "train.steps=4", "-o", "train.prompts_per_step=5", "-o", "optim.eps=0.001", "-o", "optim.lr=0.01")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_give_the_weights_of_one(recipe: Path, start: Path, tmp_path: Path) -> None:
    """Five prompts over two processes: uneven shares, and the weights agree to rounding."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    accelerate = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", "--main_process_port", "0"]
    launch = [*accelerate, "--multi_gpu", "--num_processes", "2", "-m", "polypath"]
    for name, program in (("one", [sys.executable, "-m", "polypath"]), ("two", launch)):
        command = [*program, "train", str(recipe), "--output", str(tmp_path / name), *STEPS]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr
        assert ("2 processes share the prompts" in done.stderr) == (name == "two")
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two"))
    origin = load_file(start / "model.safetensors")
    assert max(float((one[key] - two[key]).abs().max()) for key in one) < 1e-5
    assert max(float((one[key] - origin[key]).abs().max()) for key in one) > 1e-3
    rows = [RunDir(tmp_path / name).read_metrics() for name in ("one", "two")]
    assert [row["reward"] for row in rows[0]] == [row["reward"] for row in rows[1]]
    assert [row["generated_tokens"] for row in rows[0]] == [row["generated_tokens"] for row in rows[1]]
    # Log-probabilities may differ in the last digit after the first update; what was sampled does not.
    texts = [
        [(r.group_id, r.index, r.text) for r in read_rollouts(tmp_path / name / "rollouts.jsonl")]
        for name in ("one", "two")
    ]
    assert texts[0] == texts[1]
