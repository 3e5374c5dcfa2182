"""The command as a whole: help, exit codes, errors, and what it may not import."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from polypath import __version__
from polypath.cli import main as cli
from polypath.cli import output
from polypath.core.errors import ExitCode, UserError, UserErrors

HEAVY = ("torch", "transformers", "pandas", "scipy", "matplotlib", "datasets", "pyarrow")
MAX_HELP_LINES, MAX_OPTIONS = 40, 12


@pytest.fixture
def run():
    runner = CliRunner()
    return lambda *args, **kwargs: runner.invoke(cli.app, [str(arg) for arg in args], **kwargs)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_is_short_and_has_an_example(run, command):
    result = run(command, "--help")
    lines = result.stdout.splitlines()
    options = [line for line in lines if line.strip().startswith("-")]
    assert result.exit_code == 0
    assert len(lines) <= MAX_HELP_LINES
    assert len(options) - 1 <= MAX_OPTIONS  # --help itself apart
    assert any(line.strip().startswith("Example: ") for line in lines)


def test_the_top_help_lists_every_command(run):
    result = run("--help")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) <= MAX_HELP_LINES
    assert all(f"  {name}" in result.stdout for name in cli.COMMANDS)


def test_version(run):
    assert run("--version").stdout == f"polypath {__version__}\n"


@pytest.mark.parametrize("typo, meant", [("trian", "train"), ("lst", "list"), ("mesure", "measure")])
def test_an_unknown_command_is_a_user_error_with_a_suggestion(run, typo, meant):
    result = run(typo)
    assert result.exit_code == ExitCode.USER_ERROR
    assert result.stderr == f"polypath: there is no command '{typo}'. Did you mean {meant}?\n"


def test_an_unknown_option_is_a_user_error(run):
    result = run("list", "--colour")
    assert result.exit_code == ExitCode.USER_ERROR
    assert "--colour" in result.stderr
    assert result.stdout == ""


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", "runs/x/rollouts.jsonl")


FAULTS = [
    (UserError("r.yaml:3 credit", "no such thing", "Did you mean that?"), 2, "r.yaml:3 credit: no such thing. Did you"),
    (UserErrors([UserError("a", "one"), UserError("b", "two")]), 2, "a: one.\nb: two."),
    (KeyboardInterrupt(), 130, "Interrupted."),
    (MemoryError(), 1, "out of memory on the host. Lower train.tokens_per_microbatch"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 1, "out of memory on the host."),
    (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory."), 1, "out of memory on the device."),
    (full_disk(), 1, "the disk is full (runs/x/rollouts.jsonl)."),
    (ValueError("bad shape\nsecond line"), 1, "polypath failed: ValueError: bad shape."),
    (KeyError("labels"), 1, "polypath failed: KeyError: 'labels'."),
    (ZeroDivisionError(), 1, "polypath failed: ZeroDivisionError."),
]


def breaks(monkeypatch, error: BaseException) -> None:
    def raising(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr("polypath.cli.catalogue.catalogue", raising)


@pytest.mark.parametrize(("error", "code", "text"), FAULTS, ids=lambda value: type(value).__name__)
def test_every_fault_has_its_exit_code_and_one_cause(run, monkeypatch, error, code, text):
    breaks(monkeypatch, error)
    result = run("list", "--json")
    assert result.exit_code == code
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 2
    assert result.stdout == ""


@pytest.mark.parametrize("line", [("--debug", "list"), ("list", "--debug"), ("list", "--json", "--debug")])
def test_debug_prints_the_traceback_wherever_it_stands(run, monkeypatch, line):
    breaks(monkeypatch, ValueError("bad shape"))
    result = run(*line)
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.rstrip().endswith("polypath failed: ValueError: bad shape.")


def test_notes_on_an_exception_follow_the_cause(run, monkeypatch):
    error = ValueError("bad shape")
    error.add_note("Traceback in runs/x/run.log.")
    breaks(monkeypatch, error)
    assert run("list").stderr == "polypath failed: ValueError: bad shape.\nTraceback in runs/x/run.log.\n"


def test_json_is_strict(capsys):
    output.emit({"undefined": float("nan"), "values": [1.0, float("nan")], "text": "é"})
    assert json.loads(capsys.readouterr().out) == {"undefined": None, "values": [1.0, None], "text": "é"}


def test_what_a_library_prints_does_not_reach_stdout(capsys):
    with output.results_only():
        print("chatter")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "chatter\n")


def test_an_undefined_number_prints_as_a_dash():
    assert output.table(("a", "b"), [(float("nan"), None)]).splitlines()[1].split() == ["-", "-"]


LIGHT = [
    ("--help",),
    ("train", "--help"),
    ("list", "--json"),
    ("show", "rarity"),
    ("check", "--help"),
    ("doctor", "--json"),
    ("credit", "rarity", "-", "--json"),
]


@pytest.mark.parametrize("line", LIGHT, ids=" ".join)
def test_light_commands_import_nothing_heavy(line):
    """In a process of its own, because this one has imported everything already."""
    code = (
        "import sys\nfrom polypath.cli.main import app\n"
        f"sys.argv = ['polypath', *{list(line)!r}]\n"
        "try:\n    app()\n"
        "except SystemExit as end:\n    code = end.code\n"
        f"print(code, [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    group = '{"rewards": [1, 0], "labels": [0, 1]}'
    done = subprocess.run([sys.executable, "-c", code], input=group, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "0 []"


def test_completion_offers_names_without_running_anything():
    environment = {
        **os.environ,
        "_POLYPATH_COMPLETE": "complete_bash",
        "COMP_WORDS": "polypath credit rar",
        "COMP_CWORD": "2",
    }
    code = "from polypath.cli.main import app; app(prog_name='polypath')"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["rarity"]


def test_a_closed_pipe_ends_quietly():
    line = f"{sys.executable} -m polypath list --json | head -c 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr
