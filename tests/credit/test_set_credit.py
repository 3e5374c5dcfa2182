"""Sets that compete, and sets of candidates in one rollout: the published numbers, and brute force."""

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.credit.combine import add_bonus
from polypath.credit.normalise import leave_one_out
from polypath.credit.set_credit import (
    best_of,
    best_of_scalarisations,
    blend,
    candidate_spread,
    ordered_novelty,
    set_diversity,
    set_share,
    sets,
    split_levels,
    uniform_share,
)
from polypath.diversity import marginals

U = [0.2, 0.4, 0.6, 0.8, 0.5, 0.5, 0.5, 0.5]


def published():
    """Two sets of four with diversities .7 and .2, the first with credits -.1, -.1, .133333, .066667.

    With s_i the distances of i, D = sum s/12 and the credit is s_i/3 - D; so s = 1.8, 1.8, 2.5, 2.3.
    """
    distance = np.full((8, 8), 0.5)
    distance[:4, :4] = [[0, 0.3, 0.8, 0.7], [0.3, 0, 0.8, 0.7], [0.8, 0.8, 0, 0.9], [0.7, 0.7, 0.9, 0]]
    distance[4:, 4:] = 0.2 - 0.2 * np.eye(4)
    return 1.0 - distance, sets(U, size=4)


def test_sets_are_consecutive():
    assert sets([0.0] * 5, size=2).tolist() == [0, 0, 1, 1, 2]
    assert sets([[0.0] * 3] * 2, size=2).tolist() == [[0, 0, 1]] * 2


def test_set_diversity_and_credits():
    similarity, strata = published()
    same = strata[:, None] == strata[None, :]
    diversity, credit = set_diversity(1 - similarity, same, np.ones(8))
    np.testing.assert_allclose(diversity, [0.7] * 4 + [0.2] * 4)
    np.testing.assert_allclose(credit, [-0.1, -0.1, 0.4 / 3, 0.2 / 3] + [0.0] * 4, atol=1e-12)


def test_credits_are_what_the_set_loses_by_brute_force():
    rng = np.random.default_rng(0)
    distance = rng.random((6, 6))
    distance = distance + distance.T
    valid = np.array([1.0, 1, 0, 1, 1, 1])

    def mean_pair(members):
        pairs = [distance[i, j] for i in members for j in members if i < j and valid[i] * valid[j]]
        return float(np.mean(pairs)) if pairs else 0.0

    diversity, credit = set_diversity(distance, np.ones((6, 6), dtype=bool), valid)
    np.testing.assert_allclose(diversity, mean_pair(range(6)))
    np.testing.assert_allclose(credit, marginals.leave_one_out(mean_pair, 6) * valid, atol=1e-12)


def test_the_published_advantages():
    # z = credits/.118734, w+ = 4 softmax = .302884 x2, 2.161428, 1.232804; allocated .7 + .5 (w+ - 1), and .2
    similarity, strata = published()
    share = set_share(similarity, strata)
    np.testing.assert_allclose(share, [0.351442, 0.351442, 1.280714, 0.816402] + [0.2] * 4, atol=1e-6)
    found = leave_one_out(blend(U, share, weight=0.5))
    np.testing.assert_allclose(found, [-0.227747, -0.113462, 0.531837, 0.380801] + [-0.142857] * 4, atol=1e-6)
    bonus = set_share(similarity, strata, total=False)
    found = 0.5 * add_bonus(leave_one_out(U), bonus, lam=1.0)
    np.testing.assert_allclose(found, [-0.095708, 0.018578, 0.5975, 0.479629] + [-0.25] * 4, atol=1e-6)


def test_a_single_set_has_no_rival_and_wrong_members_no_share():
    similarity, strata = published()
    np.testing.assert_allclose(set_share(similarity[:4, :4], strata[:4]), [0.7] * 4)
    assert set_share(np.eye(2), [0, 1]).tolist() == [0.0, 0.0]  # sets of one have no pairs
    gate = np.array([1, 1, 1, 0, 1, 1, 1, 1.0])
    share = set_share(similarity, strata, gate)
    assert share[:4].mean() == pytest.approx((0.3 + 0.8 + 0.8) / 3)  # the fourth is in no pair
    found = leave_one_out(blend([1, 1, 1, 0, 1, 1, 1, 1], share, gate))
    assert found[3] < found[[0, 1, 2, 4, 5, 6, 7]].min()


