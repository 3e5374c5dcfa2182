"""Command lines that are written down: the example in each help, in the README, the Makefile and the CI script."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from polypath.cli import main as cli

ROOT = Path(__file__).parents[2]
EXAMPLES = {name: importlib.import_module(f"polypath.cli.{name}").EXAMPLE for name in cli.COMMANDS}
ALONE = ("list", "show", "check", "init", "doctor", "credit")  # examples that need no file made before
SHORT = re.search(r"SHORT := \$\(if .*?,(-o .*)\)", (ROOT / "Makefile").read_text(encoding="utf-8"))[1]
WRITTEN = re.compile(r"""\s*(echo '.*' \| )?[\w$()"./]*polypath"? [a-z]+( |$)""")  # a command at a line's start


def written_down() -> list[str]:
    lines = list(EXAMPLES.values())
    for document in ("README.md", "Makefile", ".ci/bare", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        lines += [line.strip() for line in text.splitlines() if WRITTEN.match(line)]
    return list(dict.fromkeys(lines))


def arguments(line: str) -> list[str]:
    """What follows `polypath` on a line of shell, up to a pipe, a redirection or a comment."""
    line = line.replace("$(SEEDS)", "3").replace("$(SHORT)", SHORT)
    words = shlex.split(line, comments=True)
    start = next(i for i, word in enumerate(words) if word.endswith("polypath")) + 1
    stop = next((i for i in range(start, len(words)) if words[i] in ("|", ">", "2>", "||")), len(words))
    return words[start:stop]


def test_there_are_lines_to_check():
    assert {arguments(line)[0] for line in written_down()} == set(cli.COMMANDS)


@pytest.mark.parametrize("line", written_down())
def test_a_written_line_is_understood(line):
    """Parsed by the command itself, which refuses unknown options and missing arguments; not run."""
    name, *rest = arguments(line)
    group = typer.main.get_command(cli.app)
    command = group.get_command(None, name)
    context = command.make_context(name, rest)
    assert context.command.name == name


@pytest.mark.parametrize("name", ALONE)
def test_an_example_that_needs_no_file_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = re.match(r"echo '(.*)' \|", EXAMPLES[name])
    result = CliRunner().invoke(cli.app, arguments(EXAMPLES[name]), input=given and given[1])
    assert result.exit_code == 0, result.stderr
    assert result.stdout


def test_make_names_its_targets():
    done = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True)
    assert {"quickstart", "test", "check", "lint"} <= set(re.findall(r"make (\w+) ", done.stdout))


@pytest.mark.parametrize(
    ("python", "message"),
    [("/bin/false", "needs Python 3.11 or newer"), ("/nonexistent/python", "needs Python 3.11 or newer")],
)
def test_make_refuses_a_python_that_will_not_do(tmp_path, python, message):
    line = ["make", "-C", str(ROOT), "test", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert message in done.stdout
    assert not (tmp_path / "venv").exists()
