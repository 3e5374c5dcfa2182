"""The TRL adapter over two processes: credit sees the whole batch, and each rank gets its own rows back."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl")


@pytest.mark.slow
def test_two_processes_get_their_own_rows_of_the_whole_batchs_credit(tmp_path):
    script = Path(__file__).parent / "trl_two_processes.py"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # What torchrun sets. `accelerate launch --cpu` starts more than one process only through MPI.
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true"}
    quiet = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "CUDA_VISIBLE_DEVICES": ""}
    logs = [(tmp_path / f"{rank}.log").open("w") for rank in range(2)]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path)],
            env={**os.environ, **world, **quiet, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=logs[rank],
            stderr=subprocess.STDOUT,
        )
        for rank in range(2)
    ]
    try:
        codes = [rank.wait(timeout=270) for rank in ranks]
    finally:
        for rank, log in zip(ranks, logs, strict=True):
            rank.kill()
            log.close()
    assert codes == [0, 0], (tmp_path / "0.log").read_text()[-2000:]
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert [rank["rank"] for rank in seen["ranks"]] == [0, 1]
    prompts = [rank["steps"][0]["prompt"] for rank in seen["ranks"]]
    assert len(set(prompts)) == 2  # one group on each rank
    # Rewards are the lengths 6, 5, 4, 3 (mean 4.5) and 10 + 3, 2, 2, 1 (mean 12), centred and laid over the tokens.
    by_hand = {"w1 w2 w3": ([6, 5, 4, 3], [1.5, 0.5, -0.5, -1.5]), "w4 w5": ([3, 2, 2, 1], [1.0, 0.0, 0.0, -1.0])}
    for rank, prompt in zip(seen["ranks"], prompts, strict=True):
        lengths, advantages = by_hand[prompt]
        padded = [[a] * n + [0.0] * (lengths[0] - n) for a, n in zip(advantages, lengths, strict=True)]
        assert rank["steps"][0]["advantages"] == padded
    assert len(seen["logged"]) == 8
    assert seen["ranks"][0]["weight"] == seen["ranks"][1]["weight"]  # both took the same step
