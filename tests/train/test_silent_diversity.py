"""A diversity signal that does nothing is told while the run goes on, and diagnosed after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from polypath.evaluate.diagnose import diagnose
from polypath.evaluate.trace import Trace
from polypath.train.progress import Silence
from polypath.train.run import RunRequest, load_recipe, run


def train(recipe: Path, output: Path, credit: str) -> list[str]:
    loss = "loss={policy_clip: {aggregate: sequence_mean}}"
    run(
        RunRequest(load_recipe(str(recipe), [f"credit={credit}", loss, "train.prompts_per_step=8"]), output),
        summarise=lambda rollouts, ks: {},
        show_progress=True,
    )
    return [found.name for found in diagnose(Trace.read(output)).diagnoses]


def test_a_gate_of_another_scale_trains_like_grpo_and_is_diagnosed(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = "{dpwriter_reward: {gate: {reward_above: {threshold: 10}}}}"
    assert "diversity_silent" in train(recipe, tmp_path / "closed", closed)
    assert "has changed no credit in 6 steps" in capsys.readouterr().err
    assert "diversity_silent" not in train(recipe, tmp_path / "open", "dpwriter_reward")
    assert "changed no credit" not in capsys.readouterr().err
    train(recipe, tmp_path / "grpo", "grpo")
    weights = {name: (tmp_path / name / "model/model.safetensors").read_bytes() for name in ("closed", "open", "grpo")}
    assert weights["closed"] == weights["grpo"] != weights["open"]


def test_silence_is_told_once_and_only_when_nothing_moved() -> None:
    still, moves = {"frac_moved_by_diversity": 0.0}, {"frac_moved_by_diversity": 0.1}
    watch = Silence(100, first=3)
    assert [bool(watch.tell(still)) for _ in range(6)] == [False, False, True, False, False, False]
    assert "in 3 steps" in str(
        [Silence(3, first=9).tell(still), (w := Silence(3)).tell(still), w.tell(still), w.tell(still)]
    )
    for first in (moves, {}):
        watch = Silence(100, first=3)
        assert not any(watch.tell(row) for row in (first, still, still, still))
