"""What credit remembers between batches: counts, banks, clusters, annotations, multipliers. Bounded and resumable."""

import json
import math

import numpy as np
import pytest

from polypath import credit
from polypath.core.errors import UserError
from polypath.credit.banks import Bank, annotate, annotated, compress, history_distance, recurrent_error, repeated_skill
from polypath.credit.combine import combine
from polypath.credit.control import bandit_mixture, lagrangian
from polypath.credit.curiosity import forward_error
from polypath.credit.memory import Memory, key, pack, unpack
from polypath.credit.outcomes import answer_novelty, recurrent_answer, remembered_rarity
from polypath.credit.signals import rarity

PROMPTS, GROUPS = ["p"] * 4, np.zeros(4, dtype=int)


def remembered(**entries):
    memory = Memory()
    memory.update({name.replace("_", "|"): value for name, value in entries.items()})
    return memory


def test_published_bonuses_for_answers():
    """N = 1, 4, 9, 100: 1, 1/2, 1/3, 1/10; their mean is .483333."""
    counts = {"answers_p_a": 1, "answers_p_b": 4, "answers_p_c": 9, "answers_p_d": 100}
    expected = {
        "nothing": [1, 0.5, 1 / 3, 0.1],
        "constant": [0.5, 0, -1 / 6, -0.4],
        "group": [0.516667, 0.016667, -0.15, -0.383333],
    }
    for minus, values in expected.items():
        found = answer_novelty(list("abcd"), PROMPTS, GROUPS, remembered(**counts), minus=minus)
        np.testing.assert_allclose(found, values, atol=1e-6)


def test_counts_rise_after_use_and_belong_to_their_prompt():
    memory = Memory()
    first = answer_novelty(["7", "7", "8", None], PROMPTS, GROUPS, memory, minus="nothing")
    assert first.tolist() == [1, 1, 1, 0]  # not seen before, however often in this batch
    assert dict(memory) == {"answers|p|7": 2, "answers|p|8": 1}
    other = answer_novelty(["7"], ["q"], GROUPS[:1], memory, minus="nothing")
    again = answer_novelty(["7"], ["p"], GROUPS[:1], memory, minus="nothing")
    assert other.tolist() == [1.0] and again[0] == pytest.approx(2**-0.5)


def test_rollouts_without_an_answer_get_nothing_and_are_in_no_mean():
    memory = remembered(answers_p_a=4)
    found = answer_novelty(["a", None, "b", None], PROMPTS, GROUPS, memory, minus="group")
    assert found.tolist() == pytest.approx([-0.25, 0, 0.25, 0])
    assert answer_novelty([None] * 4, PROMPTS, GROUPS, memory, minus="group").tolist() == [0] * 4
    assert answer_novelty([None] * 4, PROMPTS, GROUPS, memory, minus="constant").tolist() == [0] * 4


def test_recurrent_wrong_answers():
    memory = remembered(errors_p_a=3, errors_p_b=20, errors_p_c=200)
    found = recurrent_answer(list("abcd"), [False] * 4, PROMPTS, memory)
    np.testing.assert_allclose(found, [-0.138629, -0.304452, -0.5, 0], atol=1e-6)
    assert recurrent_answer(["a", None], [True, False], PROMPTS[:2], memory).tolist() == [0, 0]
    assert memory["errors|p|a"] == 4


def test_solutions_found_before_stay_common_for_a_while():
    memory, correct = Memory(), [True, True, True, False]
    first = remembered_rarity(["a", "a", "b", "a"], correct, PROMPTS, GROUPS, memory, alpha=1.0)
    np.testing.assert_allclose(first, [1 / 2, 1 / 2, 1, 0])  # as rarity: a wrong one makes nothing common
    assert memory["found|p"] == {"a": 2.0, "b": 1.0}
    second = remembered_rarity(["b", "c", None, "a"], [True] * 4, PROMPTS, GROUPS, memory, alpha=1.0)
    np.testing.assert_allclose(second, [1 / 1.5, 1, 1, 1 / 2])  # b, a: one now and half of what was
    assert memory["found|p"] == {"a": 2.0, "b": 1.5, "c": 1.0}
    assert remembered_rarity(["a"], [True], ["q"], GROUPS[:1], memory, alpha=1.0).tolist() == [1.0]


