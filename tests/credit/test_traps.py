"""The known traps of diversity rewards, each set for every method that could fall in."""

import numpy as np
import pytest
from credit_groups import fill, take

from polypath import credit
from polypath.core import registry
from polypath.credit.novelty import mean_distance, volume_gain
from polypath.credit.novelty_weights import nearest_distance
from polypath.credit.signals import distinctness

FUSED = [
    "setpo",
    "dra_grpo",
    "dra_dr_grpo",
    "dpp_grpo",
    "mathv_dp",
    "diversity_rewarded",
    "dcr",
    "repexp",
    "hire",
]  # similarity
TEXTUAL = ["diver", "multirole"]
ROLES = ["moda", "smerl", "bdp", "iib_lpo"]
OTHERS = [
    "sgrpo",
    "sgrpo_advantage",
    "mupo",
    "dvd",
    "sd_e2",
    "xrpo",
    "outcome_ucb",
    "outcome_batch",
    "meds",
    "cd_rlhf",
    "oni",
]
EARLIER = ["darling", "uniqueness", "rarity", "remembered_rarity", "gapo"]
IN_EQUAL_GROUPS = [name for name in credit.methods() if "signal_in_equal_groups" in credit.load_method(name).traits]
INPUTS = {"texts", "labels", "answers", "contexts", "similarity", "logp", "mask", "correct", "beliefs", "spans"}
SIGNALS = [e for e in registry.entries("signal") if e.returns == ("diversity",) and set(e.data) <= INPUTS]


def run(name, group, **more):
    knobs = more.pop("knobs", {})
    found = credit.build({name: knobs})(group, memory=more.pop("memory", credit.Memory()), **more).advantages[0]
    return found if found.ndim == 1 else found.mean(axis=1)


def scene():
    """Two copies of one right answer, another right one, a wrong one that looks like it, and noise like nothing."""
    rewards = np.array([1.0, 1, 1, 0, 0])
    vectors = np.array([[1.0, 0, 0], [1, 0, 0], [0.6, 0.8, 0], [0.5, 0.85, 0], [0, 0, 1]])
    noise = " ".join(f"zq{i} $k{i}$" for i in range(30))
    return fill(rewards, np.random.default_rng(0)) | {
        "embeddings": vectors,
        "similarity": vectors @ vectors.T,
        "labels": np.array([0, 0, 1, 2, 3]),
        "answers": ["7", "7", "7", "8", "zq"],
        "solutions": ["a", "a", "b", None, None],
        "texts": ["so $a$ is $b$ now", "so $a$ is $b$ now", "by $c$ we get $b$", "by $c$ we get $d$", noise],
        "contexts": np.array([1, 2, 1, 2, 3]),
        "mask": np.ones((5, 3), dtype=bool),
        "lengths": np.array([3.0, 3, 3, 3, 3]),
        "logp": np.array([[-1.0] * 3, [-1.0] * 3, [-1.2] * 3, [-1.0] * 3, [-9.0] * 3]),
        "reward_columns": rewards[:, None],
        "beliefs": np.array([[[0.5, 0.5], [0.4, 0.6]]] * 4 + [[[0.5, 0.5], [1.0, 0.0]]]),
        "curiosity": np.array([[0.1] * 3] * 4 + [[5.0] * 3]),
    }


@pytest.mark.parametrize("name", [*FUSED, *TEXTUAL, *ROLES, *OTHERS, *EARLIER])
def test_noise_never_beats_a_right_answer(name):
    """Random tokens are the most distinct of all: unlike in words, vectors, class, answer and likelihood."""
    group, memory = scene(), credit.Memory()
    knobs = {
        "sgrpo": {"partition": {"sets": {"size": 3}}},
        "sgrpo_advantage": {"partition": {"sets": {"size": 3}}},
        "multirole": {"lam": 0.5},
    }.get(name, {})
    for step in range(3):  # the right answers become known, the noise is new each time
        fresh = {**group, "answers": [*group["answers"][:4], f"zq{step}"]}
        found = run(name, fresh, knobs=knobs, memory=memory, step=step)
        assert found[4] < found[:3].min(), found


@pytest.mark.parametrize("name", [*FUSED, "sd_e2", "sgrpo", "mupo"])
def test_a_right_answer_is_not_punished_for_looking_like_a_wrong_one(name):
    """The third rollout is the only distinct right one, and a wrong one lies beside it."""
    found = run(name, scene())
    assert found[2] >= found[0] - 1e-9, found


def test_the_release_of_dra_falls_into_it():
    group = scene()
    group["embeddings"] = np.array([[1.0, 0, 0], [1, 0, 0], [0.6, 0.8, 0], [0.6, 0.8, 0], [0.59, 0.81, 0]])
    found = run("dra_grpo", group, knobs={"between": "all"})
    assert found[2] < found[0]
    assert run("dra_grpo", group)[2] > run("dra_grpo", group)[0]


@pytest.mark.parametrize("name", [*FUSED, *EARLIER, *TEXTUAL])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_a_redundant_failure_is_never_better_than_a_distinct_one(name, low):
    vectors = np.array([[1.0, 0], [1, 0], [0, 1], [0.6, 0.8]])
    group = fill(np.array([low, low, low, 1.0]), np.random.default_rng(0)) | {
        "embeddings": vectors,
        "labels": np.array([0, 0, 1, 2]),
        "correct": np.array([False, False, False, True]),
        "texts": ["$a$ b c", "$a$ b c", "$d$ e f", "$g$ h i"],
    }
    found = run(name, group)
    assert found[0] <= found[2] + 1e-9 and found[3] > found[:3].max()


