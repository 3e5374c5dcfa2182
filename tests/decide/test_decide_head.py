"""Closed-form heads and the probe of readouts."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from polypath.core.errors import UserError  # noqa: E402
from polypath.decide.answers import softmax  # noqa: E402
from polypath.decide.head import embedding_scores, fit_head, hidden_features  # noqa: E402
from polypath.decide.probe import Item, Probe, chance_level, probe_readout, read_items  # noqa: E402
from polypath.decide.types import Choice, options  # noqa: E402


@pytest.fixture(scope="module")
def policy():
    from polypath.engines.transformers import TransformersPolicy

    return TransformersPolicy.load("countdown-0")


def test_lda_by_hand():
    # classes at -1 +- 1 and 3 +- 1: means -1, 3, variance 1, equal priors. Log-odds = 4 x - (9 - 1) / 2 = 4 x - 4
    head = fit_head(np.array([[-2.0], [0], [2], [4]]), [0, 0, 1, 1], classes=2, shrink=1e-9)
    odds = head.scores(np.array([[0.0], [1], [2]])) @ [-1, 1]
    assert odds == pytest.approx([-4, 0, 4], abs=1e-6)


def test_ridge_by_hand_and_in_both_forms():
    # x = -1, 1, targets -.5, .5 after centring, penalty 1 * 2 / 1: w = (x'y) / (x'x + 2) = 1 / 4
    head = fit_head(np.array([[-1.0], [1]]), [0, 1], classes=2, kind="ridge", shrink=1.0)
    assert head.weights[:, 1] == pytest.approx([0.25]) and head.bias == pytest.approx([0.5, 0.5])
    draws = np.random.default_rng(0)
    wide, y = draws.normal(size=(8, 20)), [0, 1, 2, 0, 1, 2, 0, 1]
    head = fit_head(wide, y, classes=3, kind="ridge", shrink=0.5)
    x = wide - wide.mean(0)
    target = np.eye(3)[y] - np.eye(3)[y].mean(0)
    primal = np.linalg.solve(x.T @ x + 0.5 * (x**2).sum() / 8 * np.eye(20), x.T @ target)
    np.testing.assert_allclose(head.weights, primal, atol=1e-10)


def test_lda_gives_the_posterior():
    draws = np.random.default_rng(1)
    y = draws.integers(0, 2, 4000)
    x = draws.normal(size=(4000, 3)) + y[:, None] * [1.0, 0, 0.5]
    head = fit_head(x, y, classes=2, shrink=1e-6)
    told = softmax(head.scores(x))[:, 1]
    true = 1 / (1 + np.exp(-(x @ [1.0, 0, 0.5] - 0.625)))
    assert np.abs(told - true).mean() < 0.02


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0], [2.0]], [0, 0], "counts of 2 classes"),
        ([[1.0]], [0, 1], "1 features, 2 labels"),
        ([[np.nan], [1.0]], [0, 1], "not finite"),
        (np.zeros((0, 2)), [], "counts of 2"),
    ],
)
def test_bad_features_are_refused(x, y, message):
    with pytest.raises(UserError, match=message):
        fit_head(np.array(x), y, classes=2)


def test_features_and_embeddings_of_a_model(policy):
    question = Choice(options(["1", "2 + 3"]))
    states = ["1 2", "3 4 5", "1 2"]
    hidden = hidden_features(policy, states, question)
    assert hidden.shape == (3, policy.width)
    np.testing.assert_allclose(hidden[0], hidden[2], atol=1e-5)
    assert np.abs(hidden[0] - hidden[1]).max() > 1e-3
    scores = embedding_scores(policy, ["2 + 3", "1"], question, temperature=1.0)
    assert scores.shape == (2, 2) and scores[0, 1] == pytest.approx(1, abs=1e-5)  # a text is nearest to itself
    assert scores.argmax(1).tolist() == [1, 0]


def test_the_probe_says_at_chance(policy):
    question = Choice(options(["1", "2", "3"]))
    items = [Item(f"{i} {i + 1}", question, i % 3) for i in range(12)]
    (found,) = probe_readout(policy, items, readouts=["label_tree"])
    assert found.at_chance and "at chance" in found.verdict()  # a Countdown player knows no such labels
    assert found.n == 12 and found.low < found.accuracy <= found.high and found.chance == pytest.approx(1 / 3)
    with pytest.raises(UserError, match="no labelled items"):
        probe_readout(policy, [])


def test_verdicts():
    assert not Probe("r", 50, 0.8, 0.66, 0.9, 0.33, 0.1).at_chance
    assert Probe("r", 50, 0.8, 0.66, 0.9, 0.33, 0.6).at_chance  # most answers flip with the order
    assert Probe("r", 5, 0.8, 0.28, 0.99, 0.33, 0.0).at_chance
    skewed = [Item("", Choice(options(["a", "b"])), int(i == 0)) for i in range(10)]
    assert chance_level(skewed) == pytest.approx(0.9)  # always answering a is right 9 times in 10


def test_items_are_read_and_bad_lines_named(tmp_path):
    path = tmp_path / "items.jsonl"
    row = {
        "state": "s",
        "questions": {"q": {"type": "choice", "criteria": {"a": None, "b": None}}, "n": {"type": "noul"}},
        "labels": {"q": "b", "n": True},
    }
    path.write_text(json.dumps(row) + "\n\n")
    assert [item.correct for item in read_items(path)] == [1, 0]
    for change, message in (
        ({"labels": {"q": "c"}}, r"items.jsonl:1 labels.q: 'c' is no option"),
        ({"labels": {"n": 1}}, "1 is no option"),
        ({"labels": {"z": "a"}}, "labels.z: no such question"),
        ({"labels": 3}, "has no object 'labels'"),
        ({"questions": {}}, "items.jsonl:1 questions: there are none"),
    ):
        path.write_text(json.dumps({**row, **change}))
        with pytest.raises(UserError, match=message):
            read_items(path)
    path.write_text("{")
    with pytest.raises(UserError, match="is no JSON"):
        read_items(path)
