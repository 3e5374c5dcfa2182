"""Debiasing, calibration and guarantees: worked examples, brute force, and coverage on synthetic draws."""

import itertools
import json

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.decide.answers import log_softmax, softmax
from polypath.decide.calibrate import (
    apply_isotonic,
    fit_calibration,
    fit_isotonic,
    fit_temperature,
    load_calibration,
    nll,
)
from polypath.decide.conformal import accept_threshold, aps_scores, conformal_set, fit_conformal, ordinal_scores
from polypath.decide.debias import (
    binomial_upper,
    divide_prior,
    fit_margin,
    fit_prior,
    rotated,
    rotation_mean,
    spread_order,
)
from polypath.decide.types import Choice, Score, YesNo, options

C, B = np.array([1, 0.5, 0]), np.array([1.2, 0, -0.4])


def read(order):
    return np.array([C[option] + B[position] for position, option in enumerate(order)])


def test_rotations_cancel_additive_position_bias():
    # softmax([1, .5, 0]) = [e, e^.5, 1] / 5.3670 = [.5065, .3072, .1863]; a single reading of order 0 1 2 says
    # softmax([2.2, .5, -.4]), whose first option is too high
    logp, reads = rotated(read, 3)
    assert np.exp(logp) == pytest.approx([0.506480, 0.307196, 0.186324], abs=1e-6) and reads == 3
    assert softmax(read([0, 1, 2]))[0] > 0.79
    winners = [order[int(np.argmax(read(order)))] for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1])]
    assert winners == [0, 1, 2]  # each rotation elects another: [2.2, .5, -.4], [1.7, 0, .6], [1.2, 1, .1]


def test_rotations_stop_early_but_never_before_two():
    sure = np.array([30.0, 0, 0, 0, 0, 0])
    logp, reads = rotated(lambda order: sure[order], 6, margin=8.5)
    assert reads == 2 and logp.argmax() == 0
    _, all_of_them = rotated(lambda order: np.zeros(6), 6, margin=8.5)
    assert all_of_them == 6


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 255])
def test_spread_order_is_a_permutation(n):
    assert sorted(spread_order(n)) == list(range(n)) and spread_order(n)[0] == 0


def test_binomial_bound_of_the_certificate():
    # 0 of 300: 1 - .05^(1/300) = .009936; 1 of 300: .01572
    assert binomial_upper(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300), abs=1e-9)
    assert binomial_upper(1, 300) == pytest.approx(0.01572, abs=1e-5)
    assert binomial_upper(5, 5) == 1 and np.isnan(binomial_upper(0, 0))
    stats = pytest.importorskip("scipy.stats")
    for k, n in ((3, 20), (17, 400), (99, 100)):
        assert binomial_upper(k, n) == pytest.approx(stats.beta.ppf(0.95, k + 1, n - k), abs=1e-9)


def test_margin_certificate():
    draws = np.random.default_rng(0)
    shift = np.array([[[8.0 * (j == (i + r) % 3 == 0) for j in range(3)] for r in range(3)] for i in range(1)])
    content = draws.normal(0, 6, (400, 1, 3))
    calm = fit_margin(np.repeat(content, 3, axis=1))  # rotations agree: any margin is right
    assert calm == 0
    biased = fit_margin(content / 6 + draws.normal(0, 3, (400, 3, 3)) + shift)
    assert biased > 2  # disagreement has a price
    with pytest.raises(UserError, match="299 states"):
        fit_margin(np.zeros((299, 3, 3)))


def test_priors():
    # .8/.9 : .2/.1 = .8889 : 2 -> [.3077, .6923]; roots: .8/.9487 : .2/.3162 = .8433 : .6325 -> [.5714, .4286]
    p, prior = np.log([0.8, 0.2]), np.array([0.9, 0.1])
    assert np.exp(divide_prior(p, prior, strength=1)) == pytest.approx([0.307692, 0.692308], abs=1e-6)
    assert np.exp(divide_prior(p, prior, strength=0.5)) == pytest.approx([0.571429, 0.428571], abs=1e-6)
    assert fit_prior(np.log([[0.8, 0.2], [0.4, 0.6]]), least=1) == pytest.approx([0.6, 0.4])
    with pytest.raises(UserError, match="7 states"):
        fit_prior(np.zeros((7, 2)))


def test_the_temperature_is_recovered_and_keeps_the_order():
    draws = np.random.default_rng(1)
    true = draws.normal(0, 2, (4000, 4))
    labels = [int(draws.choice(4, p=p)) for p in softmax(true)]
    found = fit_temperature(list(true * 3), labels)
    assert found == pytest.approx(3, rel=0.06)
    grid = np.exp(np.linspace(-3, 3, 601))
    assert nll(true * 3, labels, found) <= min(nll(true * 3, labels, t) for t in grid[200:500:4]) + 1e-9
    assert (softmax(true * 3 / found).argmax(-1) == true.argmax(-1)).all()
    with pytest.raises(UserError, match="49 labelled items"):
        fit_temperature(list(true[:49]), labels[:49])


def test_isotonic_against_brute_force():
    # .1->0, .4->1, .6->0, .9->1: the violators 1, 0 pool to .5
    assert fit_isotonic([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]) == ([0.1, 0.4, 0.6, 0.9], [0, 0.5, 0.5, 1])
    assert fit_isotonic([0.5, 0.5, 0.5, 0.2], [1, 0, 1, 0])[1] == pytest.approx([0, 2 / 3])
    assert apply_isotonic(np.array([0, 0.25, 1]), ([0.1, 0.4], [0.0, 0.6])) == pytest.approx([0, 0.3, 0.6])
    draws = np.random.default_rng(2)
    y = draws.integers(0, 2, 5)
    x, fitted = fit_isotonic(np.arange(5) / 10, y)
    grid = np.array([k / 12 for k in range(13)])  # block means of up to 4 and 3 items lie on twelfths; fifths do not
    best = min(
        sum((v - t) ** 2 for v, t in zip(values, y, strict=True))
        for values in itertools.combinations_with_replacement(grid, 5)
    )
    assert sum((v - t) ** 2 for v, t in zip(fitted, y, strict=True)) <= best + 1e-9
    assert all(a <= b for a, b in itertools.pairwise(fitted)) and len(x) == 5


