"""What a user can get wrong in a training run, and what happens then."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from polypath.core.errors import UserError, UserErrors
from polypath.core.rundir import RunDir
from polypath.tasks.countdown import Countdown
from polypath.tasks.protocol import Prompt, Score
from polypath.train.config import EarlyStop
from polypath.train.rl import check_failures, should_stop
from polypath.train.run import RunRequest, load_recipe, run
from polypath.train.study import plan_study


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
        ("credit.rarity.alpha=.nan", "credit.rarity.alpha: expects a number, got nan"),
        ("credit=[{signal: rarity}]", "no stage gives advantages"),
        ("evaluate.ks=[0]", "evaluate.ks.0: must be at least 1"),
        ("task={countdown: {numbers: 9}}", "9 numbers cannot be enumerated"),
        ("task={jsonl: {path: nowhere.jsonl}}", "nowhere.jsonl: cannot be read"),
        ("seeds=[3, 3]", "the seed 3 is given twice"),
        ("arms={rarity/0.5: {}}", "'rarity/0.5' cannot be the name of a directory"),
        ("arms={..: {}}", "cannot be the name of a directory"),
    ],
)
def test_mistakes_are_named_before_anything_runs(override: str, message: str, recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        go(recipe, tmp_path / "run", override)
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_not_there(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        go(recipe, tmp_path / "run", "model.name=./nowhere")


def test_a_control_that_is_no_arm(recipe: Path) -> None:
    with pytest.raises(UserError, match=r"control: the recipe has no arm 'grop'\. Did you mean grpo\?"):
        load_recipe(str(recipe), ["arms={grpo: {}, rarity: {}}", "control=grop"])


def test_the_mistakes_of_all_arms_are_told_at_once(recipe: Path, tmp_path: Path) -> None:
    arms = "arms={a: {credit: grppo}, b: {train.stepz: 3}, c: {credit: [{signal: rarity}]}, d: {}}"
    with pytest.raises(UserErrors) as caught:
        plan_study(str(recipe), [arms], tmp_path / "study", seeds=[0])
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["arm 'a' credit", "arm 'b' train.stepz", "arm 'c' inline"]


def test_braces_in_the_name_of_a_model_are_part_of_it(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model './\{x\}-0'"):
        go(recipe, tmp_path / "run", "model.name=./{x}-{seed}")


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
    undefined = [{"reward": x} for x in (None, 0.1, float("nan"), 0.5, None, 0.55, 0.5)]
    assert should_stop(undefined, rule)
    with pytest.raises(UserError, match="there is no metric 'rewrad'"):
        should_stop(flat, EarlyStop(metric="rewrad"))


def test_a_run_that_stopped_early_is_not_trained_further(recipe: Path, tmp_path: Path) -> None:
    # An improvement by 9 is not possible, so it stops as soon as `patience` + 1 steps are done.
    rule = "train.early_stop={metric: reward, patience: 1, min_delta: 9}"
    first = go(recipe, tmp_path / "run", rule).read_metrics()
    again = go(recipe, tmp_path / "run", rule).read_metrics()
    assert [row["step"] for row in first] == [0, 1]
    assert again == first


def test_early_stop_by_an_evaluation(recipe: Path, tmp_path: Path) -> None:
    rule = "train.early_stop={metric: eval/flat, patience: 1}"
    evaluate = "evaluate={every: 1, prompts: 2, samples: 2, curve_prompts: 2, curve_samples: 2, ks: [1]}"
    request = RunRequest(load_recipe(str(recipe), [rule, evaluate, "train.early_stop.min_delta=1"]), tmp_path / "run")
    rows = run(request, summarise=lambda rollouts, ks: {"flat": 0.5}, show_progress=False).read_metrics()
    assert [row["step"] for row in rows if "reward" in row] == [0, 1]


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
