"""Trees and shared states: against recursion over the tree, and tables of visits."""

import numpy as np
import pytest

from polypath import credit
from polypath.credit.tree import depthwise, node_values, siblings, state_action, steps

PAIR = [[0, 2], [0, 3], [1, 4], [1, 5]]


def grow(rng, depth, path=()):
    """A random tree as a list of leaves, each its path of child numbers; leaves end at any level."""
    if depth == 0 or (path and rng.random() < 0.3):
        return [path]
    return [leaf for child in range(rng.integers(1, 4)) for leaf in grow(rng, depth - 1, (*path, child))]


def as_nodes(paths, depth):
    numbers = {}
    rows = [[numbers.setdefault(path[: d + 1], len(numbers)) for d in range(len(path))] for path in paths]
    return np.array([row + [-1] * (depth - len(row)) for row in rows])


def worth(paths, rewards, node, value):
    """Mean over the leaves below the node, or over its children's values, by recursion."""
    below = [(p, r) for p, r in zip(paths, rewards, strict=True) if p[: len(node)] == node]
    if [p for p, _ in below] == [node]:
        return below[0][1]
    if value == "leaves":
        return np.mean([r for _, r in below])
    return np.mean([worth(paths, rewards, child, value) for child in sorted({p[: len(node) + 1] for p, _ in below})])


@pytest.mark.parametrize("value", ["leaves", "children"])
@pytest.mark.parametrize("seed", range(8))
def test_nodes_are_worth_what_recursion_says_and_compared_with_their_rivals(seed, value):
    rng = np.random.default_rng(seed)
    paths = grow(rng, 3)
    rewards = rng.integers(0, 2, len(paths)).astype(float)
    nodes = as_nodes(paths, 3)
    values = {path[: d + 1]: None for path in paths for d in range(len(path))}
    values = {node: worth(paths, rewards, node, value) for node in values}
    found = node_values(rewards, nodes, value)
    among = siblings(rewards, nodes, value=value, scale="none"), depthwise(rewards, nodes, value=value, eps=0.0)
    for row, path in enumerate(paths):
        for d in range(3):
            node = path[: d + 1]
            if d >= len(path):
                assert found[row, d] == among[0][row, d] == among[1][row, d] == 0.0
                continue
            family = [v for other, v in values.items() if len(other) == d + 1 and other[:-1] == node[:-1]]
            level = [v for other, v in values.items() if len(other) == d + 1]
            assert found[row, d] == pytest.approx(values[node])
            assert among[0][row, d] == pytest.approx(values[node] - np.mean(family))
            spread = np.std(level, ddof=1) if len(level) > 1 else 0.0
            expected = (values[node] - np.mean(level)) / spread if spread > 1e-9 else 0.0
            assert among[1][row, d] == pytest.approx(expected, abs=1e-9)


