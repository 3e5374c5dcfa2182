"""Figures of decisions by hand, the TF-IDF baseline, and `polypath decide eval`."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from polypath.cli.main import app
from polypath.core.errors import UserError
from polypath.decide.baseline import baseline_probabilities, tfidf
from polypath.decide.metrics import (
    aurc,
    brier,
    coverage_at_risk,
    ece,
    ece_floor,
    evaluate_decisions,
    mean_nll,
)


def test_figures_by_hand():
    p = [np.array([0.7, 0.3]), np.array([0.2, 0.2, 0.6]), np.array([0.9, 0.1])]
    found = evaluate_decisions(p, [0, 1, 0])
    # Brier: .09 + .09 = .18; .04 + .64 + .36 = 1.04; .02; mean .4133. NLL: -ln(.7 * .2 * .9) / 3 = .690491
    assert found["brier"] == pytest.approx(1.24 / 3) and found["nll"] == pytest.approx(0.690491, abs=1e-6)
    # by confidence .9 right, .7 right, .6 wrong: risks 0, 0, 1/3
    assert found["aurc"] == pytest.approx(1 / 9) and found["coverage_at_5%_risk"] == pytest.approx(2 / 3)
    # three bins of one: .1, .3 and .6 off, over 3
    assert found["ece"] == pytest.approx(1 / 3) and found["n"] == 3 and found["accuracy"] == pytest.approx(2 / 3)


def test_ties_do_not_depend_on_the_order_of_items():
    confidence = np.array([0.5, 0.5, 0.5, 0.9])
    for correct in ([0, 1, 1, 1], [1, 1, 0, 1], [1, 0, 1, 1]):
        # risks: 0, then a third of an error an item: (1/3)/2, (2/3)/3, 1/4
        assert aurc(confidence, np.array(correct)) == pytest.approx((0 + 1 / 6 + 2 / 9 + 1 / 4) / 4)
        assert coverage_at_risk(confidence, np.array(correct), risk=0.2) == 0.25  # a tie is taken whole or not


def test_no_items_are_nan_and_no_mass_is_infinite():
    none = np.array([])
    assert all(math.isnan(f(none, none)) for f in (ece, aurc, coverage_at_risk, brier, mean_nll))
    assert mean_nll([np.array([1.0, 0])], [1]) == math.inf


def test_the_noise_floor_is_what_a_calibrated_model_shows():
    confidence = np.random.default_rng(0).uniform(0.5, 1, 60)
    floor = ece_floor(confidence)
    assert 0.05 < floor < 0.2  # ten bins of six: a standard error of about .17 a bin, E|.| = .8 of it at most
    assert ece_floor(np.random.default_rng(0).uniform(0.5, 1, 6000)) < floor / 5
    assert ece_floor(np.ones(20)) == 0
    assert ece_floor(confidence) == floor  # seeded


def test_tfidf_by_hand():
    # N = 2; a: df 1, 1 + ln(3/2) = 1.4055; b: df 2, 1. Row "a b" = [1.4055, 1] / 1.7250
    assert tfidf(["a b"], ["a b", "b"])[0] == pytest.approx([0.814802, 0.579739], abs=1e-5)
    assert tfidf(["", "zzz"], ["a"]).tolist() == [[0], [0]]


def test_the_baseline_learns_words_and_nothing_from_noise():
    states = [f"{'crash error' if i % 2 else 'please add'} item {i}" for i in range(40)]
    p = baseline_probabilities(states, [i % 2 for i in range(40)], classes=2)
    assert (p.argmax(1) == np.arange(40) % 2).all() and p.sum(1) == pytest.approx(np.ones(40))
    # equal states never stand on both sides of a fold: with contradictory labels nothing can be learnt by heart
    twice = [f"w{i // 2}" for i in range(40)]
    p = baseline_probabilities(twice, [int(i // 2 % 4 == 0) for i in range(40)], classes=2)
    assert (p.argmax(1) == 0).all()
    with pytest.raises(UserError, match="1 different states"):
        baseline_probabilities(["a", "a"], [0, 1], classes=2)


def test_the_command_prints_the_baseline_beside_the_model(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "items.jsonl"
    criteria = {"1": None, "2 + 3": None}
    rows = [
        {"state": f"{word} {i}", "questions": {"q": {"type": "choice", "criteria": criteria}}, "labels": {"q": label}}
        for i in range(6)
        for word, label in (("4 5", "1"), ("6 7", "2 + 3"))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    given = ["decide", "eval", str(path), "--model", "countdown-0"]
    done = CliRunner().invoke(app, [*given, "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["model"]["accuracy"]["n"] == found["baseline"]["brier"]["n"] == 12
    assert (
        found["baseline"]["accuracy"]["value"] == 1 and found["at_chance"] is True
    )  # words tell these apart, the model not
    shown = CliRunner().invoke(app, given)
    assert "TF-IDF" in shown.stdout and "at chance" in shown.stderr
    path.write_text("{}")
    assert CliRunner().invoke(app, given).exit_code == 2
