import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath import credit
from polypath.core.errors import UserError
from polypath.credit.novelty_weights import disputed, likelihood_rank, nearest_distance, weight_positive
from polypath.credit.shaping import failed_progress, fuzzy, step_prior, tiers
from polypath.credit.token_weights import doubt, doubt_clip, top_product


def close(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(values), expected, atol=tolerance)


def test_fuzzy_reward_falls_and_ends_at_the_largest_error():
    close(fuzzy([0.0, 0.4999, 0.5, math.nan]), [1.5, 1.0001, 0, 0])
    with pytest.raises(UserError, match="a distance is negative"):
        fuzzy([-0.1])


def test_tiers_never_pay_a_failure_more_than_a_success():
    close(tiers([0.0, 0.3, 0.4, math.nan]), [1, 1 / 3, 0, 0])
    close(tiers([0.0, 0.3], [False, True]), [0, 1 / 3])


@given(n=st.floats(0.1, 50), shape=st.floats(1.1, 5), scale=st.floats(0.5, 20))
def test_the_step_prior_is_1_at_its_top_and_below_elsewhere(n, shape, scale):
    top = scale * ((shape - 1) / shape) ** (1 / shape)
    assert step_prior([1.0], [top], shape=shape, scale=scale)[0] == pytest.approx(1.0)
    assert step_prior([1.0], [n], shape=shape, scale=scale)[0] <= 1.0 + 1e-9


def test_the_step_prior_is_the_weibull_density_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    steps = np.array([1.0, 3, 6, 9, 20])
    density = stats.weibull_min(2.5, scale=7.0).pdf(steps)
    found = step_prior(np.ones(5), steps, shape=2.5, scale=7.0)
    close(found / found[0], density / density[0])


def test_an_odd_length_never_makes_a_bad_chain_better():
    found = step_prior([-1.0, -1.0, 1.0], [6.0, 40.0, 6.0])  # -1 times a small weight would beat -1
    assert found[0] == found[1] == 0.0 and found[2] > 0
    with pytest.raises(UserError, match="gives no peak"):
        step_prior([1.0], [1.0], shape=1.0)


def test_progress_by_hand_and_only_where_all_are_wrong():
    close(failed_progress([0, 0, 0], [False] * 3, [0.8, 0.4, 0.0]), [-0.047426, -0.731059, -0.993307])
    close(failed_progress([1, 0], [True, False], [0.1, 0.9]), [1, 0])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_more_progress_is_never_worse(progress):
    """The published 1/(1 + exp(b (RTS - g))) of one re-implementation falls with progress; ours must not."""
    ordered = sorted(progress)
    found = failed_progress([0.0] * len(ordered), [False] * len(ordered), ordered)
    assert (np.diff(found) >= 0).all() and (found < 0).all()


def test_equal_progress_gives_no_credit():
    found = credit.build("all_negative")({"rewards": [0, 0], "progress": [0.5, 0.5]})
    assert not found.advantages[0].any()


def test_nearest_distance_and_positive_weights():
    similarity = [[1, 1, 0, 0.6], [1, 1, 0, 0.6], [0, 0, 1, 0.8], [0.6, 0.6, 0.8, 1]]
    close(nearest_distance(similarity), [0, 0, 0.2, 0.2])
    assert nearest_distance([[1.0]]).tolist() == [1.0]
    # distances 0, 0, .2, .2 of mean .1: 0, 0, 2, 2, at least .5; the negative one stays
    close(weight_positive([1, 2, 3, -4], [0, 0, 0.2, 0.2]), [0.5, 1, 6, -4])
    close(weight_positive([1, -1], [0, 0]), [1, -1])
    close(weight_positive([1, 1], [0.1, 0.9], lowest=0.0, highest=9.0), [0.2, 1.8])


def test_likelihood_rank_of_whole_sequences():
    # sums -3, -2, -3 (the padded -9 does not count): the middle one is likeliest, the others tie at places 2 and 3
    found = likelihood_rank([[-1, -2], [-2, -9], [-1.5, -1.5]], [[1, 1], [1, 0], [1, 1]])
    close(found, [0.5, 0, 0.5])


def test_unlikeliness_by_hand():
    # log-probabilities -1, -2, -3 (wrong), -4: 1 - .25 (4 - rank)/4 = .75, .8125, (0), .9375
    group = {"rewards": [1, 1, 0, 1], "logp": [[-1], [-2], [-3], [-4]], "mask": [[1]] * 4}
    close(credit.build("unlikeliness")(group).fields[0]["rewards"], [0.75, 0.8125, 0, 0.9375])


def test_disputed_by_hand():
    # places by the first column 1 2 3 4, by the other 4 2 3 1: gaps 3 0 0 3
    columns = [[4, 1], [3, 3], [2, 2], [1, 4]]
    assert disputed(columns, share=0.5).tolist() == [1, 0, 0, 1]
    assert not disputed([[1, 2], [2, 3]]).any()


def test_top_product_by_hand():
    # |A| H: .18, 3.6, 1, 2
    found = top_product([1.8, -1.0], [[0.1, 2.0], [1.0, 2.0]], [[1, 1], [1, 1]], share=0.5)
    close(found, [[0, 1.8], [0, -1.0]])
    close(top_product([1.0, 1.0], [[9, 1], [2, 3]], [[0, 1], [1, 1]], share=1 / 3), [[0, 0], [0, 1]])


def test_doubt_by_hand():
    mask, entropy, confidence = [[1, 1, 1]], [[0.2, 1.0, 1.8]], [[0.9, 0.5, 0.1]]
    close(doubt([1.0], entropy, confidence, mask), [[0.8, 1.0, 1.2]])
    close(doubt([1.0], entropy, confidence, mask, add=0.05), [[0.7, 1.0, 1.3]])  # S = -2, 0, 2 of mean 0
    close(doubt([1.0], entropy, confidence, mask, largest=1.0), [[0.9, 1.0, 1.1]])
    close(doubt([-1.0], entropy, confidence, mask), [[-1.0] * 3])
    close(doubt([-1.0], entropy, confidence, mask, negatives=True), [[-0.8, -1.0, -1.2]])
    close(doubt([1.0], [[0.7] * 3], [[0.4] * 3], mask), [[1.0] * 3])  # all alike: no spread to divide by
    close(doubt([0.0], entropy, confidence, mask, add=1.0), [[0.0] * 3])  # a dead group stays dead


def test_clip_range_by_tail_confidence():
    # .05 + .15 sigmoid(4 (1 - c)) at c = .9, .2; only the last tokens count
    close(doubt_clip([[0.9], [0.2]], [[1], [1]]), [0.139803, 0.194125])
    close(doubt_clip([[0.1, 0.9, 0.3]], [[1, 1, 0]], tail=1), [0.139803])
