"""Statistics of the core path against scipy."""

import math

import numpy as np
import pytest

from polypath.evaluate import stats


@pytest.mark.parametrize("df", [1, 2, 3, 4, 11, 29, 127, 5000])
def test_t_distribution_equals_scipy(df):
    scipy_stats = pytest.importorskip("scipy.stats")
    for p in (0.6, 0.9, 0.975, 0.995, 0.9999):
        assert stats.t_quantile(p, df) == pytest.approx(scipy_stats.t.ppf(p, df), rel=1e-9)
    for t in (-3.0, 0.0, 0.1, 1.0, 2.5, 40.0):
        assert stats.t_two_sided(t, df) == pytest.approx(2 * scipy_stats.t.sf(abs(t), df), rel=1e-9)


def test_t_test_equals_scipy():
    scipy_stats = pytest.importorskip("scipy.stats")
    x = [0.25, 0.25, 0.25, 0.0, 0.25, -0.1]
    assert stats.t_test(x) == pytest.approx(scipy_stats.ttest_1samp(x, 0.0).pvalue, rel=1e-9)


def test_mean_interval_edges():
    empty, one = stats.mean_interval([math.nan]), stats.mean_interval([2.0, math.nan])
    assert empty.n == 0 and math.isnan(empty.value)
    assert one.n == 1 and one.value == 2.0 and math.isnan(one.low) and not one.excludes_zero
    assert stats.mean_interval([1.0, 1.0]) == stats.Estimate(1.0, 1.0, 1.0, 2)


def test_degenerate_tests():
    assert math.isnan(stats.t_test([1.0]))
    assert stats.t_test([0.0, 0.0]) == 1.0
    assert stats.t_test([0.5, 0.5]) == 0.0
    assert math.isnan(stats.t_quantile(0.975, 0))


def test_holm_by_hand():
    # sorted .01 .03 .04: 3*.01 = .03, 2*.03 = .06, max(.06, .04) = .06; the NaN is no test
    assert stats.holm([0.04, math.nan, 0.01, 0.03]) == pytest.approx([0.06, math.nan, 0.03, 0.06], nan_ok=True)
    assert stats.holm([0.9, 0.8]) == [1.0, 1.0]


def test_mean_interval_covers():
    rng = np.random.default_rng(0)
    draws = [stats.mean_interval(rng.normal(size=6)) for _ in range(400)]
    assert 0.92 < np.mean([e.low < 0 < e.high for e in draws]) < 0.98
