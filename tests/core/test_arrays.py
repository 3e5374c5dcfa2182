import numpy as np
import pytest

from polypath.core.arrays import as_float, divide, per_group, spread, tied


def test_spread_is_exactly_zero_for_equal_values_that_rounding_would_spread():
    values = np.full((2, 7), 0.1)
    assert np.std(np.full(7, 0.1), ddof=1) > 0  # the reason for deciding by equality
    assert spread(values, ddof=1).tolist() == [[0.0], [0.0]]
    assert tied(values).all()


def test_spread_of_a_group_of_one_is_zero_and_not_nan():
    assert spread(np.array([[3.0]]), ddof=1).tolist() == [[0.0]]


def test_spread_agrees_with_numpy():
    values = np.random.default_rng(0).normal(size=(3, 5))
    for ddof in (0, 1):
        np.testing.assert_allclose(spread(values, ddof=ddof)[:, 0], values.std(axis=-1, ddof=ddof), rtol=1e-12)


def test_divide_by_zero_is_zero():
    assert divide(np.array([1.0, 4.0]), np.array([0.0, 2.0])).tolist() == [0.0, 2.0]


def test_as_float_keeps_a_float_type_and_converts_the_rest():
    torch = pytest.importorskip("torch")
    assert as_float(np.zeros(1, dtype=np.float32)).dtype == np.float32
    assert as_float([1, 0]).dtype == np.float64
    assert as_float(np.array([True])).dtype == np.float64
    assert as_float(torch.tensor([True])).dtype == torch.get_default_dtype()


def test_per_group_takes_one_group_or_many():
    assert per_group(len, ["a", "b"]).tolist() == 2
    assert per_group(len, [["a", "b"], ["c"]]).tolist() == [2, 1]
