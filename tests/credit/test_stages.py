"""Stage functions: worked numbers by hand, and the same values from numpy and torch."""

import math

import numpy as np
import pytest

from polypath import credit
from polypath.core import registry
from polypath.credit.fuse import additive, multiplicative, overlong
from polypath.credit.gates import correct_only, quality_quantile, reward_above
from polypath.credit.normalise import (
    batch_spread,
    centre,
    leave_one_out,
    minus_baseline,
    reward_spread,
    whiten,
    z_score,
)
from polypath.credit.reweight import drop_overlong, drop_tied, floor_correct, weight
from polypath.credit.signals import distinctness, inverse_redundancy, ngram_unique_share, rarity, uniqueness
from polypath.credit.statistics import leave_one_out_mean, length_weighted_mean, mean
from polypath.credit.tokens import broadcast, top_entropy
from polypath.diversity.kernels import cosine

R = [1.0, 0.0, 0.0, 1.0, 0.0]


def close(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(values), expected, atol=tolerance)


def test_z_score_with_population_spread():
    # population std sqrt(.24) = .489898: .6/.489898 and -.4/.489898
    close(z_score(R, eps=0.0, ddof=0), [1.224745, -0.816497, -0.816497, 1.224745, -0.816497])


@pytest.mark.parametrize("normalise", [centre, z_score, leave_one_out])
@pytest.mark.parametrize("rewards", [[0.1] * 7, [3.0], [-2.0, -2.0]])
def test_equal_rewards_and_groups_of_one_give_exact_zeros(normalise, rewards):
    assert normalise(rewards).tolist() == [0.0] * len(rewards)


def test_baselines():
    # lengths 4,2,2,2,2: (4 + 2)/12 = .5 (OPO)
    close(minus_baseline(R, length_weighted_mean(R, [4, 2, 2, 2, 2])), [0.5, -0.5, -0.5, 0.5, -0.5])
    close(minus_baseline(R, leave_one_out_mean(R)), leave_one_out(R))
    close(minus_baseline(R, mean(R)), centre(R))
    assert leave_one_out_mean([2.0]).tolist() == [2.0]


TWO = [1, 0, 0, 1, 1, 1, 1, 0]  # groups [1,0,0,1] and [1,1,1,0]
TWO_CENTRED = [0.5, -0.5, -0.5, 0.5, 0.25, 0.25, 0.25, -0.75]


def test_batch_spread():
    # all rewards: 5 of 8, sample variance (8/7)(5/8)(3/8) = .267857, std .517549; .5/.517649, .25/.517649, .75/.517649
    close(batch_spread(TWO_CENTRED, TWO), [0.965905, -0.965905, -0.965905, 0.965905, *[0.482953] * 3, -1.448858])


def test_whiten_counts_tokens():
    lengths = [2, 1, 1, 2, 1, 1, 2, 2]
    tokens = np.repeat(TWO_CENTRED, lengths)  # brute force: one value per token
    expected = (np.array(TWO_CENTRED) - tokens.mean()) / math.sqrt(tokens.var(ddof=1) + 1e-8)
    close(whiten(TWO_CENTRED, lengths), expected, 1e-12)
    close(expected, [0.899784, -1.063381, -1.063381, 0.899784, 0.408993, 0.408993, 0.408993, -1.554172])


def test_distinctness_and_uniqueness():
    close(distinctness([0, 0, 0, 0], floor=0.1), [0.1] * 4)
    assert distinctness([5]).tolist() == [1.0]
    close(uniqueness([0, 0, 1, 0], alpha=0.5), [3**-0.5, 3**-0.5, 1, 3**-0.5])


def test_rarity_ignores_wrong_rollouts_of_the_same_class():
    close(rarity([0, 0, 0, 1], [True, False, False, True], alpha=1.0), [1, 0, 0, 1])


