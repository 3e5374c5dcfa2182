"""Group rewards as plain TRL reward functions: by hand, in whole groups only, and inside TRL's own trainer."""

from types import SimpleNamespace

import numpy as np
import pytest
from trl_table import COMPLETIONS, PROMPTS, REWARDS, G, table_labels, table_reward

from polypath import credit
from polypath.adapters.trl_rewards import group_reward
from polypath.core.errors import UserError

SAME_TEXT = [{"partition": "same_text"}, {"signal": "distinctness"}]
TWO = {"prompts": ["p"] * 4 + ["q"] * 4, "completions": ["a", "a", "b", "c", "x", "x", "x", "x"]}


def accuracy(completions, **_):
    return [1.0 if text in "ab" else 0.0 for text in completions]


def test_the_bonus_of_each_group_alone():
    """Distinctness (G - f)/(G - 1): classes of 2, 2, 1, 1 and of 4."""
    found = group_reward(SAME_TEXT, num_generations=4)(**TWO)
    assert found == [pytest.approx(v) for v in (2 / 3, 2 / 3, 1, 1, 0, 0, 0, 0)]


def test_a_gate_and_a_fusion_work_on_the_reward_function():
    gated = group_reward([*SAME_TEXT, {"gate": "correct"}], num_generations=4, reward=accuracy)
    assert gated(**TWO) == [pytest.approx(v) for v in (2 / 3, 2 / 3, 1, 0, 0, 0, 0, 0)]
    fused = group_reward([*SAME_TEXT, {"fuse": "multiplicative"}], num_generations=4, reward=accuracy)
    assert fused(**TWO) == [pytest.approx(v) for v in (2 / 3, 2 / 3, 1, 0, 0, 0, 0, 0)]
    above = group_reward([*SAME_TEXT, {"gate": "correct"}], num_generations=4, reward=accuracy, correct_threshold=2.0)
    assert above(**TWO) == [0.0] * 8


def test_a_completion_without_a_reward_has_none_and_conversations_are_read():
    def partly(completions, **_):
        return [None, *accuracy(["a"] * (len(completions) - 1))]

    said = [[{"role": "assistant", "content": text}] for text in TWO["completions"]]
    found = group_reward(SAME_TEXT, num_generations=4, reward=partly)(prompts=TWO["prompts"], completions=said)
    assert found[:4] == [None, 1.0, 1.0, 1.0]  # the other "a" has lost its twin


def test_columns_reach_canonical_and_the_step_reaches_schedules():
    seen = []

    def canonical(texts, row):
        seen.append(row)
        return [None] * len(texts)

    uniqueness = {"signal": {"uniqueness": {"alpha": {"linear": {"start": 0.0, "end": 1.0, "steps": 10}}}}}
    function = group_reward([{"partition": "same_text"}, uniqueness], num_generations=4, canonical=canonical)
    state = SimpleNamespace(global_step=10)
    assert function(**TWO, trainer_state=state, id=list("11112222"))[:3] == [0.5, 0.5, 1.0]
    assert seen == [{"id": "1", "prompt": "p"}, {"id": "2", "prompt": "q"}]
    assert function(**TWO, trainer_state=SimpleNamespace(global_step=0))[:3] == [1.0, 1.0, 1.0]


def test_parts_of_groups_are_refused_and_so_are_stages_without_a_diversity():
    function = group_reward(SAME_TEXT, num_generations=4)
    with pytest.raises(UserError, match="6 rows are not whole groups of 4"):
        function(prompts=["p"] * 6, completions=["a"] * 6)
    with pytest.raises(UserError, match="row 2 has another prompt than its group of 4"):
        function(prompts=["p", "p", "q", "q"], completions=["a"] * 4)
    with pytest.raises(UserError, match="no stage gives a diversity"):
        group_reward([{"partition": "same_text"}], num_generations=4)


def test_stock_trl_with_the_fused_reward_of_darling_has_its_advantages(make_trainer, make_config, one_step):
    """DARLING is that reward, centred: what TRL does with scale_rewards="none"."""
    stages = [{"partition": "classes"}, {"signal": {"distinctness": {"floor": 0.1}}}, {"fuse": "multiplicative"}]
    reward = group_reward(stages, num_generations=G, reward=table_reward, canonical=table_labels, name="darling")
    trainer = make_trainer(make_config(scale_rewards="none"), reward=reward)
    seen = one_step(trainer)
    groups = [
        {"rewards": REWARDS[i], "labels": [label or str(k) for k, label in enumerate(table_labels([], {"prompt": p}))]}
        for i, p in enumerate(PROMPTS)
    ]
    expected = dict(zip(PROMPTS, credit.build("darling")(groups).advantages, strict=True))
    order = [seen.prompts[i] for i in range(0, len(seen.prompts), G)]
    assert len(order) == len(COMPLETIONS)
    wanted = np.concatenate([expected[prompt] for prompt in order])
    np.testing.assert_allclose(seen.batch["advantages"].numpy(), wanted, atol=1e-6)
    assert any("rewards/darling/mean" in row for row in trainer.state.log_history)
