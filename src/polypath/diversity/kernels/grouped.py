"""Pairwise similarity inside a group, batched: what the credit pipeline computes with."""

from __future__ import annotations

from typing import Literal

from polypath.core.arrays import Array, array_namespace, as_array, as_float, divide
from polypath.core.registry import register


@register("representation", "cosine", returns="similarity")
def cosine(
    embeddings: Array, correct: Array | None = None, *, between: Literal["same_outcome", "all"] = "same_outcome"
) -> Array:
    """Cosine similarity of the rollouts of one group; similarities never cross groups.

    With `between="same_outcome"` a correct and a wrong rollout have similarity 0, so that a correct answer is not
    punished for resembling a wrong one. Without `correct` all outcomes count as the same.
    Shapes: (..., G, d) -> (..., G, G). A zero vector is similar to nothing but itself.

    >>> cosine([[1.0, 0.0], [0.6, 0.8]]).round(3).tolist()
    [[1.0, 0.6], [0.6, 1.0]]
    """
    embeddings = as_float(embeddings)
    xp = array_namespace(embeddings)
    unit = divide(embeddings, xp.sqrt(xp.sum(embeddings**2, axis=-1, keepdims=True)))
    similarity = unit @ xp.matrix_transpose(unit)
    itself = xp.eye(similarity.shape[-1], dtype=xp.bool)
    similarity = xp.where(itself, xp.ones_like(similarity), similarity)
    return mask_outcomes(similarity, correct) if between == "same_outcome" and correct is not None else similarity


def mask_outcomes(similarity: Array, correct: Array) -> Array:
    """Set the similarity of rollouts with different outcomes to 0: (..., G, G), bool (..., G) -> (..., G, G)."""
    correct = as_array(correct)
    xp = array_namespace(similarity)
    return xp.where(correct[..., :, None] == correct[..., None, :], similarity, xp.zeros_like(similarity))