@pytest.mark.parametrize("name", IN_EQUAL_GROUPS)
def test_a_tiny_difference_in_diversity_stays_tiny(name):
    """All right, and all but equal: a spread of diversity alone is never blown up to unit variance."""
    vectors = np.array([[1.0, 0.0], [1.0, 0.001], [1.0, 0.02], [1.0, 0.0]])
    group = fill(np.ones(4), np.random.default_rng(0)) | {
        "embeddings": vectors,
        "labels": np.zeros(4, dtype=int),
        "solutions": ["a"] * 4,
    }
    result = credit.build(name)(group, memory=credit.Memory())
    assert np.abs(result.advantages[0]).max() < 0.02 and result.metrics["std_inflated_groups"] == 0.0


def test_where_the_spread_is_divided_by_all_the_same_it_is_counted():
    texts = ["a b c d e", "a b c d f", "a b c d g", "a b c d e"]
    stages = [
        {"signal": "ngram_unique_share"},
        {"fuse": {"multiplicative": {"strength": 0.6}}},
        {"normalise": "z_score"},
    ]
    result = credit.build(stages)({"rewards": [12.0] * 4, "texts": texts})
    assert result.metrics["std_inflated_groups"] == 1.0 and np.abs(result.advantages[0]).max() > 0.5


@pytest.mark.parametrize("name", [*FUSED, *TEXTUAL, *ROLES, "sgrpo", "mupo", "dvd", "xrpo", "outcome_batch"])
def test_the_other_prompts_of_a_batch_have_no_say(name):
    group, other = scene(), fill(np.array([1.0, 1, 0, 0, 1]), np.random.default_rng(5))
    other |= {"embeddings": np.random.default_rng(1).normal(size=(5, 3))}
    alone = run(name, group)
    for batch, place in (([group, other], 0), ([other, group, group], 1)):
        together = credit.build(name)(batch, memory=credit.Memory()).advantages
        np.testing.assert_allclose(together[place], alone, atol=1e-12)


@pytest.mark.parametrize("step", [0, 25, 49, 50, 75, 99, 100, 500])
def test_the_bonus_of_diver_never_turns_into_a_penalty(step):
    """The release's factor is cos(pi/2 min(1, (t - 100)/50)): -1 at 0, -.707 at 25, 0 at 50, .707 at 75."""
    released = np.cos(np.pi / 2 * min(1, (step - 100) / 50))
    group = {"rewards": [1, 1, 0], "texts": ["$a$ $b$", "$a$", "none"]}
    found = run("diver", group, step=step)
    assert (found[0] > found[1]) if step < 100 else found[0] == found[1]
    assert step >= 50 or released < 1e-9


def test_two_colluding_templates_gain_nothing_by_being_far_apart():
    """Two templates, twice each, against six honest answers near one another."""
    angles = np.array([0.0, 0.0, np.pi / 2, np.pi / 2, *np.linspace(0.55, 1.0, 6)])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    kernel = vectors @ vectors.T
    for signal in (nearest_distance,):
        assert np.max(signal(kernel)[:4]) < np.min(signal(kernel)[4:])
    crowded = mean_distance(kernel)
    assert crowded[:4].min() > crowded[4:].max()  # the mean distance is what they game
    labels = [0, 0, 1, 1, *range(2, 8)]
    assert distinctness(labels)[:4].max() < distinctness(labels)[4:].min()
    copies = volume_gain(np.array([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]))
    assert copies.max() < 0.3  # of 1, for a rollout that stands alone


@pytest.mark.parametrize(("name", "knobs"), [("xrpo", {}), ("dcr", {"surprise": 0.2}), ("cd_rlhf", {})])
def test_length_has_no_say_in_what_is_made_of_tokens(name, knobs):
    """Every rollout's tokens once more: the same means, twice the length."""
    group = scene()
    longer = group | {f: np.tile(group[f], (1, 2)) for f in ("mask", "logp", "curiosity")}
    for field in ("entropy", "confidence"):
        longer.pop(field), group.pop(field)
    uneven = {f: np.concatenate([longer[f][:1], np.pad(group[f], ((0, 0), (0, 3)))[1:]]) for f in ("mask", "logp")}
    np.testing.assert_allclose(run(name, longer, knobs=knobs), run(name, group, knobs=knobs), atol=1e-9)
    if name != "cd_rlhf":
        np.testing.assert_allclose(run(name, longer | uneven, knobs=knobs), run(name, group, knobs=knobs), atol=1e-9)


def test_neutral_padding_pays_nothing():
    texts = ["$a$ first", "$b$ second", "$a$ first"]
    padded = [texts[0] + " and so on" * 300, *texts[1:]]
    for name in ("diver",):
        group = {"rewards": [1, 1, 1], "texts": texts}
        np.testing.assert_allclose(run(name, group | {"texts": padded}), run(name, group))
    varied = run("multirole", {"rewards": [1, 1], "texts": [texts[0] + " so" * 300, texts[0]]})
    assert varied[0] < varied[1]


@pytest.mark.parametrize("entry", SIGNALS, ids=lambda e: e.name)
def test_signals_are_finite_and_equal_for_copies(entry):
    group = scene()
    group = take(group, [0, 1, 2, 3, 4, 2])
    function = registry.get("signal", entry.name)
    found = np.asarray(function(*(group[name] for name in entry.data)))
    assert np.isfinite(found).all() and found.shape == (6,)
    if {"duplicates_share"} & set(entry.traits):
        assert found[2] == pytest.approx(found[5], abs=1e-9)
