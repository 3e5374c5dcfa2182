"""Route frequencies on the map."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from polypath.core.record import Rollout
from polypath.core.store import RolloutWriter
from polypath.evaluate.runs import load_run
from polypath.report.routes_map import map_figure, route_pictures, street_shares

COORDINATES = {"A1": (0, 0), "B1": (1, 0), "A2": (0, 1), "B2": (1, 1)}
STREETS = [("A1", "B1"), ("A1", "A2"), ("B1", "B2"), ("A2", "B2")]


def test_shares_by_hand():
    routes = [["A1", "B1", "B2"], ["A1", "B1", "B2"], ["A1", "A2", "B2"]]
    shares = street_shares(routes)
    assert shares[frozenset(("A1", "B1"))] == pytest.approx(2 / 3) and shares[frozenset(("A2", "B2"))] == pytest.approx(
        1 / 3
    )


def test_a_street_is_as_wide_as_its_share():
    routes = [["A1", "B1", "B2"]] * 3 + [["A1", "A2", "B2"]]
    html = map_figure("<grpo>", COORDINATES, STREETS, routes, marks={"A1": "start", "B2": "goal"})
    figure = ET.fromstring(html.replace("&nbsp;", " "))
    ways = {
        line.find("title").text: float(line.get("stroke-width"))
        for line in figure.iter("line")
        if "way" in line.get("class")
    }
    assert ways["A1–B1: 75%"] == pytest.approx(3 * ways["A1–A2: 25%"], rel=0.05)
    assert "4 correct routes, 2 different" in html and ">start<" in html and "&lt;grpo&gt;" in html
    up = {c.get("cy") for c in figure.iter("circle")}
    assert len(up) == 2  # two rows of towns


def test_nothing_walked_leaves_the_bare_map():
    html = map_figure("base", COORDINATES, STREETS, [])
    assert "0 correct routes" in html and "way" not in html


def write_run(path: Path, routes):
    (path / "evaluation").mkdir(parents=True)
    (path / "recipe.yaml").write_text("task: routes\nmodel: {name: x}\ntrain: {steps: 0}\n", encoding="utf-8")
    with RolloutWriter(path / "evaluation" / "final.jsonl") as writer:
        writer.write(
            Rollout("p", "p", i, r, prompt="A1 B2 C2 >", correct=True, canonical=r) for i, r in enumerate(routes)
        )


def test_runs_of_the_routes_task_get_one_map_per_arm(tmp_path):
    write_run(tmp_path / "base" / "seed-0", ["A1 B1 B2", "A1 A2 B2"])
    write_run(tmp_path / "grpo" / "seed-0", ["A1 B1 B2", "A1 B1 B2"])
    maps = route_pictures([load_run(tmp_path / arm / "seed-0") for arm in ("base", "grpo")])
    assert len(maps) == 2 and "2 different" in maps[0] and "1 different" in maps[1] and ">start<" in maps[0]


def test_other_tasks_have_no_map(study):
    assert route_pictures([load_run(study / "grpo" / "seed-0")]) == []
