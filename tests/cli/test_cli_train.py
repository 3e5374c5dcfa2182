"""`polypath train`: exit codes and files of runs that end well, fail, are interrupted, or are only partly done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polypath.cli.main import app
from polypath.core.errors import ExitCode

SINGLE = """\
task: countdown
model: {name: nowhere}
credit: grpo
train: {steps: 5}
"""
STUDY = SINGLE + "evaluate: {prompts: 2, samples: 4, ks: [1, 4]}\narms: {grpo: {}, rarity: {credit: rarity}}\n"


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    """Run the command in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def call(text: str, *args: str):
        Path("recipe.yaml").write_text(text)
        return runner.invoke(app, ["train", "recipe.yaml", *args])

    return call


def in_a_run(error: BaseException):
    """A stand-in for training that starts a run and then fails."""

    def run(request, **_):
        request.output.mkdir(parents=True, exist_ok=True)
        (request.output / "run.json").write_text("{}")
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            KeyboardInterrupt(),
            130,
            "Interrupted.\nWhat is done is kept in runs/recipe; the same command continues it.\n",
        ),
        (ValueError("bad shape"), 1, "polypath failed: ValueError: bad shape.\nTraceback in runs/recipe/run.log.\n"),
        (MemoryError(), 1, "out of memory on the host"),
    ],
    ids=["interrupted", "failed", "out of memory"],
)
def test_a_run_that_does_not_end_well(invoke, monkeypatch, error, code, text):
    monkeypatch.setattr("polypath.train.run.run", in_a_run(error))
    result = invoke(SINGLE, "--json")
    assert result.exit_code == code
    assert text in result.stderr
    assert result.stdout == ""
    assert f"{type(error).__name__}" in Path("runs/recipe/run.log").read_text()


def evaluated(job) -> None:
    folder = job.output / "evaluation"
    folder.mkdir(parents=True)
    rows = [
        {"prompt_id": f"p{p}", "group_id": f"p{p}", "index": i, "text": "x", "correct": i < 2, "canonical": f"c{i}"}
        for p in range(2)
        for i in range(4)
    ]
    (folder / "final.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("failing", "code"),
    [((), ExitCode.DONE), (("rarity",), ExitCode.PARTIAL), (("grpo", "rarity"), ExitCode.FAILED)],
    ids=["all done", "some failed", "all failed"],
)
def test_a_study_says_how_much_of_it_is_done(invoke, monkeypatch, failing, code):
    def run_study(jobs, **_):
        for job in jobs:
            evaluated(job)
        return [job for job in jobs if job.arm in failing]

    monkeypatch.setattr("polypath.train.study.run_study", run_study)
    monkeypatch.setattr("polypath.train.study.failure", lambda job: "it broke")
    result = invoke(STUDY, "--json", "--seeds", "1")
    assert result.exit_code == code
    found = json.loads(result.stdout)
    assert [Path(path).parent.name for path in found["failed"]] == list(failing)
    assert found["exit"] == code
    for arm in failing:
        assert f"{arm} seed 0 failed: it broke" in result.stderr
    assert ("report" in found) == (code != ExitCode.FAILED)
    if "report" in found:
        assert Path(found["report"]).is_file()


def test_a_study_prints_its_table_and_names_its_report(invoke, monkeypatch):
    def run_study(jobs, **_):
        for job in jobs:
            evaluated(job)
        return []

    monkeypatch.setattr("polypath.train.study.run_study", run_study)
    result = invoke(STUDY, "--seeds", "1")
    assert "rarity - grpo" in result.stdout
    assert result.stdout.endswith("Report: runs/recipe/report.html\n")


@pytest.mark.slow
def test_a_supervised_run_from_start_to_end(invoke):
    text = """\
task: countdown
model: {n_embd: 16, n_layer: 1, n_head: 2, n_inner: 32}
sft: {steps: 2, batch: 4, prompts: 20}
evaluate: {prompts: 2, samples: 4, ks: [1, 4]}
rollout: {max_new_tokens: 16}
"""
    result = invoke(text, "--json", "--output", "lauf ü")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {"run": "lauf ü", "exit": 0}
    assert Path("lauf ü", "model", "config.json").is_file()
    other = invoke(text.replace("steps: 2", "steps: 3"), "--output", "lauf ü")
    assert other.exit_code == ExitCode.USER_ERROR
    assert "another recipe" in other.stderr


def test_an_output_that_cannot_be_written(invoke, tmp_path):
    """A file stands where the study's directory should be."""
    Path("taken").write_text("")
    study = "task: countdown\nmodel: {name: countdown-0}\ncredit: grpo\ntrain: {steps: 1}\nseeds: [0, 1]\n"
    result = invoke(study, "--output", "taken/study")
    assert result.exit_code == 2 and "Choose another --output" in result.stderr


@pytest.mark.parametrize(("text", "args", "seed"), [("seeds: [7]\n", (), 7), ("seeds: [5, 6]\n", ("--seeds", "1"), 5)])
def test_one_run_is_that_of_the_seed_which_the_recipe_names(invoke, monkeypatch, text, args, seed):
    seen = []
    monkeypatch.setattr("polypath.train.run.run", lambda request, **_: seen.append(request.recipe.seed))
    assert invoke(SINGLE + text, *args).exit_code == ExitCode.DONE
    assert seen == [seed]


def test_a_study_names_missing_models_once_and_starts_nothing(invoke, monkeypatch):
    from polypath.train import study

    monkeypatch.setattr(study, "_start", lambda *args: pytest.fail("a run was started"))
    result = invoke("extends: corner_countdown\n")
    assert result.exit_code == 2
    assert [line.split(":")[0] for line in result.stderr.splitlines() if "no such directory" in line] == [
        f"model 'runs/countdown-sft-{seed}/model'" for seed in (7, 8)
    ]
