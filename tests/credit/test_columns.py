"""Several rewards per rollout, and the fields that only some methods need."""

import numpy as np
import pytest

from polypath import credit
from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.record import Group, Rollout


@pytest.fixture(autouse=True)
def own_registry():
    """What a test registers is gone after it."""
    yield
    for known in (registry._entries, registry._functions):
        for kind, name in [key for key in known if key[1].startswith("test_")]:
            del known[kind, name]


def test_reward_columns_come_from_the_names_of_the_rewards_in_order():
    rows = [Rollout("p", "g", i, "", rewards={"style": i, "accuracy": 1.0 - i}, source={"name": "b"}) for i in (0, 1)]
    fields = credit.fields_of(Group("g", "p", rows))
    assert fields["reward_columns"] == [[1.0, 0], [0.0, 1]] and fields["rewards"] == [1.0, 1.0]
    assert fields["sources"] == ["b", "b"]
    rows[0].rewards = {"accuracy": 1.0}
    assert np.isnan(credit.fields_of(Group("g", "p", rows))["reward_columns"][0][1])
    rows[1].rewards = {"accuracy": 1.0}
    assert "reward_columns" not in credit.fields_of(Group("g", "p", rows))


def test_rewards_are_the_sum_of_the_columns_unless_given():
    columns = [[1, 0.5], [0, 0], [None, 1]]
    found = credit.build("dr_grpo")({"reward_columns": columns})
    assert found.advantages[0].tolist() == [0.75, -0.75, 0.0] and found.keep[0].tolist() == [True, True, False]
    assert credit.run_method("dr_grpo", {"reward_columns": columns})["advantages"] == [0.75, -0.75, 0.0]
    given = credit.build("dr_grpo")({"reward_columns": columns, "rewards": [1, 0, 1]})
    assert given.fields[0]["reward_columns"].shape == (3, 2) and given.keep[0].all()


def test_sources_are_numbered_by_name_so_that_the_order_of_rollouts_does_not_matter():
    found = credit.build("grpo")({"rewards": [1, 0, 1], "sources": ["zoe", "amy", "zoe"]})
    assert found.fields[0]["sources"].tolist() == [2, 1, 2]


def test_ranks_and_similarities_are_asked_for_group_by_group():
    asked = []

    def judge(texts):
        asked.append(list(texts))
        return np.arange(len(texts)) + 1.0

    @registry.register("fuse", "test_minus_rank", returns="rewards")
    def minus_rank(ranks):
        return -ranks

    pipeline = credit.build([{"fuse": "test_minus_rank"}, {"normalise": "centre"}], providers={"ranks": judge})
    groups = [{"rewards": [0, 0], "texts": ["a", "b"]}, {"rewards": [0, 0, np.nan], "texts": ["c", "d", "e"]}]
    assert [a.tolist() for a in pipeline(groups).advantages] == [[0.5, -0.5], [0.5, -0.5, 0.0]]
    assert asked == [["a", "b"], ["c", "d"]]


def test_whole_batch_stages_see_groups_keep_tokens_and_memory():
    @registry.register("reweight", "test_whole", returns="advantages keep metrics", traits={"whole_batch"})
    def whole(advantages, mask, groups, memory, keep=None, similarity=None):
        memory["seen"] = [mask.shape, keep is not None, similarity is not None]
        return advantages + groups, groups != 1, {"largest_group": groups.max()}

    stages = [{"normalise": "centre"}, {"reweight": "drop_tied"}, {"reweight": "test_whole"}]
    groups = [{"rewards": [1.0, 0.0], "mask": np.ones((2, 3))}, {"rewards": [2.0, 0.0], "mask": np.ones((2, 3))}]
    memory = credit.Memory()
    found = credit.build(stages)([*groups, {"rewards": [0.5], "mask": np.ones((1, 3))}], memory=memory)
    assert memory["seen"] == [(5, 3), True, False]
    assert [a.tolist() for a in found.advantages] == [[0.5, -0.5], [0.0, 0.0], [0.0]]
    assert found.fields[1]["advantages"].tolist() == [2.0, 0.0]  # groups are numbered as given
    assert found.metrics["largest_group"] == 2.0 and not found.keep[2].any()


@pytest.mark.parametrize("columns", [[[1.0, 2.0]], [[1.0], [2.0, 3.0]]])
def test_columns_of_another_length_are_refused(columns):
    with pytest.raises(UserError, match="reward_columns"):
        credit.build("grpo")({"rewards": [1, 0], "reward_columns": columns})