def test_without_memory_it_is_rarity_and_what_is_kept_is_bounded():
    rng = np.random.default_rng(0)
    memory = Memory()
    for _ in range(5):
        labels, correct = rng.integers(0, 5, 12), rng.integers(0, 2, 12).astype(bool)
        found = remembered_rarity(
            [f"s{k}" for k in labels], correct, ["p"] * 12, np.zeros(12, dtype=int), memory, decay=0.0, most=3
        )
        np.testing.assert_allclose(found, rarity(labels, correct))
        assert len(memory["found|p"]) <= 3


def test_error_clusters_grow_and_only_wrong_rollouts_are_in_them():
    memory, east, north = Memory(), [1.0, 0.0], [0.0, 1.0]
    nearly = [math.cos(0.1), math.sin(0.1)]
    assert recurrent_error([east, nearly, north], [False, False, True], ["p"] * 3, memory).tolist() == [0, 0, 0]
    found = recurrent_error([nearly, north, east], [False, False, True], ["p"] * 3, memory)
    np.testing.assert_allclose(found, [-0.1 * math.log(3), 0, 0])  # two before; north was right then
    assert memory["error_clusters|p"]["sizes"] == [3.0, 1.0]
    assert recurrent_error([east], [False], ["q"], memory).tolist() == [0.0]
    faded = recurrent_error([east], [False], ["p"], memory, decay=0.5)
    np.testing.assert_allclose(faded, [-0.1 * math.log(4)])
    assert memory["error_clusters|p"]["sizes"] == [2.5, 0.5]


def test_error_clusters_are_bounded_and_do_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 5))
    rows[20:] = rows[0]
    memories = [Memory(), Memory()]
    for memory, order in zip(memories, (np.arange(40), rng.permutation(40)), strict=True):
        recurrent_error(rows[order], [False] * 40, ["p"] * 40, memory, clusters=3)
    assert memories[0].state_dict() == memories[1].state_dict()
    sizes = memories[0]["error_clusters|p"]["sizes"]
    assert len(sizes) == 3 and max(sizes) >= 21


def test_a_bank_is_a_bounded_uniform_sample():
    memory = Memory()
    for batch in range(50):
        bank = Bank(memory, "history", 1, 20)
        bank.add(np.full((8, 1), batch / 64))
    stored = Bank(memory, "history", 1, 20)
    assert stored.seen == 400 and stored.rows.shape == (20, 1)
    batches = stored.rows.ravel() * 64
    assert 12 < batches.mean() < 37 and len(set(batches)) > 8  # neither only the first nor only the last
    assert len(Bank(memory, "history", 2, 20).rows) == 0  # another encoder's vectors are of no use


def test_distance_to_the_nearest_of_what_was_written_before():
    memory = Memory()
    assert history_distance([[1, 0], [0, 1]], memory).tolist() == [1, 1]
    for _ in range(5):
        history_distance([[0, 1]], memory)
    near, every = ({"k": k} for k in (1, 100))
    assert history_distance([[1, 0]], memory.copy(), **near)[0] == pytest.approx(0.0)
    # against everything, a text that exists already looks far: 6 of 7 are north
    assert history_distance([[1, 0]], memory.copy(), **every)[0] == pytest.approx(6 / 7, abs=1e-3)


def test_the_published_penalty_of_skills():
    """Max .92 and mean .4: (.12/.2 + .1/.7)/2 = .371429."""
    angle = math.acos(0.92)
    rest = math.acos((3 * 0.4 - 0.92) / 2)  # the other two, so that the mean is .4
    memory = Memory()
    repeated_skill([[math.cos(angle), math.sin(angle)]], memory)
    repeated_skill([[math.cos(rest), math.sin(rest)]] * 2, memory)
    assert repeated_skill([[1.0, 0.0]], memory)[0] == pytest.approx(-0.371429, abs=1e-3)
    assert repeated_skill([[1.0, 0.0]], Memory()).tolist() == [0.0]


def test_annotations_may_come_later_and_fade():
    memory = Memory()
    assert annotated(["a", None], memory).tolist() == [0, 0]
    annotate(memory, {"a": 1.0})
    assert annotated(["a", "a", "b"], memory).tolist() == pytest.approx([2**-0.5, 2**-0.5, 0])
    annotate(memory, {"a": -1.0})  # the judge changes its mind; the count stays
    assert annotated(["a"], memory).tolist() == pytest.approx([-(3**-0.5)])


