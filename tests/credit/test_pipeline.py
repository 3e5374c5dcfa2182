import json

import numpy as np
import pytest

from polypath import credit
from polypath.core.errors import UserError
from polypath.core.recipe_types import Call
from polypath.core.record import Batch, Group, Rollout


def rollout(index, reward, canonical=None, group="g", **more):
    correct = more.pop("correct", reward > 0)
    return Rollout(
        "p", group, index, f"text {index}", rewards={"r": reward}, correct=correct, canonical=canonical, **more
    )


def test_a_batch_keeps_its_order_over_groups_of_different_sizes():
    sizes = [3, 2, 3, 1]
    rows = [
        rollout(i, float(i == 0), canonical=str(i), group=f"g{g}") for g, size in enumerate(sizes) for i in range(size)
    ]
    result = credit.build("dr_grpo")(Batch.from_rollouts(rows))
    assert [len(a) for a in result.advantages] == sizes
    assert [a[0] for a in result.advantages] == pytest.approx([2 / 3, 1 / 2, 2 / 3, 0])
    assert [len(fields["rows"]) for fields in result.fields] == sizes
    assert result.fields[1]["texts"] == ["text 0", "text 1"]


def test_fields_of_a_group():
    group = Group("g", "p", [rollout(0, 1.0, "a", ids=[1, 2]), rollout(1, 0.0, None), rollout(2, 1.0, "a", keep=False)])
    fields = credit.fields_of(group)
    assert fields["labels"].tolist() == [0, 1, 0]
    assert fields["lengths"] == [2, 0, 0]
    assert fields["correct"] == [True, False, True]
    assert np.isnan(fields["rewards"][2])  # pruned
    assert "answers" not in fields


def test_a_group_without_any_defined_reward_is_all_dropped():
    result = credit.build("grpo")([{"rewards": [float("nan"), float("inf")]}, {"rewards": [1.0, 0.0]}, {"rewards": []}])
    assert result.advantages[0].tolist() == [0.0, 0.0] and result.keep[0].tolist() == [False, False]
    assert result.keep[1].tolist() == [True, True] and result.advantages[2].shape == (0,)


def test_nothing_at_all_has_undefined_metrics():
    metrics = credit.build("rarity")([]).metrics
    assert np.isnan(metrics["frac_tied"]) and np.isnan(metrics["frac_signal_from_diversity"])


def test_dropped_groups_are_not_kept():
    group = [{"rewards": [1.0, 1.0], "lengths": [1, 9]}, {"rewards": [1.0, 0.0], "lengths": [1, 1]}]
    result = credit.build({"dapo": {"max_length": 10, "buffer": 5}})(group)
    assert [k.tolist() for k in result.keep] == [[False, False], [True, True]]
    assert result.advantages[0].tolist() == [0.0, 0.0]  # although the length penalty alone would have spread them


def test_correct_is_read_off_binary_rewards_of_the_whole_batch_only():
    pipeline = credit.build([{"gate": "correct"}, {"normalise": "centre"}])
    assert pipeline({"rewards": [1, -1]}).metrics["frac_all_correct"] == 0.0
    with pytest.raises(UserError, match=r"gate\.correct: needs the field 'correct', which is missing"):
        pipeline([{"rewards": [1, 0]}, {"rewards": [0.5, 0]}])


def test_embeddings_come_from_a_provider_once_per_batch_and_stay_in_their_group():
    calls = []

    def embed(texts):
        calls.append(list(texts))
        return np.array([[1.0, 0.0] if text == "a" else [0.0, 1.0] for text in texts])

    stages = [{"representation": "cosine"}, {"signal": "loo_pairs"}, {"fuse": "additive"}, {"normalise": "centre"}]
    groups = [
        {"rewards": [1, 1, 1], "texts": list("aab")},
        {"rewards": [1, float("nan"), 1, 1, 1], "texts": list("bxbba")},
    ]
    result = credit.build(stages, providers={"embeddings": embed})(groups)
    assert calls == [["a", "a", "b", "b", "b", "b", "a"]]
    assert result.advantages[0][2] > 0 > result.advantages[0][0] and result.advantages[1][4] > 0
    alone = credit.build(stages, providers={"embeddings": embed})(groups[0])
    np.testing.assert_allclose(alone.advantages[0], result.advantages[0])
    with pytest.raises(UserError, match=r"representation.cosine: needs the field 'embeddings'.*providers="):
        credit.build(stages)(groups)


def test_schedules_are_resolved_at_the_step():
    knobs = {"alpha": {"linear": {"start": 1.0, "end": 0.0, "steps": 10}}}
    group = {"rewards": [1, 1, 1, 0], "labels": [0, 0, 1, 0]}
    pipeline = credit.build({"rarity": knobs})
    for step, alpha in ((0, 1.0), (5, 0.5), (10, 0.0), (99, 0.0)):
        fixed = credit.build({"rarity": {"alpha": alpha}})(group).advantages[0]
        np.testing.assert_allclose(pipeline(group, step=step).advantages[0], fixed)
    call = Call("credit", "rarity", {"alpha": Call("schedule", "linear", knobs["alpha"]["linear"])})
    np.testing.assert_allclose(credit.build(call)(group, step=5).advantages[0], pipeline(group, step=5).advantages[0])


