import numpy as np
import pytest

from polypath.core.arrays import as_array
from polypath.diversity.kernels import cosine

E = [[1.0, 0.0], [2.0, 0.0], [0.6, 0.8], [0.0, 1.0]]


def test_cosine_by_hand():
    expected = [[1, 1, 0.6, 0], [1, 1, 0.6, 0], [0.6, 0.6, 1, 0.8], [0, 0, 0.8, 1]]
    np.testing.assert_allclose(cosine(E), expected, atol=1e-15)


def test_different_outcomes_do_not_compare_by_default():
    correct = [True, True, True, False]
    assert cosine(E, correct)[2].tolist() == pytest.approx([0.6, 0.6, 1.0, 0.0])
    assert cosine(E, correct, between="all")[2, 3] == pytest.approx(0.8)


def test_groups_do_not_mix_and_a_zero_vector_is_only_like_itself():
    embeddings = np.stack([as_array(E), np.zeros((4, 2))])
    similarity = cosine(embeddings)
    assert similarity.shape == (2, 4, 4)
    np.testing.assert_array_equal(similarity[1], np.eye(4))
    np.testing.assert_array_equal(similarity[0], cosine(E))
