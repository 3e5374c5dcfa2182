"""Several rewards per rollout: worked numbers and the traps of summing first, constant columns and fused spreads."""

import numpy as np
import pytest

from polypath import credit
from polypath.core.errors import UserError
from polypath.credit.baselines import standardise
from polypath.credit.multi_reward import (
    aligned_blend,
    conflict,
    each_column,
    ensemble,
    gated_columns,
    pareto_front,
    rubric_share,
    sum_columns,
)
from polypath.credit.normalise import z_score


def close(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(values), expected, atol=tolerance)


GDPO = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0], [0, 1, 1]], dtype=float)
GD2PO = np.array([[2, 0], [2, 1], [0, 1], [1, 0]], dtype=float)


def test_columns_apart_tell_combinations_apart_that_a_sum_makes_equal():
    summed = z_score(GDPO.sum(axis=-1))
    close(summed, [0.4999, 0.4999, -1.4997, 0.4999])  # three different combinations, one credit
    apart = sum_columns(each_column(GDPO))
    close(apart, [0.232051, 0.4999, -1.231851, 0.4999])
    close(standardise(apart), [0.279248, 0.601576, -1.4824, 0.601576])


def test_two_columns_of_constant_sum_cancel_and_weights_undo_that():
    columns = [[1, 0], [0, 1], [1, 0], [1, 0]]
    close(sum_columns(each_column(columns)), [0] * 4)
    close(sum_columns(each_column(columns), weights=[2, 1]), each_column(columns)[:, 0])
    with pytest.raises(UserError, match="3 weights for 2 columns"):
        sum_columns(each_column(columns), weights=[1, 2, 3])


def test_a_nearly_constant_column_is_not_blown_up():
    columns = np.array([[1, 0.5], [0, 0.5001], [1, 0.5], [0, 0.5001]])
    assert abs(each_column(columns)[:, 1]).max() > 0.3  # the trap: noise weighs almost as much as the outcome
    assert not each_column(columns, min_std=0.01)[:, 1].any()
    close(each_column(columns, min_std=0.01)[:, 0], z_score([1.0, 0, 1, 0]))


def test_an_undefined_reward_of_one_column_is_left_out_of_it():
    found = each_column([[1.0, np.nan], [0.0, 2.0], [1.0, 4.0]])
    close(found[:, 1], [0, *z_score([2.0, 4.0])])
    close(found[:, 0], z_score([1.0, 0.0, 1.0]))
    assert not each_column([[np.nan], [np.nan]]).any()


def test_conflicts_by_hand():
    # z of 2, 2, 0, 1 over .957527 + .0001 and of 0, 1, 1, 0 over .577350 + .0001; with eps 1e-6 as in the release
    columns = each_column(GD2PO, eps=1e-6)
    close(columns, [[0.783348, -0.866024], [0.783348, 0.866024], [-1.305580, 0.866024], [-0.261116, -0.866024]], 2e-6)
    total = sum_columns(columns)
    hard, kept = conflict(total, columns, mode="hard")
    assert kept.tolist() == [False, True, False, True]  # two of four: the group's weight is .5
    close(hard, [0, 0.824686, 0, -0.563570])
    ratio, kept = conflict(total, columns)  # |sum|/sum|.| is .050125 and .202411, so only the first is below .2
    assert kept.tolist() == [False, True, True, True]
    close(ratio, np.where(kept, 0.75 * total, 0))


def test_all_in_conflict_or_one_kept_gives_zeros():
    torn = {"reward_columns": [[1, 0], [0, 1]], "lengths": [1, 1]}
    result = credit.build({"gd2po": {"mode": "hard"}})(torn)
    assert result.advantages[0].tolist() == [0.0, 0.0] and not result.keep[0].any()
    one = {"reward_columns": [[1, 0], [0, 1], [0, 0]], "lengths": [1, 1, 1]}
    result = credit.build({"gd2po": {"mode": "hard"}})(one)
    assert result.keep[0].tolist() == [False, False, True] and not result.advantages[0].any()


