import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.credit.rank import bound_by_outcome, place, places, relative_rank, reward_ranks, win_odds
from polypath.credit.tournament import anchored, match, round_robin, seeded_bracket


def close(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(values), expected, atol=tolerance)


def test_places_share_ties_and_agree_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(0).integers(0, 4, (5, 7))
    close(places(values), stats.rankdata(values, axis=-1))
    close(reward_ranks(values), stats.rankdata(-values, axis=-1))


def test_place_renumbers_among_those_that_take_part():
    close(place([1, 2, 3, 4]), [1, 2 / 3, 1 / 3, 0])
    close(place([2, 7, 9]), [1, 0.5, 0])  # others were dropped
    close(place([3, 3]), [0.5, 0.5])
    assert place([5]).tolist() == [0.0]


def test_relative_rank_by_hand():
    # k = 1..4, s = 1, 1, 0, 0: s e^(.1 (1 - k)), and s + .1 tanh(4/k - 1) with tanh 3, tanh 1, tanh 1/3, 0
    correct = [True, True, False, False]
    close(relative_rank([1, 2, 3, 4], correct, mode="weight"), [1, 0.904837, 0, 0])
    close(relative_rank([1, 2, 3, 4], correct), [1.099505, 1.076159, 0.032151, 0])


def test_a_better_place_is_never_paid_less():
    ranks = np.arange(1.0, 9.0)
    for correct in (True, False):
        for mode in ("weight", "supplement"):
            found = relative_rank(ranks, np.full(8, correct), mode=mode)
            assert (np.diff(found) <= 0).all()


def test_bounds_by_outcome():
    close(bound_by_outcome([-0.5, 0.5, 0.7, -0.7], [True, True, False, False]), [0, 0.5, 0, -0.7])
    close(bound_by_outcome([-0.5, 0.7], [True, False], lowest=-0.1, highest=0.2), [-0.1, 0.2])


def test_win_odds_by_hand():
    # 7 against 5, 7, 6: sigmoid(2), 1/2, sigmoid(1), mean .703952; the others likewise
    scores, side = [7, 8, 6, 5, 7, 6], [True] * 3 + [False] * 3
    close(win_odds(scores, side), [0.703952, 0.854810, 0.5, 0.854810, 0.5, 0.703952])
    close(win_odds(scores, side, odds="indicator"), [2.5 / 3, 1, 0.5, 1, 0.5, 2.5 / 3])
    assert win_odds([3.0, 4.0], [True, True]).tolist() == [0.0, 0.0]


def scored(values):
    return lambda i, j: (values[i], values[j])


@given(values=st.lists(st.integers(0, 1000), min_size=1, max_size=17, unique=True))
def test_a_consistent_judge_gives_the_same_champion_in_every_tournament(values):
    best = int(np.argmax(values))
    for tournament in (round_robin, anchored, seeded_bracket):
        found = tournament(scored(values), len(values))
        assert found[best] == 1.0 and found.sum() == pytest.approx(len(values) * (len(values) + 1) / 2)
    close(round_robin(scored(values), len(values)), places(-np.array(values)))


def test_the_bracket_asks_linearly_many_pairings():
    for size in (2, 5, 8, 13):
        asked = []

        def judge(i, j, asked=asked):
            asked.append((i, j))
            return float(i), float(j)

        seeded_bracket(judge, size, swap=False)
        assert len(asked) == 2 * (size - 1)


def test_a_judge_that_likes_the_first_seat_gains_nothing():
    def biased(i, j):
        return (1.0, 0.0)

    assert match(biased, 0, 1, swap=True).tolist() == [0.5, 0.5]
    assert round_robin(biased, 4).tolist() == [2.5] * 4
    champions = [int(np.argmin(seeded_bracket(biased, 4, seed=seed))) for seed in range(60)]
    assert {0, 1, 2, 3} == set(champions)  # by lot, where the release favours the first seat
    assert seeded_bracket(biased, 4, seed=3).tolist() == seeded_bracket(biased, 4, seed=3).tolist()


def test_a_group_of_one_has_a_place():
    assert seeded_bracket(scored([1]), 1).tolist() == anchored(scored([1]), 1).tolist() == [1.0]