def test_share_of_the_signal_that_is_diversity():
    group = {"rewards": [1, 1, 1, 0], "labels": [0, 0, 1, 0]}
    # alpha 1: A = (0, 0, 1.732, -1.732), without (.577 x3, -1.732): moved .577 + .577 + 1.155 of 3.464 in all
    metrics = credit.build({"rarity": {"alpha": 1.0}})(group).metrics
    assert metrics["frac_signal_from_diversity"] == pytest.approx(2 / 3, abs=1e-6)
    assert credit.build({"rarity": {"alpha": 0.0}})(group).metrics["frac_signal_from_diversity"] == 0.0
    assert credit.build("grpo")(group).metrics["frac_signal_from_diversity"] == 0.0
    assert credit.build("rarity")({"rewards": [1, 1], "labels": [0, 1]}).metrics["mean_abs_advantage"] == 0.0


def test_group_metrics():
    groups = [
        {"rewards": [1, 1, 1], "labels": [0, 0, 1], "lengths": [1, 1, 1]},
        {"rewards": [0, 0], "labels": [0, 1], "lengths": [1, 2]},
        {"rewards": [1, 0, 1, 1], "labels": [0, 1, 1, 1], "lengths": [4, 2, 4, 4]},
        {"rewards": [0, 1], "labels": [0, 1], "lengths": [2, 4]},
    ]
    metrics = credit.build("dr_grpo")(groups).metrics
    assert (metrics["frac_all_correct"], metrics["frac_all_wrong"], metrics["frac_tied"]) == (0.25, 0.25, 0.5)
    assert metrics["distinct_per_correct_set"] == pytest.approx((2 + 2 + 1) / 3)  # over groups with a correct rollout
    assert metrics["mean_abs_advantage"] == pytest.approx((4 * 0.375 + 2 * 0.5) / 11)  # .25 x 3 + .75 = 4 x .375
    assert metrics["corr_credit_length"] > 0.5
    assert np.isnan(credit.build("dr_grpo")({"rewards": [1.5, 0.2]}).metrics["frac_all_correct"])


def test_a_spread_made_of_diversity_alone_is_counted():
    stages = [{"partition": "classes"}, {"signal": "distinctness"}, {"fuse": {"additive": {"lam": 1e-3}}}]
    group = {"rewards": [1, 1, 1], "labels": [0, 0, 1]}
    inflated = credit.build([*stages, {"normalise": "z_score"}])(group)
    assert inflated.metrics["std_inflated_groups"] == 1.0
    assert abs(inflated.advantages[0]).max() > 0.8  # a bonus of .001 became unit variance
    assert credit.build([*stages, {"normalise": "centre"}])(group).metrics["std_inflated_groups"] == 0.0


def test_whole_batch_stages_see_every_group():
    pipeline = credit.build([{"normalise": "centre"}, {"normalise": "batch_spread"}])
    groups = [{"rewards": [1, 0, 0, 1]}, {"rewards": [1, 1, 1, 0]}, {"rewards": [1, 0, 1]}]
    pooled = np.std([1, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1], ddof=1) + 1e-4
    assert pipeline(groups).advantages[0].tolist() == pytest.approx(
        [0.5 / pooled, -0.5 / pooled] * 1 + [-0.5 / pooled, 0.5 / pooled]
    )
    assert pipeline(groups).advantages[2][1] == pytest.approx(-2 / 3 / pooled)


def test_token_credit_gives_a_row_of_tokens_per_rollout():
    pipeline = credit.build([{"normalise": "centre"}, {"token_credit": "broadcast"}])
    groups = [
        {"rewards": [1, 0, float("nan")], "mask": [[1, 1], [1, 0], [1, 1]]},
        {"rewards": [1, 0], "mask": [[1], [1]]},
    ]
    result = pipeline(groups)
    assert result.advantages[0].tolist() == [[0.5, 0.5], [-0.5, 0.0], [0.0, 0.0]]
    assert result.advantages[1].tolist() == [[0.5], [-0.5]]


def test_unequal_lengths_and_unreadable_arrays_are_named():
    with pytest.raises(UserError, match="group 1: labels has 1 entries, rewards has 2"):
        credit.build("grpo")([{"rewards": [1, 0]}, {"rewards": [1, 0], "labels": [0]}])
    with pytest.raises(UserError, match="embeddings is not an array"):
        credit.build("grpo")({"rewards": [1, 0], "embeddings": [[1], [1, 1]]})
    with pytest.raises(UserError, match="mask needs a list per rollout"):
        credit.build("grpo")({"rewards": [1, 0], "mask": [1, 1]})
    with pytest.raises(UserError, match="correct has a missing entry"):
        credit.build("grpo")({"rewards": [1, 0], "correct": [True, None]})


def test_memory_forgets_the_oldest_and_survives_json():
    memory = credit.Memory(capacity=2)
    memory["a"], memory["b"] = [1], 2
    memory["a"] = [3]  # written again, so b is now the oldest
    memory["c"] = 4
    other = credit.Memory()
    other.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert dict(other) == {"a": [3], "c": 4} and other.capacity == 2
    copy = memory.copy()
    copy["a"].append(9)
    assert memory["a"] == [3]


def test_describe_lists_the_stages_with_their_knobs():
    text = credit.build({"rarity": {"alpha": 0.25}}).describe()
    assert "signal rarity(alpha=0.25): labels, correct -> diversity" in text
    assert "loss policy_clip(" in text
