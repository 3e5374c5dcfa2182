"""Groups with every field that a credit method may ask for, with ties and duplicates, for the conformance tests."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from polypath.diversity.kernels import cosine

TOKENS = 3
TEXTUAL = ("texts", "answers", "prompts", "solutions", "reference", "spans")


@st.composite
def groups(draw, size=st.integers(1, 7)) -> dict[str, Any]:
    """Rewards are 0/1 or dense, positive and negative; all else follows from a drawn seed."""
    n = draw(size)
    column = st.lists(st.sampled_from([0.0, 1.0]) if draw(st.booleans()) else st.floats(-2, 12), min_size=n, max_size=n)
    return fill(np.array(draw(column)), np.random.default_rng(draw(st.integers(0, 10_000))))


def fill(rewards: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """A group with these rewards; the other fields come from small sets, so that rollouts coincide now and then."""
    n = len(rewards)
    words = ["".join(rng.choice(list("ab "), rng.integers(0, 8))) for _ in range(n)]
    labels = rng.integers(0, 4, n)
    vectors = np.stack([1.0 + labels, labels * labels + 1.0, np.ones(n)], axis=-1)
    lengths = rng.integers(1, TOKENS + 1, n)
    return {
        "rewards": rewards,
        "correct": rewards > 0.5,
        "labels": labels,
        "texts": words,
        "answers": [str(label) for label in labels],
        "solutions": [f"s{label}" if label else None for label in labels],
        "embeddings": vectors,
        "similarity": cosine(vectors),
        "lengths": lengths.astype(float),
        "mask": np.arange(TOKENS) < lengths[:, None],
        "logp": -rng.integers(1, 5, (n, TOKENS)) / 2.0,
        "entropy": rng.integers(0, 5, (n, TOKENS)) / 2.0,
        "confidence": rng.integers(1, 5, (n, TOKENS)) / 5.0,
        "reward_columns": np.stack([rewards, rng.integers(0, 2, n), rng.integers(0, 3, n)], axis=-1),
        "baseline": np.full(n, 0.25),
        "ranks": rng.integers(1, 4, n).astype(float),
        "sources": rng.integers(0, 3, n),
        "reference": ["1"] * n,
        "progress": rng.integers(0, 5, n) / 4.0,
        "distance": rng.integers(0, 5, n) / 8.0,
        "steps": rng.integers(1, 6, n).astype(float),
        **structure(n, rng),
        "success": rng.integers(0, 2, (n, 3)).astype(float),
        "prompts": [f"p{rng.integers(1 << 30)}"] * n,
        "candidate_rewards": rng.integers(0, 3, (n, 2, 2)) / 2.0,
        "candidate_embeddings": rng.integers(1, 3, (n, 2, 2)).astype(float),
        "beliefs": np.stack([np.full((n, 2), 0.5), np.eye(2)[rng.integers(0, 2, n)]], axis=1),
        "curiosity": rng.random((n, TOKENS)),
    }


def structure(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Contexts, named parts, a binary tree of two levels and an agent's steps, with a part for every token."""
    turns = rng.integers(0, 2, (n, 2))
    return {
        "contexts": rng.integers(0, 3, n),
        "spans": [{"strategy": [0, 1], "b": [1, 2]} if has else {} for has in rng.integers(0, 2, n)],
        "nodes": np.stack([turns[:, 0], 2 + 2 * turns[:, 0] + turns[:, 1]], axis=-1),
        "starts": np.tile([0, 1], (n, 1)),
        "states": np.stack([np.zeros(n, dtype=int), 1 + rng.integers(0, 2, n)], axis=-1),
        "actions": rng.integers(0, 2, (n, 2)),
    }


def take(group: dict[str, Any], rows: Any) -> dict[str, Any]:
    """The group's rollouts `rows`, in that order."""
    rows = np.asarray(rows, dtype=int)
    found = {}
    for name, value in group.items():
        if name in TEXTUAL:
            found[name] = [value[row] for row in rows]
        else:
            found[name] = value[np.ix_(rows, rows)] if name == "similarity" else value[rows]
    return found
