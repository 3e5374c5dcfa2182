"""`polypath sample` and the plans in `show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polypath.cli.main import app
from polypath.core.store import read_rollouts


@pytest.fixture
def cli():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, list(arguments))


def test_sampling_a_task_by_a_plan(cli, tmp_path: Path) -> None:
    out = tmp_path / "rollouts.jsonl"
    given = ("--task", "countdown", "--model", "countdown-0", "-n", "2", "--max-new-tokens", "16", "--out", str(out))
    done = cli("sample", "--plan", "treerpo", "-o", "n=2", "-o", "depth=2", *given, "--json")
    found = json.loads(done.stdout)
    rows = read_rollouts(out)
    assert found["rollouts"] == len(rows) == 8 and found["groups"] == 2
    assert found["tokens"]["generated"] == sum(row.tokens["generated"] for row in rows) > 0
    again = cli("sample", *given)
    assert again.exit_code == 2 and "exists already" in again.stderr
    assert len(read_rollouts(out)) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--plan", "treerpoo", "x"), "Did you mean treerpo"),
        ((), "nothing to sample from"),
        (("x", "--task", "countdown"), "not both"),
        (("--task", "countdwn"), "Did you mean countdown"),
        (("--plan", "grpo", "-o", "k=3", "x"), "no knob named 'k'"),
    ],
)
def test_mistakes_are_found_before_a_model_loads(cli, arguments: tuple[str, ...], message: str) -> None:
    done = cli("sample", *arguments)
    assert done.exit_code == 2 and message in done.stderr and not done.stdout


def test_a_dry_run_needs_no_model(cli) -> None:
    found = json.loads(cli("sample", "--plan", "treerpo", "--dry-run", "--json", "x").stdout)
    assert found["answers"] == 64 and found["tree"][0] == "prompt 0 tokens"
    # 4 + 16 + 64 segments of 22, 22 and 20 of the answer's 64 tokens
    assert found["token_bound"] == 4 * 22 + 16 * 22 + 64 * 20
    shown = cli("show", "plan/strata").stdout
    assert "conditioner" in shown and "tokens" in shown and "answers and strategies" in shown