def test_specialists_beat_generalists_under_the_three_weights_of_the_example():
    weights = np.array([[1, 0], [0.5, 0.5], [0, 1]])
    assert best_of(np.array([[1.0, 0.0], [0.0, 1.0]]), weights) == pytest.approx(5 / 6)
    assert best_of(np.array([[0.6, 0.6], [0.6, 0.6]]), weights) == pytest.approx(0.6)
    three = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.0]])
    added = marginals.leave_one_out(lambda rows: float(best_of(three[list(rows)], weights)) if len(rows) else 0.0, 3)
    np.testing.assert_allclose(added, [0.1 / 3, 1 / 3, 0.0], atol=1e-12)


def test_scalarisations_are_common_and_duplicates_and_missing_candidates_add_nothing():
    one = [[0.3, 0.9], [0.8, 0.1]]
    values = best_of_scalarisations([[*one, [np.nan, np.nan]], [*one, one[0]], [one[1], one[0], one[1]]])
    np.testing.assert_allclose(values, values[0])
    # E max(w, 1 - w) over a uniform w is 3/4
    assert best_of_scalarisations([np.eye(2)], samples=20_000)[0] == pytest.approx(0.75, abs=0.005)
    assert best_of_scalarisations([one], seed=1)[0] != best_of_scalarisations([one], seed=2)[0]


def test_ideas_earn_by_their_distance_to_earlier_ones():
    quality, vectors = [[0.8], [0.9], [0.7]], [[1, 0], [0.8, 0.6], [0, 1]]
    # .8, .9 x .2, .7 x min(1, .4): mean of .8, .18, .28
    assert ordered_novelty([quality], [vectors])[0] == pytest.approx(0.42)
    assert ordered_novelty([quality], [vectors], count=6)[0] == pytest.approx(0.21)
    missing = [[0.8], [np.nan], [0.7]]  # the third is then only compared with the first: (.8 + .7)/2
    assert ordered_novelty([missing], [vectors])[0] == pytest.approx(0.75)
    swapped = ordered_novelty([quality[::-1]], [vectors[::-1]])[0]
    assert swapped == pytest.approx((0.7 + 0.9 * 0.4 + 0.8 * 0.2) / 3)
    with pytest.raises(UserError, match="unlike numbers of candidates"):
        ordered_novelty([quality], [vectors[:2]])


def test_spread_of_prompts():
    vectors = [[[1, 0], [0, 1], [np.nan, np.nan]], [[1, 0], [np.nan, np.nan], [np.nan, np.nan]]]
    assert candidate_spread(vectors).tolist() == pytest.approx([1.0, 0.0])


def test_levels_are_split():
    found = split_levels([1, 0, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1.0, 1, 0, 0, 0, 0], eps=0.0)
    np.testing.assert_allclose(found[:, 0], [0.5, 0.5, -0.5, -0.5, -0.5, -0.5])  # each stratum counts once
    np.testing.assert_allclose(found[:2, 1], [2**-0.5, -(2**-0.5)])
    np.testing.assert_allclose(found[2:, 1], np.array([0.5, 0.5, -0.5, -0.5]) / 3**-0.5)  # sample std 1/sqrt 3


def test_a_rare_class_is_not_punished_for_being_rare():
    labels = [0] * 12 + [1] * 7 + [2]  # shares .6, .35, .05 of three
    published = uniform_share(labels, [True] * 20, one_sided=False)
    assert published[-1] < published[0]
    ours = uniform_share(labels, [True] * 20)
    assert ours[-1] == 1.0 and ours[0] == pytest.approx(1 - (0.6 - 1 / 3))
    # the two invalid ones neither count nor make 0 rarer: 2 of 3 valid against 1/2
    assert uniform_share([0, 0, 1, 0, 5], [True, True, True, False, False]).tolist() == pytest.approx(
        [5 / 6, 5 / 6, 1, -1, -1]
    )
    assert uniform_share([0, 1], [False, False]).tolist() == [-1, -1]
