"""A run directory says what it is, and only one process writes it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polypath.core.errors import UserError
from polypath.core.rundir import RunDir

CHOICES = "Choose another directory, use the same recipe, or delete this one."


def start(path: Path, digest: str = "d" * 64, **options: object) -> RunDir:
    return RunDir.open(path, "seed: 1\n", digest, **options)  # type: ignore[arg-type]


def test_a_new_run_describes_itself(tmp_path: Path) -> None:
    with start(tmp_path / "new" / "run", seed=3, argv=["polypath", "train"]) as run:
        assert not run.resumed
        assert run.recipe.read_text() == "seed: 1\n"
        assert run.checkpoints.is_dir()
        info = run.info
    assert (info["run"], info["seed"], info["argv"]) == ("dddddddddddd-3", 3, ["polypath", "train"])
    assert info["versions"]["polypath"]
    assert info.keys() >= {"schema", "digest", "commit", "started"}


def test_the_same_recipe_resumes(tmp_path: Path) -> None:
    with start(tmp_path) as run:
        run.append_metrics({"step": 0, "loss": float("nan")})
        run.write_progress({"step": 1})
    before = (tmp_path / "run.json").read_text()
    with start(tmp_path, resume="must") as run:
        assert run.resumed
        run.append_metrics({"step": 1, "loss": 0.5})
        assert run.read_progress() == {"step": 1}
    assert (tmp_path / "run.json").read_text() == before
    assert RunDir(tmp_path).read_metrics() == [{"step": 0, "loss": None}, {"step": 1, "loss": 0.5}]


def test_refusals_list_the_choices(tmp_path: Path) -> None:
    run = tmp_path / "run"
    start(run).close()
    with pytest.raises(UserError) as other:
        start(run, digest="e" * 64)
    assert str(other.value) == f"{run}: holds the run of another recipe (its digest differs). {CHOICES}"
    with pytest.raises(UserError) as never:
        start(run, resume="never")
    assert str(never.value) == f"{run}: already holds a run, and resume is 'never'. {CHOICES}"
    with pytest.raises(UserError, match="holds no run to resume"):
        start(tmp_path / "other", resume="must")
    start(run).close()  # a refusal leaves no lock behind


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match=r"holds files but no run \(thesis\.tex\)"):
        start(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(UserError, match="cannot be a run directory"):
        start(tmp_path / "thesis.tex")
    with pytest.raises(UserError, match="is not a run"):
        _ = RunDir(tmp_path).info


def test_a_run_killed_while_it_started_can_start(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1")
    (tmp_path / ".run.json.tmp").write_text('{"ru')
    with start(tmp_path) as run:
        assert not run.resumed
    run.recipe.unlink()  # killed between run.json and recipe.yaml
    with start(tmp_path) as run:
        assert run.recipe.read_text() == "seed: 1\n"


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    program = """
import sys
from polypath.core.rundir import RunDir
run = RunDir.open(sys.argv[1], "", "d" * 64)
print("locked", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(UserError, match=f"is being written by process {other.pid}"):
            start(tmp_path)
    finally:
        other.kill()
        other.communicate()
    start(tmp_path).close()  # the lock ends with the process that held it
    assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_too_little_space_is_known_beforehand(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.free_space_check(1)
    with pytest.raises(UserError, match=r"needs \d+\.\d\d GB of disk, and \d+\.\d\d GB are free"):
        run.free_space_check(2 * shutil.disk_usage(tmp_path).total)


def test_run_json_is_plain_json(tmp_path: Path) -> None:
    start(tmp_path).close()
    assert json.loads((tmp_path / "run.json").read_text())["digest"] == "d" * 64