def test_the_published_example_of_siblings():
    """Leaves (1,0), (0,0) | (1,1), (0,0): values .25, .5, then .5, 0 and 1, 0; each pair is ±.707 less eps."""
    nodes = [[i // 4, 2 + i // 2, 6 + i] for i in range(8)]
    found = siblings([1, 0, 0, 0, 1, 1, 0, 0], nodes)
    assert found[0].round(6).tolist() == [-0.706707, 0.706907, 0.707007]
    assert found[4].round(6).tolist() == [0.706707, 0.707007, 0.0]


def test_the_published_example_of_depths():
    """Leaves 1, 0, 1, 1: parents .5 and 1; with population std -1, 1 and .5774, -1.732, .5774, .5774."""
    found = depthwise([1, 0, 1, 1], PAIR, ddof=0, eps=0.0)
    np.testing.assert_allclose(found[:, 0], [-1, -1, 1, 1])
    np.testing.assert_allclose(found[:, 1], [3**-0.5, -(3**0.5), 3**-0.5, 3**-0.5])


def test_means_that_round_apart_are_no_spread():
    """.1 three times has a mean unlike .1: divided by its own tiny spread it would be ±.7."""
    nodes = [[0, 2], [0, 3], [0, 4], [1, 5]]
    assert not siblings([0.1] * 4, nodes).any()
    assert not depthwise([0.1, 0.2, 0.3, 0.2], nodes)[:, 0].any()  # (.1 + .2 + .3)/3 and .2


def test_an_only_child_a_single_rollout_and_a_group_without_forks():
    assert siblings([1.0], [[0, 1]]).tolist() == [[0.0, 0.0]]
    assert siblings([1.0, 0.0], [[0, 1], [0, 1]]).tolist() == [[0.0, 0.0]] * 2  # two records of one leaf
    flat = siblings([1.0, 0.0], [[0], [1]])
    np.testing.assert_allclose(flat[:, 0], credit.run_method("grpo", {"rewards": [1, 0]})["advantages"])


def test_a_shared_segment_counts_once_per_leaf_or_once():
    by_leaf, by_node = (siblings([1, 0, 0, 0], PAIR, scale="none", count=c) for c in ("leaf", "node"))
    assert by_leaf.tolist() == [[0.25, 0.5], [0.25, -0.5], [-0.25, 0.0], [-0.25, 0.0]]
    assert by_node[:, 0].tolist() == [0.125, 0.125, -0.125, -0.125] and (by_node[:, 1] == by_leaf[:, 1]).all()


def visits(rewards, states, actions, smoothing):
    """RTMC by hand: tables of which rollouts saw a state or took an action there, the first state's prior the mean."""
    seen, took, before, first = {}, {}, {}, {}
    for i, row in enumerate(states):
        for t, s in enumerate(row):
            seen.setdefault(s, set()).add(i)
            took.setdefault((s, actions[i][t]), set()).add(i)
            first[s] = min(first.get(s, t), t)
    for row in states:
        for t, s in enumerate(row):
            if t and first[s] == t:
                before.setdefault(s, []).append(row[t - 1])

    def mean(rows, prior):
        return (sum(rewards[i] for i in rows) + smoothing * prior) / (len(rows) + smoothing)

    def value(s):
        return mean(seen[s], np.mean([value(b) for b in before[s]]) if s in before else np.mean(rewards))

    return [
        [mean(took[s, a], value(s)) - value(s) for s, a in zip(srow, arow, strict=True)]
        for srow, arow in zip(states, actions, strict=True)
    ]


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("seed", range(5))
def test_state_action_is_what_tables_of_visits_give(seed, smoothing):
    """States come back at other steps and twice in one rollout; a rollout counts once."""
    rng = np.random.default_rng(seed)
    rewards = rng.integers(0, 2, 6).astype(float)
    rewards[:2] = 0.0, 1.0
    states, actions = rng.integers(0, 4, (6, 4)), rng.integers(0, 2, (6, 4))
    states[:, 0] = 9
    found = state_action(rewards, states, actions, smoothing=smoothing, scale="none")
    np.testing.assert_allclose(found, visits(rewards, states.tolist(), actions.tolist(), smoothing), atol=1e-12)
    other = state_action(1 - rewards, states, actions, smoothing=smoothing, scale="none")
    both = state_action([rewards, 1 - rewards], [states] * 2, [actions] * 2, smoothing=smoothing, scale="none")
    np.testing.assert_allclose(both, [found, other], atol=1e-12)


def test_the_published_example_of_states():
    """ab:1, ac:0, db:1, ab:0. Q(a) 1/3, V .5; after a V 1/3, Q(b) .5, Q(c) 0; after d nobody is compared."""
    states, actions = [[0, 1], [0, 1], [0, 2], [0, 1]], [[0, 1], [0, 2], [3, 1], [0, 1]]
    found = state_action([1, 0, 1, 0], states, actions, smoothing=0.0, scale="none")
    np.testing.assert_allclose(found, [[-1 / 6, 1 / 6], [-1 / 6, -1 / 3], [1 / 2, 0], [-1 / 6, 1 / 6]])
    smooth = state_action([1, 0, 1, 0], states, actions, scale="none")
    assert smooth[2, 1] > 0  # with a prior, a state that only one rollout saw keeps some credit


def test_rollouts_of_unequal_length_and_equal_rewards():
    assert state_action([1, 0], [[0, 1], [0, -1]], [[0, 0], [1, -1]], smoothing=0.0, scale="none").tolist() == [
        [0.5, 0.0],
        [-0.5, 0.0],
    ]
    assert not state_action([0.1] * 3, [[0, 1]] * 3, [[0, 0], [0, 1], [1, 0]]).any()


def test_steps_stand_on_their_tokens():
    found = steps([[1.0, 2.0], [3.0, 4.0]], [[1, 2], [0, -1]], [[1, 1, 1, 0], [1, 1, 0, 0]])
    assert found.tolist() == [[0, 1, 2, 0], [3, 3, 0, 0]]


def test_a_plan_with_branches_and_its_credit_fit(tmp_path):
    from polypath.core import registry
    from polypath.engines.protocol import SamplingParams
    from polypath.engines.transformers import TransformersPolicy
    from polypath.rollout.plan import build

    task = registry.get("task", "countdown")(numbers=4, min_solutions=3)
    policy = TransformersPolicy.load("countdown-0")
    plan = build({"treerpo": {"n": 2, "depth": 2, "max_new": 4}}, params=SamplingParams(max_new_tokens=16))
    batch, _ = plan.collect(policy, task, list(enumerate(task.prompts("train", n=3, seed=0))), seed=0, step=0)
    for i, group in enumerate(batch.groups):
        for j, row in enumerate(group):
            row.rewards = {"task": float(i + j == 1)}
    result = credit.build({"treerpo": {"scale": "none"}})(batch)
    first = result.advantages[0]
    own = [len(row.ids) for row in batch.groups[0]]
    assert first.shape == (4, max(own))
    np.testing.assert_allclose(first[:, :4], np.repeat([[0.25], [0.25], [-0.25], [-0.25]], 4, axis=1))
    np.testing.assert_allclose(first[1, 4 : own[1]], 0.5)
    np.testing.assert_allclose(first[0, 4 : own[0]], -0.5)
    assert not first[2:, 4:].any() and not result.advantages[2].any()
