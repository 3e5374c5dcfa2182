from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.credit.difficulty import focal, logistic_difficulty, max_variance, missed_tail


def close(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(values), expected, atol=tolerance)


def test_focal_weights_by_hand():
    for right, weight in ((1, 0.875), (4, 0.5), (7, 0.125)):  # p = .125, .5, .875
        correct = [True] * right + [False] * (8 - right)
        close(focal(np.ones(8), correct, gamma=1.0), [weight] * 8)
        close(focal(np.ones(8), correct, gamma=2.0), [weight**2] * 8)
    assert focal([1.0], [True], gamma=1.0).tolist() == [0.0]
    close(focal([1.0], [True], gamma=1.0, prior=1.0), [1 / 3])  # p = 2/3


def test_logistic_difficulty_by_hand():
    # p = .75: a positive one weighs .4 + 1.1/2 = .95, a negative one w(.25) = .4 + 1.1/(1 + e^-5) = 1.492638
    close(logistic_difficulty([1.0, -1.0, 1.0, 1.0], [True, False, True, True]), [0.95, -1.492638, 0.95, 0.95])
    close(logistic_difficulty([1.0, 1.0], [True, True]), [0.483444] * 2)  # .4 + 1.1/(1 + e^2.5)


def test_missed_tail_against_enumeration():
    for size in (1, 2, 3, 5):
        kinds = {"wrong": 0.5, "common": 0.3, "rare": 0.2}
        total = 0.0
        for outcome in np.ndindex(*[3] * size):
            names = [list(kinds)[o] for o in outcome]
            if "rare" not in names and "common" in names and "wrong" in names:
                total += float(np.prod([kinds[name] for name in names]))
        assert missed_tail(mean=0.5, tail=0.2, size=size) == pytest.approx(total)


@given(values=st.lists(st.integers(-5, 5), min_size=2, max_size=8), data=st.data())
def test_max_variance_agrees_with_every_subset(values, data):
    m = data.draw(st.integers(2, len(values)))
    keep = max_variance(values, share=m / len(values))
    assert keep.sum() == m
    best = max(np.var([values[i] for i in subset]) for subset in combinations(range(len(values)), m))
    assert np.var(np.array(values)[keep]) == pytest.approx(best)


def test_max_variance_by_hand():
    # of six, four with the largest variance: 1.8, .5, -.6, -2 of variance 1.956875
    keep = max_variance([[1.8, 0.5, 0.4, -0.1, -0.6, -2.0], [0, 0, 0, 0, 0, 9]], share=4 / 6)
    assert keep[0].tolist() == [True, True, False, False, True, True]
    assert np.var([1.8, 0.5, -0.6, -2.0]) == pytest.approx(1.956875)
    assert keep[1, 5] and keep[1].sum() == 4
    assert max_variance([1.0]).tolist() == [True]
