"""Figures of decisions with intervals, paired comparisons, and files of answers."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from polypath.cli.main import app
from polypath.core.errors import UserError
from polypath.decide.probe import Item
from polypath.decide.types import Choice, Pair, Score, YesNo, options
from polypath.evaluate.answer_files import read_told, write_told
from polypath.evaluate.decisions import Told, baseline_of, compare, figures
from polypath.evaluate.resample import bootstrap, mcnemar

ASK = YesNo("Is it allowed?")
THREE = Choice(options({"a": None, "b": "the second", "c": None}))
LEVELS = Score(options(["low", "middle", "high"]))


def pairs_told() -> Told:
    """The worked example of DecisionPivot: p+ = .9 .6 .45 .3, p- = .2 .55 .4 .35."""
    items, p = [], []
    for i, (plus, minus) in enumerate([(0.9, 0.2), (0.6, 0.55), (0.45, 0.4), (0.3, 0.35)]):
        items += [Item(f"case {i} with", ASK, 0, f"g{i}"), Item(f"case {i} without", ASK, 1, f"g{i}")]
        p += [np.array([plus, 1 - plus]), np.array([minus, 1 - minus])]
    return Told(items, p)


def test_contrast_pairs_by_hand():
    found = figures(pairs_told())
    assert found["order_accuracy"].value == 0.75 and found["order_accuracy"].n == 4
    assert found["pair_accuracy"].value == 0.25 and found["group_accuracy"].value == 0.25
    # right: .9, .2, .6, .4, .35 of eight
    assert found["accuracy"].value == 5 / 8 and found["accuracy"].n == 8
    # of the 16 pairs of a positive and a negative, .9 beats four, .6 four, .45 three, .3 one
    assert found["auroc"].value == 12 / 16
    assert found["rps"].n == 0 and math.isnan(found["rps"].value)  # no score questions
    assert found["accuracy"].low <= 5 / 8 <= found["accuracy"].high
    assert math.isnan(found["ece_floor"].low) and found["ece_floor"].value > 0


def test_items_without_a_group_have_no_group_figures():
    told = Told([Item("s", ASK, 0), Item("s", THREE, 1), Item("t", LEVELS, 2)], [np.full(k, 1 / k) for k in (2, 3, 3)])
    found = figures(told)
    assert all(found[name].n == 0 for name in ("group_accuracy", "order_accuracy", "pair_accuracy"))
    # cumulative 1/3, 2/3 against 0, 0: (1/9 + 4/9) / 2
    assert found["rps"].value == pytest.approx(5 / 18) and found["rps"].n == 1
    assert math.isnan(found["auroc"].value)  # one yes/no item: one class only
    assert len(set(told.units)) == 2  # questions about one state share their luck


def test_probabilities_must_fit_their_options():
    for p in (np.array([0.5]), np.array([math.nan, 1]), np.array([-0.1, 1.1])):
        with pytest.raises(UserError, match="item 0: the probabilities"):
            Told([Item("s", ASK, 0)], [p])


def test_one_class_and_one_item_leave_figures_undefined_and_not_zero():
    found = figures(Told([Item("s", ASK, 0)], [np.array([0.9, 0.1])]))
    assert found["accuracy"].value == 1 and math.isnan(found["accuracy"].low)
    assert math.isnan(found["auroc"].value) and math.isnan(found["failure_auroc"].value)


def test_intervals_count_groups_and_not_items():
    rng = np.random.default_rng(0)
    once = rng.integers(0, 2, 40)
    alone = Told([Item(f"{i}", ASK, int(y)) for i, y in enumerate(once)], [np.array([0.9, 0.1])] * 40)
    copies = Told(
        [Item(f"{i}", ASK, int(y)) for i, y in enumerate(once) for _ in range(9)], [np.array([0.9, 0.1])] * 360
    )
    width = [figures(t)["accuracy"].high - figures(t)["accuracy"].low for t in (alone, copies)]
    assert width[0] == width[1]  # nine copies of a state tell nothing new
    # 95 % of a mean of 40: about 4 * sqrt(p q / 40)
    share = (once == 0).mean()
    assert width[0] == pytest.approx(3.92 * math.sqrt(share * (1 - share) / 40), rel=0.1)


def test_bootstrap_leaves_out_undefined_draws_and_says_so():
    assert bootstrap(lambda g: math.nan, 5).n == 5 and math.isnan(bootstrap(lambda g: math.nan, 5).value)
    rare = bootstrap(lambda g: 1.0 if len(set(g)) == 5 else math.nan, 5)  # 5!/5^5 = 4 % of the draws are defined
    assert rare.value == 1 and math.isnan(rare.low)
    assert bootstrap(lambda g: 1.0, 0).n == 0


def test_mcnemar_is_the_exact_binomial_test():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    for n in (5, 30, 200, 3000):
        a, b = rng.integers(0, 2, n), rng.integers(0, 2, n)
        found = mcnemar(a, b)
        expected = stats.binomtest(found.only_first, found.only_first + found.only_second).pvalue
        assert found.p == pytest.approx(expected) and found.n == n
    assert mcnemar([1], [1]).p == 1 and math.isnan(mcnemar([], []).p)


def test_a_comparison_is_paired():
    told = pairs_told()
    better = Told(told.items, [p if p.argmax() == i.correct else p[::-1] for i, p in told.pairs()])
    difference, test = compare(told, better)
    assert difference["accuracy"].value == 3 / 8 and test.only_second == 3 and test.only_first == 0
    same, test = compare(told, told)
    assert same["brier"].low == same["brier"].high == 0 and test.p == 1
    with pytest.raises(UserError, match="different items"):
        compare(told, Told(told.items[:2], told.probabilities[:2]))


def test_members_of_a_contrast_group_share_a_fold():
    # the label turns on one word that no other group has: whoever has seen the twin answers wrongly or by heart
    items = [Item(f"case {i} {word}", ASK, y, f"g{i}") for i in range(10) for y, word in enumerate(("so", "not"))]
    found = baseline_of(items)
    assert figures(found)["accuracy"].value == 1
    lone = [Item(f"w{i} {'x' if y else 'y'}{i}", ASK, y, f"g{i}") for i in range(10) for y in (0, 1)]
    p = np.array(baseline_of(lone).probabilities)
    assert p[:, 0] == pytest.approx(np.full(20, 0.5), abs=0.05)  # nothing carries over between groups


def test_answers_survive_a_file(tmp_path):
    items = [
        Item("é\n1", YesNo("?", "if so", ""), 1),
        Item("s", THREE, 2, "g"),
        Item("s", Pair("x", "y"), 0),
        Item("s", Choice(options(["true", "ünï", "tru"])), 1),
    ]
    told = Told(items, [np.array(p) for p in ([0.2, 0.8], [0.1, 0.2, 0.7], [0.6, 0.4], [0.3, 0.3, 0.4])])
    path = tmp_path / "a.jsonl"
    write_told(path, told, model="m")
    back = read_told(path)
    assert [i.question for i in back.items] == [i.question for i in items] and back.hits.tolist() == told.hits.tolist()
    assert all(a == pytest.approx(b) for a, b in zip(back.probabilities, told.probabilities, strict=True))
    assert [i.group for i in back.items] == ["", "g/q", "", ""]


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ("[]", "has no object 'answers'"),
        ("{}", "has none for 'q'"),
        ('{"q": {"noul": "x"}}', "has no probability for every option"),
        ('{"q": {"noul": NaN}}', "are no distribution"),
        ('{"q": {"noul": 1.5}}', "are no distribution"),
        ('{"q": []}', "is a list"),
    ],
)
def test_broken_answers_are_told_with_their_line(tmp_path, answers, what):
    path = tmp_path / "a.jsonl"
    item = '"state": "s", "questions": {"q": {"type": "noul"}}, "labels": {"q": true}'
    path.write_text(f'{{{item}, "answers": {answers}}}\n')
    with pytest.raises(UserError, match=what) as told:
        read_told(path)
    assert str(path) in told.value.where and ":1" in told.value.where


def test_the_command_compares_two_files_without_a_model(tmp_path):
    told = pairs_told()
    write_told(tmp_path / "a.jsonl", told, model="a")
    write_told(tmp_path / "b.jsonl", Told(told.items, [p[::-1] for p in told.probabilities]), model="b")
    files = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    done = CliRunner().invoke(app, ["decide", "eval", *files, "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["difference"]["accuracy"]["value"] == pytest.approx(-2 / 8)  # 5 of 8 right become 3
    assert found["mcnemar"]["only_first"] == 5 and found["mcnemar"]["only_second"] == 3
    shown = CliRunner().invoke(app, ["decide", "eval", *files])
    assert "order_accuracy" in shown.stdout and "McNemar" in shown.stdout
    alone = CliRunner().invoke(app, ["decide", "eval", files[0], "--json"])
    assert json.loads(alone.stdout)["model"]["group_accuracy"]["value"] == 0.25
    assert CliRunner().invoke(app, ["decide", "eval", *files, files[0]]).exit_code == 2
    (tmp_path / "empty.jsonl").write_text("")
    empty = CliRunner().invoke(app, ["decide", "eval", str(tmp_path / "empty.jsonl"), files[0]])
    assert empty.exit_code == 2 and "holds no answered items" in empty.stderr
