"""What all selectors share: their result, and the checks of what they are given."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError


@dataclass(frozen=True)
class Selection:
    """Picks in order, what each gained when it was picked, and for some selectors why."""

    indices: list[int]
    gains: list[float]
    reasons: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.indices)


def check_k(k: int, n: int, selector: str) -> int:
    """At most n picks: more are cut with a warning. Raises UserError for k < 1."""
    if k < 1:
        raise UserError(f"{selector}.k", f"{k} picks", "Pick at least one.")
    if k > n:
        warnings.warn(f"{selector}: {k} picks of {n} items; all are taken", stacklevel=3)
    return min(k, n)


def float_rows(embeddings: ArrayLike, *, unit: bool = True) -> NDArray[np.floating]:
    """Rows (n, d) in their own precision (float64 for integers), of norm 1 if `unit`.

    Raises UserError naming a row that is not finite, or zero where directions are needed.
    """
    rows = np.asarray(embeddings)
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    if rows.ndim != 2:
        raise UserError("embeddings", f"have the shape {rows.shape}, not (n, d)", "Give one row of numbers per item.")
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    bad = ~np.isfinite(norms) | ((norms == 0) if unit else False)
    if bad.any():
        what = "is zero and has no direction" if norms[int(np.argmax(bad))] == 0 else "is not finite"
        raise UserError(f"embeddings[{int(np.argmax(bad))}]", what, "Drop that item, or embed it again.")
    if not unit or np.abs(norms - 1).max(initial=0) < 1e-6:  # no copy of rows that may be most of the memory
        return np.ascontiguousarray(rows)
    return np.ascontiguousarray(rows / norms[:, None])


def float_column(values: ArrayLike | None, n: int, name: str, default: float = 1.0) -> NDArray[np.float64]:
    """One finite number per item. Raises UserError for another number of them, and naming one that is not finite."""
    if values is None:
        return np.full(n, default)
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (n,):
        raise UserError(name, f"has the shape {column.shape} for {n} items", "Give one number per item.")
    bad = ~np.isfinite(column)
    if bad.any():
        raise UserError(f"{name}[{int(np.argmax(bad))}]", "is not finite", "Drop that item, or give it a number.")
    return column


def check_chosen(chosen: Sequence[int], n: int, selector: str) -> list[int]:
    """Indices to continue from. Raises UserError for one that is out of range or given twice."""
    found = [int(i) for i in chosen]
    if len(set(found)) != len(found) or any(not 0 <= i < n for i in found):
        raise UserError(f"{selector}.chosen", f"{found[:5]} are not different indices below {n}", "Correct them.")
    return found