def test_prompts_keep_their_relative_weight_in_the_whitening():
    clean = {"reward_columns": [[1, 1], [0, 0], [1, 1], [0, 0]], "lengths": [1] * 4}
    torn = {"reward_columns": [[1, 1], [0, 0], [1, 0], [0, 1]], "lengths": [1] * 4}
    one, two = credit.build({"gd2po": {"mode": "hard"}})([clean, torn]).advantages
    assert one[0] == pytest.approx(2 * two[0], rel=1e-3)  # half of the second prompt's rollouts were kept


def test_pareto_front_against_every_pair():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 4, (6, 9, 3)).astype(float)
    for group, found in zip(columns, pareto_front(columns), strict=True):
        for i, kept in enumerate(found):
            dominated = any((group[j] >= group[i]).all() and (group[j] > group[i]).any() for j in range(9))
            assert kept == (not dominated)
    assert pareto_front([[1, 0], [1, 0], [np.nan, 0]]).tolist() == [True, True, False]


def test_ensembles_by_hand():
    columns = [[0.9, 0.2, 0.8], [0.6, 0.6, 0.6]]
    for combine, expected in (("mean", 0.633333), ("min", 0.2), ("median", 0.8), ("mean_minus_std", 0.324213)):
        close(ensemble(columns, combine=combine), [expected, 0.6])
    close(ensemble([[1.0, np.nan, 0.0]], combine="mean"), [0.5])


def test_rubrics_and_gated_columns():
    close(rubric_share([[1, 0, np.nan], [1, 1, 1]]), [0.5, 1])
    close(rubric_share([[1, 0], [0, 1]], weights=[3, 1]), [0.75, 0.25])
    # the easy second reward counts only once the first is met
    close(gated_columns([[1, 0.5], [0, 0.5], [1, 0]]), [1.5, 0, 1])
    close(gated_columns([[1, 0.5], [0, 0.5]], weights=[2, 4]), [4, 0])


def test_a_misaligned_auxiliary_reward_fades_and_an_aligned_one_grows():
    columns = np.array([[1, 1, 0.0], [0, 0, 1], [1, 0.9, 0], [0, 0.1, 1]])  # the third works against the first
    memory = credit.Memory()
    groups = [0, 0, 1, 1]
    rewards, metrics = aligned_blend(columns, groups, memory)
    close(rewards, columns.sum(axis=-1))  # both start at 1
    assert metrics == {"blend_weight_1": 1.0, "blend_weight_2": 1.0}
    agreement = np.corrcoef(*(columns - np.repeat([[0.5, 0.5, 0.5]], 4, axis=0))[:, :2].T)[0, 1]
    close(memory["blend"], [1 + 0.1 * agreement, 0.9], 1e-9)
    for _ in range(20):
        rewards, _ = aligned_blend(columns, groups, memory)
    assert memory["blend"] == [2.0, 0.0]
    close(rewards, columns[:, 0] + 2 * columns[:, 1], 0.2)


def test_the_blend_is_learnt_by_the_pipeline_over_steps():
    memory = credit.Memory()
    pipeline = credit.build("behaviour_alignment")
    group = {"reward_columns": [[1, 0.0], [0, 1], [0, 1], [1, 0]]}
    first = pipeline(group, memory=memory)
    assert not first.advantages[0].any()  # 1 + 0 and 0 + 1: the auxiliary reward hides the first
    for step in range(1, 12):
        found = pipeline(group, step=step, memory=memory)
    assert found.advantages[0][0] > 0.8 and found.metrics["blend_weight_1"] == pytest.approx(0.0, abs=1e-9)


def test_a_fused_spread_is_counted_and_our_unlikeliness_is_not_divided_by_it():
    """In an all-correct group the paper's z-score turns any difference in likelihood into unit variance."""
    group = {"rewards": [1, 1, 1], "logp": [[-1.0], [-1.001], [-1.002]], "mask": [[1]] * 3}
    found = credit.build("unlikeliness")(group)
    assert np.abs(found.advantages[0]).max() <= 0.25 and found.metrics["std_inflated_groups"] == 0.0
    stages = [{"signal": "likelihood_rank"}, {"gate": "correct"}, {"fuse": {"multiplicative": {"strength": 0.25}}}]
    trap = credit.build([*stages, {"normalise": "z_score"}])(group)
    assert np.abs(trap.advantages[0]).max() > 0.9 and trap.metrics["std_inflated_groups"] == 1.0