def test_a_common_correct_answer_gets_a_negative_advantage_at_alpha_one():
    # 10 a, 1 b, 5 wrong of 16: weights .1 and 1 scaled by 11/2; w_a = .55 < mean 11/16 = .6875
    correct = np.array([1.0] * 11 + [0.0] * 5)
    labels = [0] * 10 + [1] + [2] * 5
    weights = multiplicative(correct, rarity(labels, correct > 0, alpha=1.0), conserve=True)
    close(weights, [0.55] * 10 + [5.5] + [0.0] * 5)
    assert reward_spread(weights, correct)[0] < 0
    assert floor_correct(reward_spread(weights, correct), correct > 0)[0] == 0.0


def test_reward_spread_of_equal_rewards_only_centres():
    close(reward_spread([0.75, 0.75, 1.5], [1, 1, 1]), [-0.25, -0.25, 0.5])


DRA = [[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]


def test_graph_cut_punishes_likeness_to_a_wrong_answer_unless_outcomes_are_apart():
    # row sums 2.6, 2.6, 3.0 over all; over the same outcome 2.6, 2.6, 2.2
    rewards, correct = [1.0, 1.0, 1.0, 0.0], [True, True, True, False]
    plain = multiplicative(rewards, inverse_redundancy(cosine(DRA, correct, between="all")))
    close(plain, [1 / 2.6, 1 / 2.6, 1 / 3, 0])
    # z: mean .275641, std .185436: .108974/.185536, .057692/.185536, -.275641/.185536
    close(z_score(plain), [0.587640, 0.587640, 0.311104, -1.486384], 5e-6)
    close(centre(plain), [0.108974, 0.108974, 0.057692, -0.275641])
    apart = multiplicative(rewards, inverse_redundancy(cosine(DRA, correct)))
    close(apart, [1 / 2.6, 1 / 2.6, 1 / 2.2, 0])


def test_opposite_vectors_are_not_worth_more_than_unrelated_ones():
    # with -1 counted, both row sums would be 0 and the rewards a million
    close(inverse_redundancy(cosine([[1.0, 0.0], [-1.0, 0.0]])), [1, 1])


def test_mutual_information_by_facility_location_and_by_volume():
    kernel = cosine(DRA, [True, True, True, False])
    close(inverse_redundancy(kernel, information="facility"), [1 / 2, 1 / 2, 1 / 1.6, 1])
    # log K_ii + log det of the others - log det of all, all with the ridge
    ridged = np.asarray(kernel) + 0.01 * np.eye(4)
    rest = [np.linalg.slogdet(np.delete(np.delete(ridged, i, 0), i, 1))[1] for i in range(4)]
    shared = math.log(1.01) + np.array(rest) - np.linalg.slogdet(ridged)[1]
    close(inverse_redundancy(kernel, information="log_det"), 1 / (1 + shared), 1e-5)


def test_ngram_unique_share():
    # 2..4-grams: "a b c d" has 6, of which ab, bc, abc are shared; "x y z w v" has 9 over 5 tokens
    texts = ["a b c d", "a b c e", "x y z w v"]
    close(ngram_unique_share(texts), [0, 0, 1])
    close(ngram_unique_share(texts, floor=0.2), [0.2, 0.2, 1])
    close(ngram_unique_share(["a b", "a b"]), [1, 1])
    close(ngram_unique_share(["", "a b"], minmax=False), [0, 0.5])
    close(ngram_unique_share([["a b", ""], ["c", "d e f"]], minmax=False), [[0.5, 0], [0, 1.0]])


def test_additive_conserves_the_total_reward():
    close(additive([1, 0, 0], [0.5, 1, 0], [1, 0, 0], lam=0.4), [1.2, 0, 0])
    conserved = additive([1, 0, 0], [0.5, 1, 0], lam=0.3, conserve=True)
    close(conserved, [1.0, 0.15, -0.15])  # bonuses .15, .3, 0 minus their mean .15


def test_multiplicative_conserves_the_gated_total_only():
    # gated 2 x .25 and 1 x 1 sum to 1.5, scaled to 3; the ungated .5 stands
    close(multiplicative([2, 1, 0.5], [0.25, 1, 0], [1, 1, 0], conserve=True), [1.0, 2.0, 0.5])
    close(multiplicative([0, 0], [0.5, 1], conserve=True), [0, 0])


def test_a_redundant_negative_reward_is_never_better_than_a_distinct_one():
    rewards, distinct = [-1.0, -1.0, -1.0, 1.0], [1 / 3, 1.0, 1 / 3, 1.0]
    kept = multiplicative(rewards, distinct, negatives="keep")
    assert kept[0] > kept[1]  # the trap
    shifted = multiplicative(rewards, distinct)
    assert shifted[0] <= shifted[1] and shifted[3] == 2.0


def test_negative_rewards_outside_the_gate_do_not_shift_the_group():
    close(multiplicative([1, 1, -1], [0.5, 1, 0.5], [1, 1, 0]), [0.5, 1, -1])


def test_overlong_starts_below_the_buffer_and_ends_at_minus_one():
    close(overlong([0.0] * 4, [80, 90, 100, 101], max_length=100, buffer=20), [0, -0.5, -1, -1])


def test_cut_off_answers_are_dropped_or_punished():
    assert drop_overlong([99, 100, 140], max_length=100).tolist() == [True, False, False]
    stages = [{"normalise": "centre"}, {"reweight": {"drop_overlong": {"max_length": 100}}}]
    found = credit.build(stages)({"rewards": [1, 0, 0], "lengths": [50, 60, 100]})
    assert found.keep[0].tolist() == [True, True, False] and found.advantages[0][2] == 0.0


def test_gates():
    close(correct_only([True, False]), [1, 0])
    close(reward_above([10, 10.5], threshold=10), [0, 1])
    close(quality_quantile([[4, 1, 2, 3], [5, 5, 5, 5]]), [[1, 0, 0, 1], [1, 1, 1, 1]])


def test_weights_ungated_and_gated():
    advantages = z_score([1, 1, 1, 0])  # .4999 three times and -1.4997
    weights = uniqueness([0, 0, 1, 0])
    close(weight(advantages, weights), [0.166633, 0.166633, 0.4999, -0.4999], 1e-5)
    # gated, weights 1/3, 1/3, 1 scaled to mean 1: .6, .6, 1.8
    close(weight(advantages, weights, [1, 1, 1, 0], renormalise=True), [0.29994, 0.29994, 0.89982, -1.4997], 1e-5)
    close(weight([1.0, -1.0], [0.5, 0.5], [0, 0], renormalise=True), [1, -1])


def test_drop_tied_and_floor():
    assert drop_tied([[1, 1], [1, 0]]).tolist() == [[False, False], [True, True]]
    close(floor_correct([-1, -1], [True, False], floor=None), [-1, -1])
    close(floor_correct([-1, -1], [True, False], floor=-0.5), [-0.5, -1])


def test_token_credit():
    mask = [[1, 1, 0], [1, 1, 1]]
    close(broadcast([2.0, -1.0], mask), [[2, 2, 0], [-1, -1, -1]])
    # five tokens with entropies .1 .9 | .5 .8 .2: the top 40 % are .9 and .8; the padded 7 does not count
    entropy = [[0.1, 0.9, 7.0], [0.5, 0.8, 0.2]]
    close(top_entropy([2.0, -1.0], entropy, mask, share=0.4), [[0, 2, 0], [0, -1, 0]])


ARRAYS = {
    "rewards": [[1.0, 0.0, 0.5, 1.0], [0.0, -1.0, 1.0, 0.0]],
    "base_rewards": [[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]],
    "advantages": [[1.0, -1.0, 0.5, -0.5], [0.0, 2.0, -1.0, -1.0]],
    "correct": [[True, False, False, True], [False, False, True, False]],
    "labels": [[0, 0, 1, 0], [3, 2, 2, -1]],
    "diversity": [[0.5, 1.0, 0.25, 0.0], [1.0, 1.0, 0.0, 0.5]],
    "gate": [[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]],
    "lengths": [[3.0, 1.0, 2.0, 2.0], [1.0, 1.0, 4.0, 2.0]],
    "baseline": [[0.5] * 4, [0.0] * 4],
    "embeddings": np.random.default_rng(0).normal(size=(2, 4, 3)).tolist(),
    "reward_columns": [[[1, 0.5], [0, 0.2], [1, 0.2], [0, 0]], [[1, 1], [1, 1], [0, 1], [2, 0.5]]],
    "column_advantages": [[[1, -1], [0, 0.5], [-1, -0.2], [0, 0]], [[1, 1], [-1, 0.9], [0, -1], [2, 0.5]]],
    "ranks": [[1.0, 2.0, 2.0, 4.0], [3.0, 1.0, 2.0, 4.0]],
    "sources": [[0, 0, 1, 1], [0, 1, 0, 1]],
    "strata": [[0, 0, 1, 1], [0, 0, 0, 1]],
    "progress": [[0.1, 0.2, 0.9, 0.4], [1.0, 0.0, 0.5, 0.5]],
    "distance": [[0.0, 0.1, 0.7, 0.2], [0.04, 0.3, 0.3, 9.0]],
    "steps": [[1.0, 2.0, 9.0, 4.0], [3.0, 3.0, 5.0, 6.0]],
    "mask": [[[1, 1], [1, 0], [1, 1], [1, 1]], [[1, 1], [1, 1], [1, 0], [0, 0]]],
    "logp": [[[-1, -2], [-1, -1], [-3, -0.5], [-1, -2]], [[-1, -1], [-2, -2], [-3, -1], [-1, -1]]],
    "entropy": [[[1, 0.2], [0.1, 1], [0.3, 0.5], [1, 2]], [[1, 1], [2, 2], [0.3, 1], [1, 1]]],
    "confidence": [[[0.9, 0.2], [0.1, 0.7], [0.3, 0.5], [0.1, 0.2]], [[0.5, 0.6], [0.7, 0.8], [0.3, 0.1], [0.1, 0.1]]],
    "similarity": np.stack([np.eye(4), np.full((4, 4), 0.5) + 0.5 * np.eye(4)]).tolist(),
}
REQUIRED = {"max_length": 4, "buffer": 2}  # knobs without a default
KINDS = ("partition", "statistics", "representation", "signal", "gate", "fuse", "normalise", "reweight", "token_credit")
STAGES = [
    e
    for kind in KINDS
    for e in registry.entries(kind)
    if set(e.data) <= set(ARRAYS) and e.name not in ("linked",) and len(e.returns) == 1
]


@pytest.mark.parametrize("entry", STAGES, ids=lambda e: f"{e.kind}.{e.name}")
def test_torch_and_numpy_agree(entry):
    torch = pytest.importorskip("torch")
    function = registry.get(entry.kind, entry.name)
    knobs = {name: REQUIRED[name] for name, knob in entry.knobs.items() if "default" not in knob}
    arrays = {name: np.array(ARRAYS[name]) for name in entry.data}
    if "whole_batch" in entry.traits:
        arrays = {name: value.ravel() for name, value in arrays.items()}
    tensors = {name: torch.tensor(value) for name, value in arrays.items()}
    np.testing.assert_allclose(np.asarray(function(**tensors, **knobs)), function(**arrays, **knobs), atol=1e-6)


@pytest.mark.parametrize(
    "entry", [e for e in STAGES if "whole_batch" not in e.traits], ids=lambda e: f"{e.kind}.{e.name}"
)
def test_a_batch_is_its_groups_one_by_one(entry):
    function = registry.get(entry.kind, entry.name)
    knobs = {name: REQUIRED[name] for name, knob in entry.knobs.items() if "default" not in knob}
    batch = function(**{name: np.array(ARRAYS[name]) for name in entry.data}, **knobs)
    for g in range(2):
        one = function(**{name: np.array(ARRAYS[name][g]) for name in entry.data}, **knobs)
        np.testing.assert_allclose(batch[g], one, atol=1e-12)
