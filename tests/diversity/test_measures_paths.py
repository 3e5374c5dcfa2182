"""Measures of committees, values, steps and routes by hand, and of features: they carry a signature."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.diversity import measures as m

PLANE = [[1, 0], [1, 0], [0, 1]]


def test_effective_channels_by_hand():
    # shares 2/3 and 1/3: entropy log 3 - 2/3 log 2, so 3 / 2^(2/3)
    assert m.effective_channels(PLANE) == pytest.approx(3 / 2 ** (2 / 3))
    assert m.effective_channels(PLANE) == pytest.approx(m.vendi(PLANE))
    # rows keep their length: (2,0) weighs 4 against 1 of (0,1), shares .8 and .2
    expected = math.exp(-(0.8 * math.log(0.8) + 0.2 * math.log(0.2)))
    assert m.effective_channels([[2, 0], [0, 1]]) == pytest.approx(expected)
    assert m.effective_channels([[1, 0], [0, 1]], weights=[2, 1]) == pytest.approx(expected)
    assert m.effective_channels([[2, 0], [0, 1], [0, 0]]) == pytest.approx(expected), "a silent agent"
    assert m.effective_channels([[5, 0]]) == pytest.approx(1.0)
    assert math.isnan(m.effective_channels([])) and math.isnan(m.effective_channels([[0, 0]]))


def test_channels_by_outcome():
    rows, correct = [[1, 0], [0, 1], [1, 0], [1, 0]], [True, True, False, False]
    assert m.effective_channels_by_outcome(rows, correct, of="correct") == pytest.approx(2.0)
    assert m.effective_channels_by_outcome(rows, correct, of="wrong") == pytest.approx(1.0)
    assert m.effective_channels_by_outcome(rows, correct) == pytest.approx(1.5)
    assert m.effective_channels_by_outcome(rows, [True] * 4) == pytest.approx(m.effective_channels(rows))
    assert math.isnan(m.effective_channels_by_outcome(rows, [False] * 4))
    # 1, .3, .5 over their mean .6
    assert m.outcome_weights([True, False, False], [True, True, False]).tolist() == pytest.approx([5 / 3, 0.5, 5 / 6])


@given(st.integers(0, 2**32 - 1))
def test_channels_do_not_change_when_the_committee_is_doubled_or_turned(seed):
    rng = np.random.default_rng(seed)
    rows, turn = rng.normal(size=(5, 3)), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    value = m.effective_channels(rows)
    assert m.effective_channels(np.vstack([rows, rows])) == pytest.approx(value)
    assert m.effective_channels(rows @ turn) == pytest.approx(value)


def test_effective_size_of_correlated_voters():
    assert m.voters_worth(8, 0.3) == pytest.approx(8 / 3.1)
    # 1100 with 1010: correlation 0; with 0011: -1, so the errors cancel
    assert m.effective_size([[1, 1, 0, 0], [1, 0, 1, 0]]) == pytest.approx(2.0)
    assert m.effective_size([[1, 1, 0, 0], [1, 1, 0, 0]]) == pytest.approx(1.0)
    assert m.effective_size([[1, 1, 0, 0], [0, 0, 1, 1]]) == math.inf
    for undefined in ([], [[1, 0, 1]], [[1, 0], [0, 1]], [[1, 1, 1], [1, 0, 1]]):
        assert math.isnan(m.effective_size(undefined))


def test_value_diversity_by_hand():
    # a (1,4), b (4,4), c (1,1) of 4 options: 3, 3 and 3 sqrt 2 over 3 sqrt 2
    survey = [[1, 4], [4, 4], [1, 1]]
    half = math.sqrt(0.5)
    assert m.value_diversity(survey, options=[4, 4]) == pytest.approx((2 * half + 1) / 3)
    assert m.value_diversity(survey) == m.value_diversity(survey, options=[4, 4]), "the largest answers are 4"
    assert m.value_span(survey) == pytest.approx(half)
    corners = [[1, 1], [1, 2], [2, 1], [2, 2]]  # sides 1/sqrt 2 four times, diagonals 1 twice
    assert m.value_diversity(corners) == pytest.approx((4 * half + 2) / 6)


def test_refusals_and_questions_with_one_option():
    nan = math.nan
    # a and b share question 1: 3/3; a and c share none; b and c share question 2: 1/3
    survey = [[1, nan, 1], [4, 2, 1], [nan, 3, 1]]
    found = m.rating_distances(survey, options=[4, 4, 1])
    assert found[0, 1] == pytest.approx(1.0) and math.isnan(found[0, 2]) and found[1, 2] == pytest.approx(1 / 3)
    assert m.value_diversity(survey[:2]) == pytest.approx(1.0)
    assert math.isnan(m.value_diversity([[1, nan], [nan, 2]])) and math.isnan(m.value_diversity([]))
    assert math.isnan(m.value_diversity([[1, 1], [1, 1]])), "no question with two options"
    assert math.isnan(m.value_span(survey)), "a pair that cannot be compared"
    for bad, options in (([1, 2], None), (survey, [4, 4])):
        with pytest.raises(UserError, match="ratings: have the shape"):
            m.value_diversity(bad, options=options)


def test_paths_by_hand():
    # a = (x, y), b = (x, (.6,.8), -x): .1 from the shorter list; c = (-x): 1 to the nearest of a, 0 to b
    a, b, c = [[1, 0], [0, 1]], [[1, 0], [0.6, 0.8], [-1, 0]], [[-1, 0]]
    assert m.reasoning_path_divergence([a, b, c]) == pytest.approx((0.1 + 1) / 2)
    assert m.reasoning_path_divergence([a, b, c], reduce="mean") == pytest.approx((0.1 + 1 + 0) / 3)
    assert m.reasoning_path_divergence([a, a]) == pytest.approx(0.0)
    assert m.reasoning_path_divergence([a, []]) == 1.0 and m.reasoning_path_divergence([[], []]) == 0.0
    assert math.isnan(m.reasoning_path_divergence([a]))
    # of equal length: from (x, x) all steps are in (x, y), but not the other way: the larger, 1/2, counts
    assert m.reasoning_path_divergence([[[1, 0], [1, 0]], a]) == pytest.approx(0.5)


def test_routes_by_hand():
    texts = [
        "Let x be 3.\n\nSubstitute it.\n\nTherefore 4.",  # DBZ
        "Suppose x is 3.\n\nAssume y.\n\nHence 4.",  # DZ
        "Let x be 3.\n\nSubstitute it.\n\nThus 4.",  # DBZ
    ]
    # similarities 2/3, 1, 2/3
    assert m.route_diversity(texts) == pytest.approx(1 - (2 / 3 + 1 + 2 / 3) / 3)
    assert m.distinct_routes(texts) == 2 and math.isnan(m.distinct_routes([]))
    assert m.route_diversity(["", ""]) == 0.0 and math.isnan(m.route_diversity(["a"]))


def test_task2vec_coefficients():
    x, y = [1.0, 0.0], [0.0, 1.0]
    assert m.diversity_coefficient([x, x, y]) == pytest.approx(2 / 3)
    assert math.isnan(m.diversity_coefficient([x, y])), "two batches mean nothing"
    # 3 times 3 pairs, of which x meets y in 2 + 2 + 1 ... : 1 - (2/3 * 1/3 + 1/3 * 2/3)
    assert m.cross_diversity([x, x, y], [[0, 2.0], y, x]) == pytest.approx(1 - 4 / 9)
    assert math.isnan(m.cross_diversity([x, x, y], [x]))
