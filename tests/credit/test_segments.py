"""Parts of the text with rewards or weights of their own."""

import numpy as np
import pytest

from polypath import credit
from polypath.core.errors import UserError
from polypath.credit.segments import blocks, outcome_conditioned, part_masks, segment_weights, shaped_part

SPANS = [{"plan": [0, 2], "answer": [2, 3]}, {"answer": [0, 1]}]
MASK = [[1, 1, 1, 1], [1, 1, 0, 0]]


def test_parts_overlap_lack_and_end_beyond_the_text():
    found = part_masks([{"a": [0, 3], "b": [1, 9]}, {}], MASK, ["a", "b", ""]).astype(int)
    assert found[0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 1, 0]]
    assert found[1].tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    batch = part_masks([SPANS, SPANS], [MASK, MASK], ["plan"])
    assert (batch[0] == batch[1]).all() and batch.shape == (2, 2, 4, 1)


def test_each_column_stands_on_its_own_part():
    found = blocks([[1.0, 5.0], [2.0, 7.0]], SPANS, MASK, names=["plan", ""])
    assert found.tolist() == [[1, 1, 5, 5], [7, 7, 0, 0]]
    with pytest.raises(UserError, match="1 names for 2 columns"):
        blocks([[1.0, 5.0], [2.0, 7.0]], SPANS, MASK, names=["plan"])


def test_an_undefined_part_reward_is_no_credit_and_no_rival():
    """The second column of the last rollout is missing: the others are .5 and 0, each .25 from their mean."""
    columns = [[1, 0.5], [1, 0.0], [1, np.nan]]
    found = outcome_conditioned(columns, [True, True, True])
    np.testing.assert_allclose(found[:, 1], [0.25, -0.25, 0.0])
    assert not found[:, 0].any()


def test_a_rollout_alone_with_its_outcome_is_compared_with_the_group():
    found = outcome_conditioned([[1, 0.9], [0, 0.3], [0, 0.0]], [True, False, False])
    np.testing.assert_allclose(found[:, 1], [0.9 - 0.4, 0.15, -0.15])


def test_low_confidence_in_a_right_answer_is_not_credited():
    """The trap: against the whole group both right answers would be credited, however unsure."""
    columns = np.array([[1, -0.01], [1, -0.16], [0, -0.64], [0, -0.09]])
    assert outcome_conditioned(columns, [1, 1, 0, 0])[1, 1] < 0 < columns[1, 1] - columns[:, 1].mean()


def test_segment_weights_can_keep_the_size_of_the_update():
    """Weights 2, 2, 1, 1 of mean 1.5 become 4/3, 4/3, 2/3, 2/3."""
    options = {"weights": {"plan": 2.0}, "renormalise": True}
    found = segment_weights([3.0, -1.0], SPANS, MASK, **options)
    np.testing.assert_allclose(found, [[4, 4, 2, 2], [-1, -1, 0, 0]])
    assert segment_weights([1.0], [{}], [[0, 0]], **options).tolist() == [[0, 0]]


def test_a_method_with_other_parts_is_one_override():
    fields = {"rewards": [1, 0], "spans": [{"plan": [0, 1]}, {}], "mask": [[1, 1], [1, 1]]}
    found = credit.run_method({"segment_weights": {"weights": {"plan": 3.0}}}, fields)["advantages"]
    np.testing.assert_allclose(found, [[3 * 0.707007, 0.707007], [-0.707007] * 2], atol=1e-5)
    with pytest.raises(UserError, match="needs the field 'spans'"):
        credit.run_method("segment_weights", {"rewards": [1, 0], "mask": [[1], [1]]})


def test_a_flagged_step_of_a_strategy_loses_kappa():
    """As published: in the better of two answers 1 - .1, in a tied pair -.1; flags of records are spans of tokens."""
    from polypath.core.record import Group, Rollout

    def row(i, reward, context, flagged=()):
        columns = {"flagged": [list(span) for span in flagged]}
        context = {"id": context, "kind": "strategy"}
        return Rollout("p", "g", i, "", ids=[1, 2], rewards={"task": reward}, context=context, extra=columns)

    rows = [row(0, 1.0, "a", [(1, 2)]), row(1, 0.0, "a"), row(2, 0.0, "b", [(0, 1)]), row(3, 0.0, "b")]
    for each in rows:
        each.spans = {"strategy": [0, 0]}
    found = credit.build("strata")(Group("g", "p", rows)).advantages[0]
    np.testing.assert_allclose(found, [[1, 0.9], [-1, -1], [-0.1, 0], [0, 0]], atol=1e-7)
    for each in rows:
        each.extra = {}
    found = credit.build("strata")(Group("g", "p", rows)).advantages[0]
    np.testing.assert_allclose(found, [[1, 1], [-1, -1], [0, 0], [0, 0]], atol=1e-7)


def test_the_shaped_weight_is_the_gradient_of_the_shaped_objective():
    """Against differences of pi/(pi + gamma) in log pi; outside of the part and of the text nothing changes."""
    logp, gamma, step = np.array([[-0.1, -1.0, -3.0, -9.0, -1.0]]), 0.2, 1e-6
    on = np.array([[1, 1, 1, 1, 0]])
    found = shaped_part([2.0], [{"step": [0, 3]}], on, logp, span="step", gamma=gamma)
    value = [np.exp(logp + d) / (np.exp(logp + d) + gamma) for d in (step, -step)]
    slope = (value[0] - value[1]) / (2 * step)
    np.testing.assert_allclose(found[0, :3], 2 * slope[0, :3], atol=1e-6)
    assert found[0, 3:].tolist() == [2.0, 0.0] and found[0, :3].max() <= 0.5
