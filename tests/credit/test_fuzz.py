"""Every method on batches as ugly as they come: no crash, nothing undefined, and nothing for who takes no part."""

import numpy as np
import pytest
from credit_groups import fill, take
from hypothesis import given, settings
from hypothesis import strategies as st
from test_methods import PIPELINES

from polypath import credit
from polypath.diversity.kernels import cosine

REWARDS = [0.0, 1.0, -1.0, 1e-12, 1e6, -1e6, 0.1, np.nan, np.inf]
UGLY_TEXTS = ["", " ", "\n", "a", "a a a", "$x=1$ $x=1$", "\\(", "了解", "🙂" * 30, "a\x00b"]


@st.composite
def batches(draw):
    """One to three groups of 1 to 6: any reward, texts empty or odd, no answer, copies, vectors of length 0."""
    return [ugly(draw) for _ in range(draw(st.integers(1, 3)))]


def ugly(draw):
    n = draw(st.integers(1, 6))
    alike = draw(st.booleans())
    value = st.sampled_from(REWARDS)
    rewards = [draw(value)] * n if alike else draw(st.lists(value, min_size=n, max_size=n))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    group = fill(np.array(rewards), rng)
    group["correct"] = np.nan_to_num(group["rewards"]) > 0.5
    group["texts"] = draw(st.lists(st.sampled_from(UGLY_TEXTS), min_size=n, max_size=n))
    if draw(st.booleans()):  # nothing was answered
        group |= {"answers": [None] * n, "solutions": [None] * n}
    if draw(st.booleans()):
        group |= {"embeddings": np.zeros((n, 3)), "similarity": cosine(np.ones((n, 3)))}
    if draw(st.booleans()):  # completions without a token
        group |= {"mask": np.zeros_like(group["mask"]), "lengths": np.zeros(n)}
    if draw(st.booleans()) and n > 1:  # all are copies of the first
        group = {**take(group, [0] * n), "rewards": group["rewards"]}
    return group


@settings(max_examples=12, deadline=None)
@given(batch=batches())
@pytest.mark.parametrize("name", PIPELINES)
def test_credit_is_finite_and_those_without_a_reward_have_none(name, batch):
    memory = credit.Memory()
    for step in range(2):  # the second time there is something to remember
        found = PIPELINES[name](batch, step=step, memory=memory)
        for group, values, kept in zip(batch, found.advantages, found.keep, strict=True):
            assert len(values) == len(kept) == len(group["rewards"])
            assert np.isfinite(values).all(), (group["rewards"], values)
            undefined = ~np.isfinite(group["rewards"])
            assert not values[undefined].any() and not kept[undefined].any()
            assert not values[~kept].any()
        assert all(isinstance(value, float) for value in found.metrics.values())


# Why a group without any success has credit all the same. Any other method that gives some pays wrong answers.
ALL_WRONG = {
    **dict.fromkeys(["aero", "erils", "pvpo", "w_reinforce"], "what is subtracted is not the group's mean"),
    **dict.fromkeys(["fgrpr", "idea_cards", "tdig", "vpo", "all_negative"], "the reward is another field"),
    **dict.fromkeys(["arenarl", "rlrr"], "a judge's places"),
    **dict.fromkeys(["co_rl", "rlccf", "ttrl"], "the label is a vote"),
    **dict.fromkeys(["outcome_batch", "outcome_ucb"], "the paper explores among wrong answers, outside the z-score"),
    **dict.fromkeys(["moda", "smerl", "cd_rlhf"], "good is what is good for the group, and here all are equally so"),
}


def test_which_methods_credit_an_all_wrong_group():
    group = fill(np.zeros(5), np.random.default_rng(3))
    group |= {"correct": np.zeros(5, dtype=bool), "reward_columns": np.zeros((5, 3))}

    def largest(name):
        return np.abs(PIPELINES[name](group, memory=credit.Memory()).advantages[0]).max()

    assert {name for name in PIPELINES if largest(name) > 1e-9} == set(ALL_WRONG)


def test_an_undefined_constraint_leaves_the_multipliers_defined():
    """One batch with an undefined reward must not spoil what is remembered; it counts as the mean of the others."""
    memory = credit.Memory()
    group = {"rewards": [1.0, 1.0, 0.0], "reward_columns": [[1.0], [np.nan], [0.0]], "embeddings": np.eye(3)}
    found = credit.build({"diver_ct": {"gate": "any"}})(group, memory=memory)
    # every distance is 1 and the multiplier 1: (1 + 1)/2, (1 + .5)/2, (1 + 0)/2 over their sample std .25
    np.testing.assert_allclose(found.advantages[0], np.array([0.25, 0.0, -0.25]) / 0.2501, atol=1e-9)
    assert np.isfinite(memory["lagrangian"]).all() and memory["lagrangian"] == [[0.0], [0.0]]