def test_multipliers_grow_while_a_constraint_is_broken():
    """lambda = 1: (d + r)/2. Mean .25, threshold .5: v = .1 x .25, x = .025; then lambda = e^.025."""
    memory = Memory()
    first, metrics = lagrangian([0.5, 0.0], [0.2, 0.4], memory, thresholds=[0.5])
    assert first.tolist() == pytest.approx([0.35, 0.2]) and metrics == {"multiplier_0": 1.0}
    grown = math.exp(0.025)
    second, metrics = lagrangian([0.5, 0.0], [0.2, 0.4], memory, thresholds=[0.5])
    assert metrics["multiplier_0"] == pytest.approx(grown)
    assert second.tolist() == pytest.approx([(0.2 + grown * 0.5) / (1 + grown), 0.4 / (1 + grown)])
    assert memory["lagrangian"][1] == pytest.approx([0.1 * 0.025 + 0.1 * grown * 0.25])
    for _ in range(500):
        lagrangian([1.0, 1.0], [0.2, 0.4], memory, thresholds=[0.5])
    assert lagrangian([1.0, 1.0], [0, 0], memory, thresholds=[0.5])[1]["multiplier_0"] < 0.05  # met: diversity alone
    with pytest.raises(UserError, match=r"thresholds: 2 for 1 rewards"):
        lagrangian([1.0], [0.0], Memory(), thresholds=[0.5, 0.5])


def test_the_bandit_finds_the_arm_that_helps():
    memory, level = Memory(), 0.0
    chosen = []
    for turn in range(60):
        _, metrics = bandit_mixture([level, level], [0.0, 1.0], memory)
        chosen.append(metrics["diversity_weight"])
        level = turn / 100 if chosen[-1] == 0.5 else level - 0.01  # only diversity leads to new records
    assert set(chosen[:5]) <= {0.0, 0.5} and np.mean(np.array(chosen[30:]) == 0.5) > 0.9
    assert len(memory["bandit"][3]) == 50
    gated, _ = bandit_mixture([1.0, 0.0], [0.2, 1.0], Memory(), [1.0, 0.0], arms=[0.5])
    assert gated.tolist() == [0.6, 0.0]


def test_fusion_of_bonuses():
    pair = np.array([[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]])
    expected = {"sum": [1, 1, 1], "product": [0.3, 0.5, 0.3], "max": [0.9, 0.5, 0.9], "cycle": [0.1, 0.5, 0.9]}
    for mode, values in expected.items():
        np.testing.assert_allclose(combine(pair, Memory(), mode=mode), values)
    memory = Memory()
    combine(pair, memory, mode="cycle")
    assert combine(pair, memory, mode="cycle", scale=False).tolist() == [0.9, 0.5, 0.1]
    scaled = combine(10 * pair, memory, mode="sum")  # by the population's spread of the first two batches
    np.testing.assert_allclose(scaled, (10 * pair / pair.std(axis=0)).sum(axis=1))
    with pytest.raises(UserError, match="3 bonuses, 2 in memory"):
        combine(np.ones((2, 3)), memory)


def test_the_forward_model_learns_what_recurs():
    rng = np.random.default_rng(0)
    hidden, words = rng.normal(size=(8, 6, 3)), rng.normal(size=(8, 6, 2))
    hidden /= np.linalg.norm(hidden, axis=-1, keepdims=True)
    words /= np.linalg.norm(words, axis=-1, keepdims=True)
    turn = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    for t in range(5):
        hidden[:, t + 1] = hidden[:, t] @ turn  # each state follows from the one before
    mask = np.ones((8, 6))
    mask[0, 3:] = 0
    memory = Memory()
    errors = [forward_error(hidden, words, mask, memory) for _ in range(30)]
    assert errors[0].max() == pytest.approx(0.5)  # nothing is known: half of a unit vector's square
    assert errors[-1].max() < 0.01 < errors[0][1:, :5].min()
    assert not errors[0][:, -1].any() and not errors[0][0, 2:].any()
    surprise = forward_error(hidden[::-1, ::-1], words, mask, memory)
    assert surprise.max() > 20 * errors[-1].max()


