"""What the metrics of a batch say, each on a group where the value is plain to see."""

import numpy as np
import pytest

from polypath import credit

RARITY = {"rarity": {"alpha": 1.0}}


def metrics(spec, *groups, **options):
    return credit.build(spec)(list(groups), **options).metrics


def test_where_the_diversity_signal_went():
    """Rarity 1: rewards .75, .75, 1.5, 0; over the spread .433 the rare one gains 1.155, the two common -.577 each.

    Without diversity 1, 1, 1, 0 gives .577, .577, .577, -1.732; with it 0, 0, 1.732, -1.732: sum |A| is 3.464.
    """
    found = metrics(RARITY, {"rewards": [1, 1, 1, 0], "labels": [0, 0, 1, 2]})
    assert found["diversity_to_rare_correct"] == pytest.approx(1 / 3, abs=1e-5)
    assert found["diversity_to_common_correct"] == pytest.approx(-1 / 3, abs=1e-5)
    assert found["diversity_to_wrong"] == pytest.approx(0.0, abs=1e-9)
    assert found["frac_signal_from_diversity"] == pytest.approx(2 / 3, abs=1e-5)


def test_what_a_silent_signal_reports():
    """A gate that never opens, a signal that is constant, and one that works in the first group of two only."""
    groups = {"rewards": [1, 1, 0], "labels": [0, 1, 2]}, {"rewards": [1, 1, 0], "labels": [0, 0, 2]}

    def workings(signal, gate, *batch):
        stages = [{"signal": signal}, {"gate": gate}, {"fuse": {"additive": {"lam": 0.5}}}, {"normalise": "centre"}]
        found = metrics(stages, *batch)
        return [found[n] for n in ("frac_moved_by_diversity", "frac_diversity_varies", "diversity_gate_open")]

    assert workings("distinctness", {"reward_above": {"threshold": 10}}, *groups) == [0.0, 0.5, 0.0]
    assert workings("distinctness", "any", groups[0]) == [0.0, 0.0, 1.0]
    assert workings("distinctness", "correct", *groups) == [1.0, 0.5, pytest.approx(2 / 3)]
    assert "frac_moved_by_diversity" not in metrics("grpo", *groups)
    assert np.isnan(metrics(RARITY, {"rewards": [np.nan], "labels": [0]})["frac_moved_by_diversity"])


def test_a_bonus_that_pays_wrong_answers_shows():
    """d = 2/3, 2/3, 1/3... of 0, 0, 1, 1: the wrong pair shares a class and the others do not."""
    stages = [{"signal": "distinctness"}, {"fuse": {"additive": {"lam": 1.0}}}, {"normalise": "centre"}]
    found = metrics(stages, {"rewards": [1, 1, 0, 0], "labels": [0, 0, 1, 2]})
    assert found["diversity_to_wrong"] > 0.05 and found["diversity_to_common_correct"] < -0.05


def test_equal_classes_are_common_and_methods_without_diversity_have_no_destinations():
    found = metrics(RARITY, {"rewards": [1, 1, 0], "labels": [0, 1, 2]})
    assert found["diversity_to_rare_correct"] == 0.0
    assert "diversity_to_wrong" not in metrics("grpo", {"rewards": [1, 1, 0], "labels": [0, 1, 2]})
    assert "diversity_to_wrong" not in metrics(RARITY, {"rewards": [1, 1, 1], "labels": [0, 0, 0]})  # no credit at all


def test_top_answer_mass_is_by_label_else_by_answer():
    labelled = {"rewards": [1, 1, 0, 0], "labels": [0, 0, 1, 2]}
    answered = {"rewards": [1, 0, 0], "answers": ["7", "7", None]}
    assert metrics("grpo", labelled)["top_answer_mass"] == 0.5
    assert metrics("grpo", labelled, answered)["top_answer_mass"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert np.isnan(metrics("grpo", {"rewards": [1, 0]})["top_answer_mass"])


def test_the_share_between_contexts():
    """1 where contexts decide all; below 0 where they differ less than by chance."""
    decided = {"rewards": [1, 1, 0, 0], "contexts": [1, 1, 2, 2]}
    assert metrics("grpo", decided)["between_context_share"] == pytest.approx(1.0)
    # SSW = 1 on 2 degrees, SST = 1 on 3: 1 - .5/.333.
    ignored = {"rewards": [1, 0, 1, 0], "contexts": [1, 1, 2, 2]}
    assert metrics("grpo", ignored)["between_context_share"] == pytest.approx(-0.5)
    # Together: SSW 1 on 4, SST 2 on 6.
    assert metrics("grpo", decided, ignored)["between_context_share"] == pytest.approx(1 - (1 / 4) / (2 / 6))
    assert np.isnan(metrics("grpo", {"rewards": [1, 0], "contexts": [1, 2]})["between_context_share"])
    assert np.isnan(metrics("grpo", {"rewards": [1, 1, 1], "contexts": [1, 1, 2]})["between_context_share"])
    assert "between_context_share" not in metrics("grpo", {"rewards": [1, 0]})


def test_the_share_between_contexts_is_zero_on_average_when_they_do_nothing():
    rng = np.random.default_rng(0)
    groups = [{"rewards": rng.integers(0, 2, 8), "contexts": np.repeat([1, 2, 3, 4], 2)} for _ in range(800)]
    assert abs(metrics("grpo", *groups)["between_context_share"]) < 0.03


def test_success_with_and_without_a_context():
    found = metrics("grpo", {"rewards": [1, 1, 0, 0, 1], "contexts": ["a", "a", "bare", "bare", "b"]})
    assert (found["correct_in_context"], found["correct_bare"]) == (1.0, 0.0)
    assert "correct_bare" not in metrics("grpo", {"rewards": [1, 0], "contexts": ["a", "a"]})


def test_credit_is_that_which_is_used_and_padding_is_nobodys():
    """A dropped group has none. By token, the mean is over the rollout's own tokens: 1/2 for both."""
    tied = {"rewards": [1.0, 1.0], "lengths": [9, 1]}
    pipeline = {"dapo": {"max_length": 10, "buffer": 5}}
    assert metrics(pipeline, tied)["mean_abs_advantage"] == 0.0
    stages = [{"normalise": "centre"}, {"token_credit": "broadcast"}]
    found = metrics(stages, {"rewards": [1, 0], "mask": [[1, 1, 1, 1], [1, 0, 0, 0]], "lengths": [4, 1]})
    assert found["mean_abs_advantage"] == 0.5 and found["corr_credit_length"] == pytest.approx(1.0)
