"""What a user can get wrong in a training run, and what happens then."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from polypath.core.errors import UserError
from polypath.core.rundir import RunDir
from polypath.tasks.countdown import Countdown
from polypath.tasks.protocol import Prompt, Score
from polypath.train.config import EarlyStop
from polypath.train.rl import check_failures, should_stop
from polypath.train.run import RunRequest, load_recipe, run


def go(recipe: Path, output: Path, *overrides: str) -> RunDir:
    request = RunRequest(load_recipe(str(recipe), overrides), output)
    return run(request, summarise=lambda rollouts, ks: {}, show_progress=False)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("credit=grppo", "Did you mean grpo?"),
        ("task=cuontdown", "Did you mean countdown?"),
        ("train.stepz=3", "Did you mean steps?"),
        ("credit.rarity.alfa=1", "Did you mean alpha?"),
        ("train.steps=-1", "train.steps"),
        ("rollout.group_size=0", "rollout.group_size"),
        ("rollout.temperature=0", "rollout.temperature"),
        ("loss=policy_clop", "Did you mean policy_clip?"),
    ],
)
def test_mistakes_are_named_before_anything_runs(override: str, message: str, recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        go(recipe, tmp_path / "run", override)
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_not_there(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        go(recipe, tmp_path / "run", "model.name=./nowhere")


def test_a_group_of_one_gives_no_update(recipe: Path, tmp_path: Path) -> None:
    directory = go(recipe, tmp_path / "run", "rollout.group_size=1", "train.steps=2")
    for row in directory.read_metrics():
        assert row["dead_groups"] == row["groups"] == 4 and "loss" not in row


def test_a_task_without_prompts(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match="empty"):
        go(recipe, tmp_path / "run", f"task={{jsonl: {{path: {tmp_path / 'empty.jsonl'}}}}}")


class Raising(Countdown):
    """A verifier that fails on some answers."""

    share = 1.0

    def verify(self, prompt: Prompt, text: str) -> Score:
        if hash(text) % 100 < 100 * self.share:
            raise RuntimeError("the judge is away")
        return super().verify(prompt, text)


def test_a_verifier_that_raises_stops_the_run_and_keeps_it(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polypath.core.registry._functions", {**_functions(), ("task", "countdown"): Raising})
    with pytest.raises(UserError, match=r"32 of 32 rollouts could not be verified .*the judge is away"):
        go(recipe, tmp_path / "run")
    assert RunDir(tmp_path / "run").info["run"]


def test_a_few_failed_verdicts_take_no_part(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polypath.core.registry._functions", {**_functions(), ("task", "countdown"): Raising})
    monkeypatch.setattr(Raising, "share", 0.3)
    directory = go(recipe, tmp_path / "run", "train.failure_tolerance=1.0", "train.steps=3")
    rows = directory.read_metrics()
    assert any(row["failed"] > 0 for row in rows)
    assert all(row["reward"] is None or 0.0 <= row["reward"] <= 1.0 for row in rows)


def _functions() -> dict:
    from polypath.core import registry

    registry.get("task", "countdown")
    return dict(registry._functions)


def test_the_tolerance_is_a_share() -> None:
    check_failures(5, 100, 0.05, "")
    with pytest.raises(UserError, match="6 of 100"):
        check_failures(6, 100, 0.05, "boom")


def test_early_stop_is_a_function_of_the_metrics() -> None:
    rule = EarlyStop(metric="reward", patience=2, min_delta=0.1)
    rising = [{"reward": x} for x in (0.1, 0.3, 0.5, 0.7)]
    flat = [{"reward": x} for x in (0.1, 0.5, 0.55, 0.5)]
    assert not should_stop(rising, rule)
    assert should_stop(flat, rule)  # 0.55 is less than 0.5 + 0.1
    assert not should_stop(flat[:2], rule)


def test_a_full_disk_keeps_the_last_checkpoint(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polypath.engines.transformers import TransformersPolicy

    save, calls = TransformersPolicy.save, []

    def full(self: TransformersPolicy, path: str) -> None:
        calls.append(path)
        save(self, path)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TransformersPolicy, "save", full)
    with pytest.raises(UserError, match="cannot write a checkpoint"):
        go(recipe, tmp_path / "run")
    kept = list((tmp_path / "run" / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["step-000002"]
    monkeypatch.setattr(TransformersPolicy, "save", save)
    assert go(recipe, tmp_path / "run").read_metrics()[-1]["step"] == 5


def test_a_model_that_cannot_fit_is_refused(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polypath.train.cost.free_memory", lambda: 10_000_000)
    with pytest.raises(UserError, match="GiB of memory"):
        go(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