def test_vectors_are_kept_small_and_their_angles_stay():
    rows = np.random.default_rng(1).normal(size=(30, 384))
    rows[1] = rows[0] + 0.1 * rows[1]
    short = compress(rows)
    assert short.shape == (30, 64) and len(pack(short[:1])) < 180
    assert short[0] @ short[1] > 0.97 and abs(short[0] @ short[2]) < 0.5
    np.testing.assert_allclose(unpack(pack(short), 64), short, atol=1e-3)
    assert compress([[0.0, 0.0]]).tolist() == [[0.0, 0.0]]


def test_long_names_make_short_keys():
    assert len(key("answers", "p", "x" * 10_000)) < 60
    assert key("answers", "p", "x" * 100) != key("answers", "p", "x" * 101)


METHODS = {
    "outcome_ucb": {},
    "remembered_rarity": {},
    "meds": {},
    "r_diverse": {},
    "hire": {},
    "oni": {},
    "chess_puzzles": {},
    "dvd": {},
    "diver_ct": {"thresholds": [0.5] * 3},
}


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_run_gives_the_same_numbers(name):
    from credit_groups import fill

    def batch(step):
        rng = np.random.default_rng(step)
        groups = [fill(rng.integers(0, 2, 5).astype(float), rng) for _ in range(3)]
        return [{**group, "prompts": [f"p{place}"] * 5} for place, group in enumerate(groups)]

    def run(pipeline, memory, steps):
        return [pipeline(batch(step), step=step, memory=memory) for step in steps]

    pipeline = credit.build({name: METHODS[name]})
    memory = Memory()
    annotate(memory, {"1": 1.0})
    run(pipeline, memory, range(6))
    state = json.loads(json.dumps(memory.state_dict()))
    straight = run(pipeline, memory, range(6, 9))
    resumed = Memory()
    resumed.load_state_dict(state)
    again = run(credit.build({name: METHODS[name]}), resumed, range(6, 9))
    for one, two in zip(straight, again, strict=True):
        for a, b in zip(one.advantages, two.advantages, strict=True):
            np.testing.assert_array_equal(a, b)
        assert one.metrics == pytest.approx(two.metrics, nan_ok=True)
    fresh = run(pipeline, Memory(), range(6, 9))
    assert any(
        (a != b).any()
        for x, y in zip(straight, fresh, strict=True)
        for a, b in zip(x.advantages, y.advantages, strict=True)
    )
    assert len(json.dumps(memory.state_dict())) < 50_000


@pytest.mark.parametrize("name", METHODS)
def test_the_metrics_of_diversity_leave_no_trace_in_the_memory(name):
    """The pipeline runs a second time without diversity; what is remembered must come from the first run alone."""
    from credit_groups import fill

    group = fill(np.array([1.0, 0, 0, 1]), np.random.default_rng(0))
    pipeline = credit.build({name: METHODS[name]})
    memories = [Memory(), Memory()]
    annotate(memories[0], {"1": 1.0})
    annotate(memories[1], {"1": 1.0})
    pipeline(group, memory=memories[0])
    pipeline._without = []
    pipeline(group, memory=memories[1])
    assert memories[0].state_dict() == memories[1].state_dict()


def test_memory_is_asked_for():
    with pytest.raises(UserError, match=r"needs a memory. Pass memory=Memory"):
        credit.build("outcome_ucb")({"rewards": [1, 0], "answers": ["1", "2"], "prompts": ["p", "p"]})
    with pytest.raises(UserError, match=r"prompts.*Give `prompts`"):
        credit.build("outcome_ucb")({"rewards": [1, 0], "answers": ["1", "2"]}, memory=Memory())


def test_two_groups_of_one_prompt_share_its_memory_whatever_their_sizes():
    groups = [
        {"rewards": [1, 0], "answers": ["1", "2"], "prompts": ["p"] * 2},
        {"rewards": [1, 0, 0], "answers": ["1", None, "2"], "prompts": ["p"] * 3},
    ]
    memory = Memory()
    credit.build("outcome_ucb")(groups, memory=memory)
    assert dict(memory) == {"answers|p|1": 2, "answers|p|2": 2}
