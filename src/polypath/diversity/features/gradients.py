"""Per-example gradients of a language model's output head, from its hidden states: no backward pass, no model here.

With hidden state h_t, probabilities p_t and target y_t the gradient of the loss in the head's weights is the sum over
tokens of (p_t - y_t) h_t^T. Results made with it are of the *head*, not of the full gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polypath.core.errors import UserError
from polypath.core.seeds import derive
from polypath.diversity.features.signature import Features, Signature
from polypath.diversity.kernels.view import detached

Matrix = NDArray[np.float64]


def head_gradients(
    hidden: Sequence[Any], probabilities: Sequence[Any], targets: Sequence[Any], *, dims: int = 1024, seed: int = 0
) -> Features:
    """Tensor sketch of each example's head gradient, unit length: (n, dims) for n examples.

    Per example: `hidden` (T, h) states that predict the T answer tokens, `probabilities` (T, V) of the model there,
    `targets` (T,) token ids. Both factors of the outer product are count-sketched and multiplied by FFT (Pham and
    Pagh 2013), so that inner products of sketches estimate those of the gradients without bias. Use one `seed` for all
    sets to be compared. An example without tokens, or with zero gradient, is a row of zeros. Source: [2.60], [2.116].
    """
    examples = [_checked(*one, i) for i, one in enumerate(zip(hidden, probabilities, targets, strict=True))]
    rows = np.stack([sketch(*one, dims=dims, seed=seed) for one in examples]) if examples else np.zeros((0, dims))
    return unit_sketches(rows, seed=seed)


def sketch(hidden: Matrix, probabilities: Matrix, targets: Any, *, dims: int, seed: int) -> Matrix:
    """The sketch of one example before scaling, (dims,): a sum over tokens, so parts of an example may be added up."""
    if len(hidden) == 0:
        return np.zeros(dims)
    errors = np.array(probabilities, dtype=np.float64)
    errors[np.arange(len(errors)), targets] -= 1.0
    left = _count_sketch(errors, dims, derive(seed, "head_gradients", "vocabulary"))
    right = _count_sketch(hidden, dims, derive(seed, "head_gradients", "hidden"))
    product = (np.fft.rfft(left, axis=1) * np.fft.rfft(right, axis=1)).sum(axis=0)
    return np.asarray(np.fft.irfft(product, n=dims))


def unit_sketches(rows: Matrix, *, seed: int, **knobs: Any) -> Features:
    """Sketches (n, dims) scaled to unit length, rows of zeros left as they are, signed with how they were made."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    signature = Signature("head_gradients", dims=rows.shape[1], knobs={"of": "head", "seed": seed, **knobs})
    return Features(rows / np.where(norms > 0, norms, 1.0), signature)


def head_fisher(hidden: Any, probabilities: Any, *, by: Literal["weight", "token"] = "weight") -> Matrix:
    """Diagonal of the Fisher information of the head's weights over the T tokens of one batch (Task2Vec, [1.97]).

    The mean over tokens of p_tv (1 - p_tv) h_tj^2, which is the expectation over targets drawn from the model itself.
    Shapes: `hidden` (T, h), `probabilities` (T, V) -> (V h,); with `by="token"` the mean over h, (V,). NaN for T = 0.
    """
    h, p, _ = _checked(hidden, probabilities, np.zeros(len(hidden), dtype=int), 0)
    if len(h) == 0:
        return np.full(p.shape[1] if by == "token" else p.shape[1] * h.shape[1], np.nan)
    spread, squares = p * (1 - p), h**2
    if by == "token":
        return spread.T @ squares.mean(axis=1) / len(h)
    return (spread.T @ squares).ravel() / len(h)


def _count_sketch(rows: Matrix, dims: int, seed: int) -> Matrix:
    """Each column is added with a random sign to one random bucket: (T, f) -> (T, dims)."""
    rng = np.random.default_rng(seed)
    buckets = np.asarray(rng.integers(dims, size=rows.shape[1]))
    signs = rng.choice([-1.0, 1.0], size=rows.shape[1])
    order: NDArray[np.int64] = np.argsort(buckets, kind="stable")
    starts = np.flatnonzero(np.diff(buckets[order], prepend=-1))
    out = np.zeros((len(rows), dims))
    out[:, buckets[order][starts]] = np.add.reduceat((rows * signs)[:, order], starts, axis=1)
    return out


def _checked(hidden: Any, probabilities: Any, targets: Any, example: int) -> tuple[Matrix, Matrix, NDArray[np.int64]]:
    h, p = (np.asarray(detached(values), dtype=float) for values in (hidden, probabilities))
    y = np.asarray(detached(targets), dtype=np.int64)
    where = f"example {example}"
    if h.ndim != 2 or p.ndim != 2 or not len(h) == len(p) == len(y):
        raise UserError(
            where, f"hidden {h.shape}, probabilities {p.shape}, targets {y.shape}", "Give (T, h), (T, V), T."
        )
    if not (np.isfinite(h).all() and np.isfinite(p).all()):
        raise UserError(where, "has NaN or infinite values", "Drop the example.")
    if len(p) and not np.allclose(p.sum(axis=1), 1.0, atol=1e-3):
        raise UserError(where, "probabilities do not sum to 1", "Give softmax(logits), not logits.")
    return h, p, y
