"""Signals from similarities, embeddings and texts: worked numbers by hand, and brute force over the definitions."""

import math

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.credit.novelty import (
    cluster_distance,
    context_distance,
    discriminability,
    elliptical,
    kernel_repulsion,
    mean_distance,
    rbf,
    strategy_spread,
    volume_gain,
)
from polypath.credit.text_signals import bleu_distance, equation_unique_share, inner_variety
from polypath.diversity.kernels import cosine
from polypath.diversity.measures import pairwise_cosine, self_bleu

FOUR = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.8, 0.6]]
RANDOM = np.random.default_rng(3).normal(size=(6, 3))


def close(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(values), expected, atol=tolerance)


def test_mean_distance_of_the_group_is_the_mean_over_pairs():
    close(mean_distance(cosine(FOUR)), [0.4, 0.4, 0.8, 0.8 / 3])  # rows 0+1+.2, 0+1+.2, 1+1+.4, .2+.2+.4 over 3
    assert mean_distance(cosine(RANDOM)).mean() == pytest.approx(pairwise_cosine(RANDOM))
    assert mean_distance([[1.0]]).tolist() == [1.0]


def test_kernel_repulsion_with_and_without_surprise():
    close(kernel_repulsion(cosine([[1, 0], [1, 0], [0, 1]])), [1 / 3, 1 / 3, 2 / 3])
    logp, mask = [[-1.0, -3.0], [-2.0, 9.0]], [[1, 1], [1, 0]]
    close(kernel_repulsion(np.eye(2), logp, mask, surprise=0.1), [0.5 + 0.2, 0.5 + 0.2])  # both -2 per token
    with pytest.raises(UserError, match="surprise needs logp and mask"):
        kernel_repulsion(np.eye(2), surprise=0.1)


def test_volume_gain_is_the_scaled_marginal_of_log_det():
    kernel = np.array([[1, 0.9, 0.1], [0.9, 1, 0.1], [0.1, 0.1, 1]])
    # without a ridge: log(.188/.99), log(.188/.99), log(.188/.19)
    raw = np.log([0.188 / 0.99, 0.188 / 0.99, 0.188 / 0.19])
    close(raw, [-1.661263, -1.661263, -0.010582])
    ridged = kernel + 0.1 * np.eye(3)
    minors = [np.linalg.det(np.delete(np.delete(ridged, i, 0), i, 1)) for i in range(3)]
    expected = (np.log(np.linalg.det(ridged) / minors) - math.log(0.1)) / math.log(11)
    close(volume_gain(kernel, ridge=0.1), expected, 1e-12)
    assert (volume_gain(cosine(RANDOM)) >= 0).all() and (volume_gain(cosine(RANDOM)) <= 1).all()
    near_copies = volume_gain(np.ones((3, 3)), ridge=1e-3)  # log(1.5 ridge) and a little, of [log ridge, ~0]
    assert near_copies == pytest.approx([math.log(1.5) / -math.log(1e-3)] * 3, abs=1e-3)


@pytest.mark.parametrize("ridge", [0.1, 1.0, 5.0])
def test_elliptical_is_the_inverse_covariance_of_the_others(ridge):
    rows = RANDOM / np.linalg.norm(RANDOM, axis=1, keepdims=True)
    expected = []
    for i in range(6):
        others = np.delete(rows, i, 0)
        expected.append(rows[i] @ np.linalg.inv(ridge * np.eye(3) + others.T @ others) @ rows[i])
    close(elliptical(rows @ rows.T, ridge=ridge), expected, 1e-9)
    assert max(expected) <= 1 / ridge


def test_distance_to_other_roles_only():
    kernel = cosine([[1, 0], [1, 0], [0, 1], [0.6, 0.8]])
    # role 1 has the first two: the others are at 1 and .4; the third at 1, 1; the fourth at .4, .4
    close(context_distance(kernel, [1, 1, 2, 2]), [0.7, 0.7, 1.0, 0.4])
    close(context_distance(kernel, [5, 5, 5, 5]), [0.0] * 4)


