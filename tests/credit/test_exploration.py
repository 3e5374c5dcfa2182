"""Bonuses after normalisation, guarded spreads, answers inside the group, tokens: worked numbers and edge cases."""

import math

import numpy as np
import pytest
from credit_groups import fill

from polypath import credit
from polypath.credit.combine import add_bonus, amplify, boost, collect, guarded_z, product_of_columns, synergy
from polypath.credit.exploration import curiosity_bonus, information_gain, sharpen, weighted_z, with_bonus
from polypath.credit.gates import near_best, solved_share
from polypath.credit.normalise import z_score
from polypath.credit.outcomes import batch_repetition, branch_information, context_entropy


def close(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(values), expected, atol=tolerance)


def test_guarded_z_is_the_z_score_unless_the_given_rewards_are_equal():
    fused = [1.0, 1.2, 0.1]
    close(guarded_z(fused, [1, 1, 0]), z_score(fused), 1e-12)
    close(guarded_z(fused, [1, 1, 1]), np.array(fused) - np.mean(fused), 1e-12)
    assert guarded_z([0.1] * 3, [1, 0, 0]).tolist() == [0.0] * 3
    close(guarded_z([fused, fused], [[1, 1, 0], [1, 1, 1]])[0], z_score(fused), 1e-12)


def test_amplify_shifts_negative_rewards():
    # kept: -1.5 for the distinct, -1 for the redundant one; shifted by -1: 0, 0, 2 x 1.5
    assert amplify([-1, -1, 1], [1, 0, 1], negatives="keep").tolist() == [-1.5, -1, 1.5]
    assert amplify([-1, -1, 1], [1, 0, 1]).tolist() == [0, 0, 3]
    assert amplify([-1, 1], [1, 1], [0, 1]).tolist() == [-1, 1.5]  # only an ungated one is negative


def test_bonuses_after_normalisation():
    close(add_bonus([1, -1], [0.5, 0.5], lam=0.2), [1.1, -0.9])
    close(add_bonus([0, 0, 0], [1, 3, 9], [0, 0, 0], lam=0.5, centred=True), [0, 0, 0])
    close(boost([2, -2], [0.5, 0.5], lam=1.0), [3, -3])
    stacked = collect([0.1, 0.2], collect([1.0, 2.0]))
    assert stacked.tolist() == [[1.0, 0.1], [2.0, 0.2]]


def test_columns_that_agree_and_that_all_must_be_met():
    close(synergy([[1, 1], [1, -1], [-1, -1]]), [2.5, 0, -2.5])
    close(synergy([[1, 2, 3], [1, -2, 0]]), [6 + 0.5 * 11, -1 - 0.5 * -2])  # pairs 2 + 3 + 6, and -2
    close(product_of_columns([[0.5, 0.5], [1, 0], [-1, -1], [np.nan, 1]]), [0.25, 0, 0, 0])


def test_gates():
    close(near_best([95, 80], eps=0.1, best=100), [1, 0])
    close(near_best([-100, -105, -120]), [1, 1, 0])  # (1 - .1) x -100 = -90 would shut out the best itself
    close(near_best([[1, 0], [0, 0]]), [[1, 0], [1, 1]])
    close(solved_share([[True, False], [False, False]]), [[0.5, 0], [0, 0]])


def test_the_published_bonus_of_a_skill():
    """Rewards 95 and 80, optimum 100, tolerance .1, weight 10, bonus .7: 102 and 80."""
    close([95, 80] + 10 * 0.7 * np.asarray(near_best([95, 80], eps=0.1, best=100)), [102, 80])


def test_published_sharpening():
    logp, mask = [[-0.5], [-1.0], [-2.0]], np.ones((3, 1))
    score = np.array([-0.5, -1, -2])
    close(np.exp(score - score.mean()), [1.947734, 1.181360, 0.434598])
    close(sharpen([1.0, 1, 1], logp, mask, [True] * 3), [1, 1, 1.5])
    close(sharpen([1.0, 1, 1], logp, mask, [True] * 3, lam=0.5), [1, 1, 1 + 0.5 * (1 - 0.434598)])
    close(sharpen([1.0, 1, 1], logp, mask, [True, True, False]), [1, 1, 1])
    close(sharpen([1.0, 1, -1], logp, mask, [True] * 3), [1, 1, -1])  # a correct but common answer stays pushed down


def test_repetition_in_the_batch():
    close(batch_repetition(["7", "7", "7", "9"]), [-0.5, -0.5, -0.5, 0])
    close(batch_repetition([["7", None, None], ["a", "a", "b"]]), [[0, 0, 0], [-1 / 3, -1 / 3, 0]])


def test_information_gain_is_the_sum_of_the_steps():
    beliefs = [[[0.5, 0.5, 0], [0.25, 0.75, 0], [1, 0, 0]], [[0.5, 0.5, 0], [np.nan] * 3, [np.nan] * 3]]
    close(information_gain(beliefs), [math.log(2) / math.log(3), 0])
    steps = [information_gain([beliefs[0][t : t + 2]])[0] for t in range(2)]
    assert sum(steps) == pytest.approx(information_gain(beliefs)[0])
    assert steps[0] > 0 and information_gain([beliefs[0][1::-1]])[0] == pytest.approx(-steps[0])