def test_set_scores_by_hand():
    assert aps_scores(np.array([0.1, 0.7, 0.2])) == pytest.approx([1, 0.7, 0.9])
    # mode 2 (.4); neighbours .1 and .2: level 3 joins (.6), then 1 (.7), then 0 (1.0)
    assert ordinal_scores(np.array([0.3, 0.1, 0.4, 0.2])) == pytest.approx([1, 0.7, 0.4, 0.6])
    assert conformal_set(np.array([0.3, 0.1, 0.4, 0.2]), 0.7, ordinal=True) == [1, 2, 3]
    assert conformal_set(np.array([0.3, 0.1, 0.4, 0.2]), 0.0) == [2]  # never empty


@pytest.mark.parametrize("ordinal", [False, True])
def test_coverage_on_synthetic_draws(ordinal):
    """Mondrian: on average over calibration sets, each group is covered at 90 %, and no more than ties demand."""
    draws = np.random.default_rng(3)
    p = softmax(draws.normal(0, 1.5, (20_000, 5)))
    told = softmax(np.log(p) * 2)  # overconfident
    y = (draws.uniform(size=(20_000, 1)) > p.cumsum(1)).sum(1)
    hard = told.max(1) < 0.8
    scores = (ordinal_scores if ordinal else aps_scores)(told)[np.arange(len(y)), y]
    for name in (True, False):
        covered = []
        for part in np.split(np.arange(20_000), 100):  # half of each part calibrates, half tests
            own, rest = part[:100], part[100:]
            threshold = fit_conformal(told[own], y[own], ordinal=ordinal, groups=list(hard[own]))[name]
            covered.append((scores[rest[hard[rest] == name]] <= threshold).mean())
        assert 0.9 - 0.015 < np.mean(covered) < 0.9 + 0.06  # standard error about .005; sets are conservative at p = 1
    tight = fit_conformal(told[:5], y[:5], alpha=0.1)[None]
    assert tight == np.inf and len(conformal_set(told[0], tight)) == 5  # 5 items cannot promise 90 %
    with pytest.raises(UserError, match="no error rate"):
        fit_conformal(told, y, alpha=1.0)


def test_accept_threshold_is_certified():
    confidence = np.linspace(0, 1, 1000)
    right = confidence > 0.5
    found = accept_threshold(confidence, right)
    # deciles: from .5 all are right; at .4 about 100 of 600 are wrong, far above 5 %
    assert found == pytest.approx(0.5, abs=2e-3)
    assert accept_threshold(confidence, np.zeros(1000, bool)) == np.inf
    assert accept_threshold(confidence[:58], np.ones(58, bool)) == np.inf  # .95^58 > .05: 59 are needed
    assert accept_threshold(np.arange(59.0), np.ones(59, bool)) == 0
    assert accept_threshold(np.array([]), np.array([])) == np.inf


def test_the_accept_threshold_keeps_its_promise():
    """The share of fitted thresholds whose true risk exceeds 10 % is at most 5 %, up to noise."""
    draws = np.random.default_rng(4)
    broken = 0
    for _ in range(300):
        confidence = draws.uniform(0.5, 1, 300)
        found = accept_threshold(confidence, draws.uniform(size=300) < confidence, risk=0.1)
        broken += found < 0.8 - 1e-9  # accepting [t, 1] has the risk (1 - t) / 2
    assert broken / 300 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_the_calibration_file_is_bound_to_its_identity(tmp_path):
    draws = np.random.default_rng(5)
    three, two = Choice(options(["a", "b", "c"])), YesNo("?")
    questions = [three] * 60 + [two] * 60
    logits = [draws.normal(0, 3, len(q.options)) for q in questions]
    labels = [int(draws.integers(len(q.options))) for q in questions]
    identity = {"model": "abc", "readout": "label_tree"}
    fitted = fit_calibration(questions, logits, labels, identity)
    assert set(fitted.temperatures) == {"Choice 3-5", "YesNo 2"} and fitted.n["YesNo 2"] == 60
    path = tmp_path / "calibration.json"
    fitted.save(path)
    again = load_calibration(path, identity)
    assert again.temperature(three) == fitted.temperature(three) > 1  # labels are noise: confidence must fall
    with pytest.raises(UserError, match="nothing for 'Score 3-5'"):
        again.temperature(Score(options(["a", "b", "c"])))
    with pytest.raises(UserError, match="fitted for model 'abc', not 'xyz'"):
        load_calibration(path, {**identity, "model": "xyz"})
    with pytest.raises(UserError, match="fitted for length None"):
        load_calibration(path, {**identity, "length": "sum"})
    with pytest.raises(UserError, match="is no calibration"):
        load_calibration(tmp_path / "missing.json", identity)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 9}))
    with pytest.raises(UserError, match="has format 9"):
        load_calibration(path, identity)


def test_log_mean_ignores_the_scale_of_each_reading():
    one = np.array([[1.0, 2.0], [5.0, 3.0]])
    np.testing.assert_allclose(rotation_mean(one), rotation_mean(one + np.array([[7.0], [-2.0]])))
    assert log_softmax(rotation_mean(one)) == pytest.approx(rotation_mean(one))