def test_cluster_distance_is_that_of_centroids():
    labels = np.array([0, 1, 0, 2, 2, 1])
    unit = RANDOM / np.linalg.norm(RANDOM, axis=1, keepdims=True)
    centres = np.stack([unit[labels == k].mean(axis=0) for k in range(3)])
    far = 1 - cosine(centres)
    expected = far.sum(axis=1)[labels] / 2
    close(cluster_distance(cosine(RANDOM), labels), expected, 1e-12)
    close(cluster_distance(cosine(RANDOM), [0] * 6), [0.0] * 6)


def test_discriminability_of_a_role():
    kernel, roles = cosine(RANDOM), np.array([0, 0, 1, 1, 1, 2])
    expected = []
    for i in range(6):
        weights = [math.exp((kernel[i, j] - 1) / 0.3) if j != i else 0.0 for j in range(6)]
        share = (roles == roles[i]).mean()
        q = (sum(w for w, r in zip(weights, roles, strict=True) if r == roles[i]) + share) / (sum(weights) + 1)
        expected.append(math.log(q) - math.log(share))
    close(discriminability(kernel, roles, temperature=0.3), expected, 1e-12)
    close(discriminability(kernel, [4] * 6), [0.0] * 6)  # one role tells nothing


def test_strategy_spread_does_not_depend_on_the_order():
    kernel = cosine(FOUR)
    close(strategy_spread(kernel), [0.608333] * 4)  # three strategies of four, mean distance .466667
    chain = cosine([[math.cos(a), math.sin(a)] for a in (0.0, 0.4, 0.8)])  # neighbours .921, ends .697
    for order in ([0, 1, 2], [1, 0, 2], [0, 2, 1]):
        assert strategy_spread(chain[np.ix_(order, order)], tau=0.9)[0] == pytest.approx(
            0.5 / 3 + 0.5 * mean_distance(chain).mean()
        )
    assert strategy_spread([[1.0]]).tolist() == [0.0]


def test_the_published_determinants():
    """Two of three points at distance .1: 1 - e^-.01. Points 0, 1, 2 with a = e^-.5, b = e^-2: 1 + 2aab - 2aa - bb."""
    assert np.linalg.det(rbf([[0.0], [0.1], [50.0]])) == pytest.approx(1 - math.exp(-0.01), abs=1e-9)
    a, b = math.exp(-0.5), math.exp(-2.0)
    assert np.linalg.det(rbf([[0.0], [1.0], [2.0]])) == pytest.approx(1 + 2 * a * a * b - 2 * a * a - b * b)
    assert np.linalg.det(rbf([[0.0], [1.0], [2.0]])) == pytest.approx(0.3455, abs=1e-5)


def test_formulas_count_up_to_the_cap_and_only_at_the_start():
    texts = ["$a$ $b$", "$a$ $c$ $d$", "no"]
    close(equation_unique_share(texts, cap=0.6), [0.5, 0.6, 0.0])
    spam = "$a$" + " ".join(f"${c}$" for c in "bcdefghijklm")
    assert equation_unique_share([spam, "$a$"]).tolist() == [0.68, 0.0]
    late = "words " * 200 + "$x=1$"
    assert equation_unique_share([late, "$a$"]).tolist() == [0.0, 0.68]
    close(equation_unique_share([texts, texts]), [[0.5, 2 / 3, 0.0]] * 2)


def test_bleu_distance():
    texts = ["the cat sat on the mat", "the cat sat on a mat", "dogs run fast in the park"]
    assert bleu_distance(texts).mean() == pytest.approx(1 - self_bleu(texts))
    assert bleu_distance(["a"]).tolist() == [1.0]
    assert bleu_distance(["a b c d e", "a b c d e"]).max() == pytest.approx(0.0)


def test_variety_inside_a_text():
    close(inner_variety(["a b c d", "a A a a", ""]), [1.0, 0.25, 0.0])
    spans = [{"x": [0, 1], "y": [1, 2]}, {"x": [0, 1]}, {}]
    close(inner_variety(["a b", "a a", ""], spans, roles=2), [1.0, 0.5, 0.0])


def test_saying_it_all_again_does_not_make_a_text_more_varied():
    words = [f"w{i % 40}" for i in range(80)]
    once, twice = (inner_variety([" ".join(words * n)]).item() for n in (1, 2))
    assert twice == pytest.approx(once, abs=1e-12)  # a plain type-token ratio would have halved
    assert inner_variety([" ".join(words + ["so"] * 80)]).item() < once
