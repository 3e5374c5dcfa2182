"""What is drawn: ranges, ticks, bands, the frontier, and one table for every picture."""

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from polypath.evaluate.compare import compare
from polypath.evaluate.summary import Summary
from polypath.report.figure import Figure, Series, log_ticks, number, ticks
from polypath.report.figures import curve, frontier, frontier_text, mean_curve, pass_at_k_figure
from polypath.report.svg import render

NS = "{http://www.w3.org/2000/svg}"


def parse(svg):
    return ET.fromstring(svg.replace("<svg ", f'<svg xmlns="{NS[1:-1]}" ', 1))


def test_frontier_keeps_what_nothing_beats():
    points = {"a": (1.0, 0.3), "b": (2.0, 0.3), "c": (3.0, 0.1), "d": (2.5, 0.1), "e": (math.nan, 1.0), "f": (3.0, 0.1)}
    # a: b is as accurate and more diverse. d: c has the same accuracy and is more diverse. c and f are equal: both stay
    assert frontier(points) == ["b", "c", "f"]


def test_frontier_text_names_the_arms_of_the_whole_line():
    def runs(distinct, right):
        return {0: Summary(("p",), {"distinct": np.array([distinct]), "pass@1": np.array([right])})}

    arms = {"grpo": runs(1.4, 0.30), "rarity": runs(2.8, 0.27), "bonus": runs(1.3, 0.28)}
    text = frontier_text(compare(arms))
    assert text.startswith(
        "On the Pareto line, from accurate to diverse: grpo (1.400 distinct, pass@1 0.300), rarity ("
    )
    assert text.endswith("bonus is dominated: another arm is at least as good in both.")


def test_svg_is_well_formed_and_places_points_where_they_belong():
    series = Series(
        "<arm>", [1.0, 4.0, 16.0], [0.2, math.nan, 0.8], [0.1, math.nan, 0.7], [0.3, math.nan, 0.9], label="a&b"
    )
    svg = parse(render(Figure("f", "A < B", "k", "y", [series], log_x=True)))
    dots = [g for g in svg.iter(f"{NS}g") if "dot" in g.get("class")]
    assert len(dots) == 2 and dots[0].find(f"{NS}title").text == "<arm>: 1, 0.200 [0.100, 0.300]"
    first, last = (g.find(f"{NS}circle") for g in dots)
    assert float(first.get("cx")) < float(last.get("cx")) and float(first.get("cy")) > float(last.get("cy"))
    assert svg.find(f"{NS}title").text == "A < B" and svg.get("role") == "img"
    assert len(list(svg.iter(f"{NS}polygon"))) == 1  # the band, without the undefined point


def test_an_empty_and_a_constant_figure_can_be_drawn():
    assert parse(render(Figure("e", "t", "x", "y", []))) is not None
    assert parse(render(Figure("c", "t", "x", "y", [Series("a", [3.0], [0.0])]))) is not None


def test_the_table_says_what_the_picture_shows():
    figure = Figure(
        "f", "t", "k", "pass@k", [Series("a", [1.0], [0.5], [0.4], [0.6]), Series("x", [1.0], [2.0], kind="front")]
    )
    assert figure.table() == (["series", "k", "pass@k", "low", "high"], [["a", "1", "0.500", "0.400", "0.600"]])


def test_numbers_and_ticks():
    assert [number(x) for x in (math.nan, 0, 0.5, 12.345, 1234.5)] == ["–", "0.000", "0.500", "12.35", "1,234"]
    assert ticks(-0.3, 0.3) == pytest.approx([-0.2, 0, 0.2]) or len(ticks(-0.3, 0.3)) > 2
    assert ticks(2.0, 2.0) == [2.0]
    assert log_ticks(1, 64) == [1, 4, 16, 64]


def test_curves_are_binned_and_averaged_over_seeds():
    rows = [{"step": s, "correct": s / 100} for s in range(120)] + [
        {"step": 0, "other": 1.0},
        {"step": 5, "correct": None},
    ]
    x, y = curve(rows, "correct")
    assert len(x) == 60 and x[0] == 0.5 and y[0] == pytest.approx(0.005)
    # seeds at steps 0 2 4 and 0 4: the mean at 2 is (1 + interpolated 3)/2, nothing beyond the shorter curve
    assert mean_curve([([0, 2, 4, 6], [0, 1, 2, 3]), ([0, 4], [1, 5])]) == ([0, 2, 4], [0.5, 2.0, 3.5])


def test_pass_at_k_uses_the_budgets_that_all_seeds_have():
    def one(ks):
        return Summary(("p", "q"), {f"pass@{k}": np.array([0.2, 0.4]) for k in ks})

    figure = pass_at_k_figure(compare({"a": {0: one([1, 2, 4]), 1: one([1, 2])}}))
    assert figure.series[0].x == [1.0, 2.0] and figure.series[0].y == pytest.approx([0.3, 0.3])
    # 2 prompts: resampled means .2 .3 .4 with chances 1/4 1/2 1/4, so the 95 % interval is the whole range
    assert figure.series[0].low == pytest.approx([0.2, 0.2]) and figure.series[0].high == pytest.approx([0.4, 0.4])
