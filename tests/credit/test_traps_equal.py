"""The trap of a spread of diversity alone, set for every method: four right rollouts that are all but the same."""

import numpy as np
import pytest
from credit_groups import fill
from test_methods import PIPELINES

from polypath import credit

# Methods whose credit of such a group is not small, and why that is no accident.
KNOWN = {
    "aero": "the baseline is a posterior mean below 1",
    "w_reinforce": "a verdict has no baseline",
    "outcome_ucb": "the same bonus for all, outside of the normalised advantage",
    "krpo": "the filter's mean lies below 1",
    "unlikeliness": "ranks of likelihood, at most a quarter of the reward",
    "dpwriter_reward": "the paper's min-max; floor softens it",
    "diversity_pairs": "pairs are compared by z-score, and the metric counts it",
}


def scene():
    """Vectors within .02 of each other, one class, one answer; in the texts one word differs."""
    vectors = np.array([[1.0, 0.0], [1.0, 0.001], [1.0, 0.02], [1.0, 0.0]])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return fill(np.ones(4), np.random.default_rng(0)) | {
        "embeddings": vectors,
        "similarity": np.clip(unit @ unit.T, 0.0, 1.0),
        "labels": np.zeros(4, dtype=int),
        "solutions": ["a"] * 4,
        "answers": ["a"] * 4,
        "reference": ["a"] * 4,
        "texts": ["so $a$ is $b$ then c"] * 3 + ["so $a$ is $b$ then d"],
        "lengths": np.full(4, 3.0),
        "mask": np.ones((4, 3), dtype=bool),
        "logp": -1.0 + 1e-3 * np.arange(4.0)[:, None] * np.ones(3),
        **{name: np.full((4, 3), 0.5) for name in ("entropy", "confidence", "curiosity")},
        **{name: np.ones((4, 3)) for name in ("reward_columns", "success")},
        **{name: np.ones(4) for name in ("ranks", "progress", "steps", "baseline")},
        "distance": np.zeros(4),
        "sources": np.zeros(4, dtype=int),
        "candidate_rewards": np.ones((4, 2, 2)),
        "candidate_embeddings": np.ones((4, 2, 2)),
        "beliefs": np.full((4, 2, 2), 0.5),
        "contexts": np.array([0, 0, 1, 1]),
        "spans": [{}] * 4,
    }


@pytest.mark.parametrize("name", PIPELINES)
def test_rollouts_that_are_all_but_the_same_have_all_but_the_same_credit(name):
    found = PIPELINES[name](scene(), memory=credit.Memory())
    largest = np.abs(found.advantages[0]).max()
    if name in KNOWN:
        assert largest > 0.03, "no longer an exception"
    else:
        assert largest < 0.03 and found.metrics["std_inflated_groups"] == 0.0


def test_the_pairs_that_are_inflated_are_counted():
    assert PIPELINES["diversity_pairs"](scene(), memory=credit.Memory()).metrics["std_inflated_groups"] == 1.0
