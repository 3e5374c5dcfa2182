"""Runs on disk: layout, arms and seeds, comparison from files."""

import pytest

from polypath.core.errors import UserError
from polypath.core.files import JsonlWriter
from polypath.core.record import Rollout
from polypath.core.store import RolloutWriter
from polypath.evaluate.runs import compare_runs, find_runs, load_run


def write_run(path, right, *, tokens=None, name="final.jsonl"):
    """A run of two prompts with four samples each, of which `right` are correct (the same solution)."""
    (path / "evaluation").mkdir(parents=True, exist_ok=True)
    with RolloutWriter(path / "evaluation" / name) as writer:
        for prompt_id in ("p", "q"):
            judged = [("a", True)] * right + [("x", False)] * (4 - right)
            writer.write(
                Rollout(prompt_id, prompt_id, i, form, correct=ok, canonical=form, extra={"n_solutions": 2})
                for i, (form, ok) in enumerate(judged)
            )
    if tokens is not None:
        with JsonlWriter(path / "metrics.jsonl") as writer:
            writer.write([{"step": 0, "generated_tokens": tokens}, {"step": 1, "eval/pass@1": 0.5}])


def test_a_study_directory_becomes_arms_and_seeds(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path / "base" / f"seed-{seed}", 3, tokens=100)
        write_run(tmp_path / "grpo" / f"seed-{seed}", 1, tokens=150)
        write_run(tmp_path / "grpo" / f"seed-{seed}", 4, name="step-000001.jsonl")  # a curve point is not the result
    result = compare_runs([tmp_path], baseline="base")
    assert list(result.arms) == ["base", "grpo"] and result.seeds == [0, 1, 2]
    d = result.difference("grpo", "pass@1")
    assert d.value == pytest.approx(-0.5) and d.n_prompts == 2 and d.unit == "seeds"
    assert result.value("grpo", "coverage").value == 0.5
    assert result.tokens == {"base": 100, "grpo": 150} and any("unequal budgets" in note for note in result.notes)


def test_an_untrained_arm_is_the_start_that_the_control_is_compared_with(tmp_path):
    for arm, right, tokens in (("start", 2, None), ("grpo", 3, 100), ("rarity", 3, 101)):
        write_run(tmp_path / arm / "seed-0", right, tokens=tokens)
    (tmp_path / "rarity" / "seed-0" / "recipe.yaml").write_text("control: grpo\n", encoding="utf-8")
    result = compare_runs([tmp_path])
    assert list(result.arms) == ["start", "grpo", "rarity"] and result.baseline == "grpo"
    assert {(d.arm, d.baseline) for d in result.differences} == {("grpo", "start"), ("rarity", "grpo")}
    assert result.tokens == {"start": 0, "grpo": 100, "rarity": 101}
    assert not any("unequal" in note for note in result.notes)
    assert [(d.arm, d.baseline) for d in compare_runs([tmp_path], baseline="start").differences][:1] == [
        ("grpo", "start")
    ]


def test_files_and_repeated_arms(tmp_path):
    write_run(tmp_path / "one", 2)
    file = tmp_path / "one" / "evaluation" / "final.jsonl"
    other = tmp_path / "two_seed3.jsonl"
    other.write_bytes(file.read_bytes())
    assert (load_run(other).arm, load_run(other).seed) == ("two", 3)
    write_run(tmp_path / "again" / "one", 2)
    with pytest.raises(UserError, match="second run of arm 'one'"):
        compare_runs([tmp_path / "one", tmp_path / "again" / "one"])
    assert find_runs([tmp_path / "one", tmp_path / "one"]) == [tmp_path / "one"]


def test_what_is_not_a_run_is_named(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        find_runs([tmp_path / "nothing"])
    with pytest.raises(UserError, match="no evaluation rollouts"):
        compare_runs([tmp_path])