def test_entropy_of_a_context():
    close(context_entropy(["a", "b", "a", "a"], [1, 1, 2, 2]), [1, 1, 0, 0])
    close(context_entropy(["a", "a", "b", "c"], [0] * 4), [1.5 * math.log(2) / math.log(4)] * 4)  # shares 1/2, 1/4, 1/4
    close(context_entropy(["a", None, None], [3, 4, 4]), [0, 1, 1])
    close(context_entropy([["a", "b"], ["a", "a"]], [[1, 1], [1, 1]]), [[1, 1], [0, 0]])


def test_information_of_a_branch_averages_to_the_mutual_information():
    answers, branches = list("aababb"), np.array([0, 0, 0, 1, 1, 2])
    found = branch_information(answers, branches)

    def entropy(names):
        return -sum(names.count(n) / len(names) * math.log(names.count(n) / len(names)) for n in set(names))

    inside = sum(
        (branches == b).mean() * entropy([a for a, at in zip(answers, branches == b, strict=True) if at])
        for b in range(3)
    )
    assert found.mean() == pytest.approx(entropy(answers) - inside)
    close(branch_information(answers, branches, [2, 2, 2, 2, 2, 2], beta=0.3), found - 0.3)
    close(branch_information(["a", "a"], [0, 1]), [0, 0])


def test_curiosity_at_tokens_that_are_no_matter_of_course():
    """Errors 0, 1, 2 on the mask: mean 1, population variance 2/3."""
    on = [[1, 1, 0], [1, 0, 0]]
    logp = [[-1.0, -0.1, -3.0], [-2.0, 0.0, 0.0]]
    error, step = [[0, 1, 50], [2, 50, 50]], 1 / math.sqrt(2 / 3)
    bonus = curiosity_bonus(error, logp, on)
    close(bonus, [[-step, 0, 0], [step, 0, 0]])  # the second token was as good as certain
    close(curiosity_bonus(error, logp, on, [0, 1]), [[0, 0, 0], [step, 0, 0]])
    close(with_bonus([1.0, -1.0], on, bonus, eta=0.1), [[1 - 0.1 * step, 1, 0], [-1 + 0.1 * step, 0, 0]])
    close(with_bonus([1.0, -1.0], on), [[1, 1, 0], [-1, 0, 0]])
    close(curiosity_bonus([[1.0]], [[-1.0]], [[0]]), [[0]])


def test_weighted_scores_of_the_batch():
    scores = weighted_z([1, 0, 1], [2, 1, 4], [0.5, 0.9, 0.5], [1, 0, 1], efficiency=0.5, variety=0.0)
    # e = 1/2, 0, 0: the shortest answer is wrong and gets nothing for it
    expected = np.asarray(z_score([1, 0, 1])) + 0.5 * np.asarray(z_score([0.5, 0, 0]))
    close(scores, expected, 1e-12)
    assert weighted_z([1], [3], [0.0]).tolist() == [0.0]
    close(weighted_z([1, 1], [2, 2], [0.5, 0.5]), [0, 0])


@pytest.mark.parametrize(
    "name", ["sd_e2", "sgrpo", "sgrpo_advantage", "tdig", "cd_rlhf", "syn_grpo", "mupo", "setpo", "hire"]
)
def test_the_share_of_diversity_is_told(name):
    pipeline = credit.build({name: {"span": "strategy"} if name == "syn_grpo" else {}})
    found = [
        pipeline(fill(np.array([1.0, 1, 0, 1, 1]), np.random.default_rng(s)), memory=credit.Memory()) for s in range(4)
    ]
    assert max(each.metrics["frac_signal_from_diversity"] for each in found) > 0


def test_answers_seen_often_are_pushed_down_and_a_new_wrong_one_never_passes_a_right_one():
    memory = credit.Memory()
    group = {"rewards": [1, 1, 0, 0], "answers": ["7", "7", "8", "9"], "prompts": ["p"] * 4}
    pipeline = credit.build("outcome_ucb")
    for _ in range(50):
        last = pipeline({**group, "answers": ["7", "7", "8", str(_ + 100)]}, memory=memory).advantages[0]
    plain = credit.build("grpo")(group).advantages[0]
    assert last[0] < plain[0] and last[2] < plain[2] < last[3] < last[0]


def test_a_rare_right_answer_among_many_wrong_keeps_its_lead():
    answers = ["7", *map(str, range(100, 115))]
    found = credit.run_method(
        "outcome_ucb", {"rewards": [1] + [0] * 15, "answers": answers, "memory": {"answers||7": 10**6}}
    )
    assert found["advantages"][0] > 3 > 0.1 > max(found["advantages"][1:])
