"""`polypath select` on files of every kind, in bounded memory, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from polypath.cli.main import app
from polypath.core.document import packaged
from polypath.diversity.selectors.lazy import dpp

TEXTS = ["a red cat", "a red cat", "the blue dog runs", "über den Fluss", "two plus two is four", "a red cat sat"]
ROWS = [{"text": text, "score": i / 10, "kind": "ab"[i % 2], "id": f"r{i}"} for i, text in enumerate(TEXTS)]


@pytest.fixture
def cli():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, ["select", *map(str, arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "daten.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_picks_keep_their_columns(cli, data: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"picks{ending}"
    done = cli(data, "--k", 4, "--out", out, "--quality", "score", "-o", "weight=99")
    assert done.exit_code == 2 and "dpp.weight" in done.stderr  # exp(99 * .5) overflows
    done = cli(data, "--k", 4, "--out", out, "--method", "mmr", "--quality", "score")
    assert done.exit_code == 0, done.stderr
    if ending == ".jsonl":
        found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    elif ending == ".csv":
        found = list(csv.DictReader(out.open(encoding="utf-8")))
    else:
        from pyarrow.parquet import read_table

        found = read_table(out).to_pylist()
    assert [str(row["rank"]) for row in found] == ["1", "2", "3", "4"]
    assert len({row["text"] for row in found}) == 4 and {"id", "score", "gain", "reason", "row"} <= found[0].keys()
    assert "nearest pick" in found[1]["reason"] and "quality" in found[0]["reason"]
    assert cli(data, "--out", out).exit_code == 2  # nothing is overwritten


@pytest.mark.parametrize("method", ["dpp", "k_center", "max_sum", "facility_location", "graph_cut", "novel", "k_dpp"])
def test_methods_of_texts(cli, data: Path, method: str) -> None:
    knobs = ("-o", "penalty=0.6") if method == "graph_cut" else ()  # at .5 a copy ties with what is near
    found = json.loads(cli(data, "--k", 3, "--method", method, "--json", *knobs).stdout)
    assert found["n"] == 6 and len(set(found["row"])) == 3 and not {0, 1} <= set(found["row"])  # no copy


def test_methods_of_classes_and_columns(cli, data: Path, tmp_path: Path) -> None:
    found = json.loads(
        cli(data, "--k", 2, "--method", "quota", "--column", "labels=kind", "--quality", "score", "--json").stdout
    )
    assert sorted(found["row"]) == [4, 5] and found["reason"][0].startswith("class")
    path = tmp_path / "sets.jsonl"
    path.write_text("".join(json.dumps({"sets": s}) + "\n" for s in ([1, 2], [2, 3, 4], [5])))
    assert json.loads(cli(path, "--k", 2, "--method", "features", "--json").stdout)["row"] == [1, 0]


def test_vectors_stay_on_the_disk(cli, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    rows = np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 16)
    path = tmp_path / "vectors.parquet"
    write_table(pa.table({"vector": vectors, "id": list(range(3000))}), path, row_group_size=700)
    found = json.loads(cli(path, "--k", 50, "--embed", "column:vector", "--json").stdout)
    assert found["row"] == dpp(rows, k=50).indices
    out = tmp_path / "picks.jsonl"
    assert cli(path, "--k", 50, "--embed", "column:vector", "--out", out).exit_code == 0
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in written] == found["row"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "dppp"), "Did you mean dpp"),
        (("-o", "rige=1"), "Did you mean ridge"),
        (("--quality", "scor"), "Did you mean score"),
        (("--quality", "id", "--method", "mmr"), "'r0' is not a number"),
        (("--method", "mmr"), "needs quality"),
        (("--column", "text=body"), "no column 'body'"),
        (("--embed", "column:vec"), "no column 'vec'"),
        (("--out", "picks.xlsx"), "ending"),
        (("--method", "portfolio"), "needs success"),
        (("--method", "d3"), "needs difficulty"),
        (("--method", "random", "--quality", "score"), "takes no quality"),
        (("--include", "99"), "no row with number 99"),
        (("--include", "r0,rx"), "no row with id rx"),
        (("--include", "1,1"), "not different indices"),
        (("--include", "1", "--method", "quota", "--quality", "score", "--column", "labels=kind"), "cannot continue"),
    ],
)
def test_mistakes(cli, data: Path, arguments: tuple[str, ...], message: str) -> None:
    done = cli(data, *arguments)
    assert done.exit_code == 2 and message in done.stderr and not done.stdout


def test_files_that_cannot_be_selected_from(cli, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "no rows" in cli(empty).stderr
    numbers = tmp_path / "numbers.jsonl"
    numbers.write_text('{"x": 1}\n')
    assert "Name one with --column text=NAME" in cli(numbers).stderr
    assert cli(tmp_path / "missing.jsonl").exit_code == 2


def test_a_parquet_file_that_is_none(cli, tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").write_bytes(b"")
    done = cli(tmp_path / "empty.parquet")
    assert done.exit_code == 2 and "cannot be read as Parquet" in done.stderr


def test_models_of_each_row_stand_in_the_row(cli, tmp_path: Path) -> None:
    """Two models agree on the first row and not on the second."""
    path = tmp_path / "models.jsonl"
    rows = ([[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]])
    path.write_text("".join(json.dumps({"probabilities": row}) + "\n" for row in rows))
    assert json.loads(cli(path, "--k", 1, "--method", "disagreement", "--json").stdout)["row"] == [1]


def test_a_selection_begins_with_what_is_included(cli, data: Path, tmp_path: Path) -> None:
    """By number, by id, and from the file of an earlier selection, found by id though the rows have moved."""
    for given in ("3,1", "r3,r1"):
        assert json.loads(cli(data, "--k", 4, "--include", given, "--json").stdout)["row"][:2] == [3, 1]
    whole = json.loads(cli(data, "--k", 5, "--json").stdout)["row"]
    out = tmp_path / "picks.jsonl"
    assert cli(data, "--k", 2, "--out", out).exit_code == 0
    assert json.loads(cli(data, "--k", 5, "--include", out, "--json").stdout)["row"] == whole
    moved = tmp_path / "moved.jsonl"
    moved.write_text("".join(json.dumps(row) + "\n" for row in ROWS[::-1]), encoding="utf-8")
    assert json.loads(cli(moved, "--k", 2, "--include", out, "--json").stdout)["row"] == [5 - i for i in whole[:2]]
    assert "missing.jsonl" in cli(data, "--include", tmp_path / "missing.jsonl").stderr


@pytest.mark.parametrize("name", packaged("selections"))
def test_every_recipe_runs_from_a_file(cli, tmp_path: Path, name: str) -> None:
    """The worked example of each paper, its fields as columns of a file."""
    example = yaml.safe_load(packaged("selections")[name].read_text(encoding="utf-8"))["examples"][0]
    n = len(next(iter(example["given"].values())))
    path = tmp_path / "given.jsonl"
    rows = [{field: values[i] for field, values in example["given"].items()} for i in range(n)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    knobs = [part for key, value in example.get("knobs", {}).items() for part in ("-o", f"{key}={json.dumps(value)}")]
    columns = [
        part for key in ("quality", "labels", "steps") if key in rows[0] for part in ("--column", f"{key}={key}")
    ]
    columns += ["--column", "text=texts"] if "texts" in rows[0] else []
    embed = ["--embed", "column:embeddings"] if "embeddings" in rows[0] else []
    done = cli(path, "--k", example["k"], "--method", name, "--json", *knobs, *columns, *embed)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["row"] == example["indices"]


def test_within_groups(cli, data: Path) -> None:
    found = json.loads(
        cli(data, "--k", 2, "--method", "top", "--quality", "score", "--group-by", "kind", "--json").stdout
    )
    assert found["row"] == [4, 2, 5, 3] and found["group"] == ["a", "a", "b", "b"]
    assert found["reason"][0].startswith("group a")
