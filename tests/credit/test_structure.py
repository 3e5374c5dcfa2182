"""Contexts, agents, trees, steps, parts and tokens: from records to fields, and through a whole batch."""

import numpy as np
import pytest

from polypath import credit
from polypath.core.record import Batch, Group, Rollout
from polypath.credit.structure import number_names, structure_of

TOKENS = [{"normalise": "centre"}, {"token_credit": "broadcast"}]


def rollout(index, group="g", **fields):
    fields.setdefault("ids", [1, 2])
    return Rollout("p", group, index, "", rewards={"task": float(index == 0)}, **fields)


def test_what_no_rollout_has_is_left_out():
    assert structure_of([rollout(0), rollout(1)]) == {}
    assert structure_of([]) == {}


def test_contexts_sources_and_spans_of_those_that_have_none():
    rows = [
        rollout(0, context={"id": "3", "kind": "hint"}, source={"name": "peer"}, spans={"plan": [0, 1]}),
        rollout(1),
    ]
    found = structure_of(rows)
    assert found == {"contexts": ["3", "bare"], "sources": ["peer", ""], "spans": [{"plan": [0, 1]}, {}]}


def test_names_are_numbered_alike_in_the_whole_batch_and_0_is_the_bare_prompt():
    groups = [{"contexts": ["b", "c"]}, {"contexts": [None, "c"]}, {"contexts": [5, 0]}, {"sources": ["z", ""]}]
    assert number_names(groups) == [
        {"contexts": [1, 2]}, {"contexts": [0, 2]}, {"contexts": [5, 0]}, {"sources": [1, 0]}
    ]  # fmt: skip


def test_a_tree_is_read_off_paths_and_starts():
    """Two ways at the first fork, two at the second; the last answer ended early, so that it is one node."""
    paths = [([0, 0], [0, 4]), ([0, 1], [0, 4]), ([1], [0])]
    rows = [rollout(i, extra={"path": path, "starts": starts}) for i, (path, starts) in enumerate(paths)]
    found = structure_of(rows)
    assert found == {"nodes": [[0, 1], [0, 2], [3]], "starts": [[0, 4], [0, 4], [0]]}
    fields = credit.build("grpo")(Group("g", "p", rows)).fields[0]
    assert fields["nodes"].tolist() == [[0, 1], [0, 2], [3, -1]] and fields["starts"].tolist()[2] == [0, -1]


def test_a_path_that_begins_before_the_answer_names_its_context_too():
    """Under two strategies the first answers are different nodes, although both are child 0."""
    rows = [rollout(i, extra={"path": [i, 0], "starts": [0]}) for i in range(2)]
    assert structure_of(rows)["nodes"] == [[0], [1]]


def test_a_parent_and_a_fork_alone_make_two_levels():
    """Rows of another framework: two share their first three tokens, the third stands alone."""
    rows = [rollout(0, parent="a", fork_pos=3), rollout(1, parent="a", fork_pos=3), rollout(2)]
    assert structure_of(rows) == {"nodes": [[0, 1], [0, 2], [3]], "starts": [[0, 3], [0, 3], [0]]}


def test_states_and_actions_of_agents_are_numbered_in_the_group():
    steps = [("a", ["s", "t"]), ("b", ["s", ["t", 1]])]
    rows = [
        rollout(i, extra={"states": states, "actions": [act, act], "starts": [0, 1]})
        for i, (act, states) in enumerate(steps)
    ]
    found = structure_of(rows)
    assert found["states"] == [[0, 1], [0, 2]] and found["actions"] == [[0, 0], [1, 1]]


def test_tokens_are_masked_where_they_were_put_and_given_only_on_request():
    rows = [
        rollout(0, ids=[1, 2, 3], forced_mask=[1, 0, 0], logp_sampling=[0, -1, -2]),
        rollout(1, logp_sampling=[0, -1]),
    ]
    assert "mask" not in structure_of(rows)
    found = structure_of(rows, ("mask", "logp"))
    assert found["mask"] == [[False, True, True], [True, True]]
    assert found["logp"] == [[0, -1, -2], [0, -1]]


def test_groups_of_unequal_length_are_credited_together_each_at_its_own_width():
    rows = [rollout(0, ids=[1, 2, 3]), rollout(1)] + [rollout(i, "h", ids=[1] * 5) for i in range(2)]
    result = credit.build(TOKENS)(Batch.from_rollouts(rows))
    assert len(result.stacked.buckets) == 1
    assert result.advantages[0].tolist() == [[0.5, 0.5, 0.5], [-0.5, -0.5, 0.0]]
    assert result.advantages[1].shape == (2, 5)


def test_a_field_of_steps_must_have_a_row_per_rollout():
    with pytest.raises(credit.pipeline.UserError, match="nodes needs a list per rollout"):
        credit.build("grpo")({"rewards": [1, 0], "nodes": [1, 2]})
    with pytest.raises(credit.pipeline.UserError, match="spans needs a mapping per rollout"):
        credit.build("grpo")({"rewards": [1, 0], "spans": [{}, {"a": 3}]})
    fields = credit.build("grpo")({"rewards": [1, 0], "nodes": np.zeros((2, 3), dtype=int)}).fields[0]
    assert fields["nodes"].shape == (2, 3)
