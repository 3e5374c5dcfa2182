"""Every method file through the commands that a user sees: list, show, and credit on its own worked example."""

import json

import pytest
from typer.testing import CliRunner

from polypath import credit
from polypath.cli.main import app

RUNNER = CliRunner()
METHODS = credit.methods()


def flat(advantages):
    return [value for row in advantages for value in (row if isinstance(row, list) else [row])]


def test_list_shows_all_of_them():
    items = json.loads(RUNNER.invoke(app, ["list", "credit", "--json"]).stdout)["items"]
    assert set(METHODS) <= {item["name"] for item in items}


@pytest.mark.parametrize("name", METHODS)
def test_show_and_credit(name, tmp_path):
    method = credit.load_method(name)
    shown = RUNNER.invoke(app, ["show", f"credit/{name}"])
    assert shown.exit_code == 0 and " ".join(method.summary.split())[:40] in " ".join(shown.stdout.split())
    for example in method.examples:
        path = tmp_path / "group.json"
        path.write_text(json.dumps(example["given"]), encoding="utf-8")
        knobs = [
            part for knob, value in example.get("knobs", {}).items() for part in ("-o", f"{knob}={json.dumps(value)}")
        ]
        result = RUNNER.invoke(app, ["credit", name, str(path), "--json", *knobs])
        assert result.exit_code == 0, result.stderr
        found = json.loads(result.stdout, parse_constant=pytest.fail)["advantages"]
        assert flat(found) == pytest.approx(flat(example["advantages"]), abs=example.get("tolerance", 1e-9))
        table = RUNNER.invoke(app, ["credit", name, str(path), *knobs])
        assert table.exit_code == 0 and table.stdout.startswith("rollout")
