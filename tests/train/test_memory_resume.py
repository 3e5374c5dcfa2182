"""What credit remembers goes on with a resumed run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polypath.train import rl
from polypath.train.run import RunRequest, load_recipe, run


class Killed(Exception):
    pass


def train(recipe: Path, output: Path, method: str) -> list[Path]:
    request = RunRequest(load_recipe(str(recipe), [f"credit={method}", "train.prompts_per_step=12"]), output)
    run(request, summarise=lambda rollouts, ks: {}, show_progress=False)
    return [output / name for name in ("rollouts.jsonl", "metrics.jsonl", "model/model.safetensors")]


def test_a_run_broken_off_between_checkpoints_ends_with_the_same_bytes(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(recipe, tmp_path / "whole", "meds")
    last = json.loads(whole[1].read_text().splitlines()[-1])
    assert last["frac_signal_from_diversity"] > 0  # errors that were made on these prompts before
    step, remembered = rl.train_step, []

    def breaks_off(session: rl.Session, number: int) -> dict[str, float]:
        if number == 5:
            remembered.append(len(session.memory))
            raise Killed
        return step(session, number)

    with monkeypatch.context() as patch:
        patch.setattr(rl, "train_step", breaks_off)
        with pytest.raises(Killed):
            train(recipe, tmp_path / "broken", "meds")
    assert remembered[0] > 0
    resumed = train(recipe, tmp_path / "broken", "meds")
    for one, two in zip(whole, resumed, strict=True):
        assert one.read_bytes() == two.read_bytes(), one.name
