"""What all marginals share: the brute force, the traits that signals declare, the check of a similarity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from array_api_compat import device

from polypath.core.arrays import Array, array_namespace, as_float
from polypath.core.errors import UserError

EQUIVARIANT = frozenset({"permutation_equivariant", "duplicates_share"})
DUPLICATE_SAFE = EQUIVARIANT | {
    "duplicate_never_raises"
}  # an exact copy in the group never raises a rollout's own value

BLOCK = 2**18  # entries of the groups that are worked on at once


def leave_one_out(set_function: Callable[[Sequence[int]], float], size: int) -> np.ndarray:
    """The brute force: `set_function(all) - set_function(all but i)` for every i of `range(size)`.

    >>> leave_one_out(len, 3).tolist()
    [1.0, 1.0, 1.0]
    """
    everyone = list(range(size))
    total = set_function(everyone)
    return np.array([total - set_function(everyone[:i] + everyone[i + 1 :]) for i in everyone], dtype=float)


def check_similarity(similarity: Array, *, symmetric: bool = True) -> Array:
    """Similarities (..., G, G) as floats. Raises UserError naming the group and row of the first entry that is not
    finite, and for a matrix that is not square or (unless told otherwise) not symmetric.
    """
    kernel = as_float(similarity)
    xp = array_namespace(kernel)
    if kernel.ndim < 2 or kernel.shape[-1] != kernel.shape[-2]:
        raise UserError("similarity", f"has shape {tuple(kernel.shape)}", "Give (..., G, G), one square per group.")
    if 0 in kernel.shape:
        return kernel
    # K v shows an entry that is not finite, and differs from K'v for an irregular v unless K = K': two products tell
    # what comparing all entries would, at a tenth of the cost.
    irregular = as_like(1.5 + np.cos(np.arange(kernel.shape[-1])), kernel)
    rows = kernel @ irregular
    if not bool(xp.all(xp.isfinite(rows))):
        check_rows(kernel, "similarity")
    if symmetric:
        tolerance = max(1e-4, 4 * float(xp.finfo(kernel.dtype).eps)) * xp.max(xp.abs(rows))
        loose = xp.abs(rows - irregular @ kernel) > tolerance
        if bool(xp.any(loose)):
            raise UserError(f"similarity{place_of(loose)}", "is not symmetric", "Average it with its transpose.")
    return kernel


def by_blocks(function: Callable[[Array], Array], kernel: Array) -> Array:
    """A function of groups (..., G, G) -> (..., G); on a CPU for some groups at a time, which stay in its cache."""
    xp = array_namespace(kernel)
    size = kernel.shape[-1]
    step = max(1, BLOCK // size**2) if size else 1
    groups = math.prod(kernel.shape[:-2])
    if groups <= step or str(device(kernel)) != "cpu":
        return function(kernel)
    flat = xp.reshape(kernel, (groups, size, size))
    try:
        parts = [function(flat[start : start + step]) for start in range(0, groups, step)]
    except UserError:
        return function(kernel)  # which names the group among all
    return xp.reshape(xp.concat(parts, axis=0), kernel.shape[:-1])


def check_rows(values: Array, name: str) -> None:
    """Raise UserError naming the group and row of the first entry of (..., G, width) that is not finite."""
    xp = array_namespace(values)
    finite = xp.isfinite(values)
    if not bool(xp.all(finite)):
        where = f"{name}{place_of(~xp.all(finite, axis=-1))}"
        raise UserError(where, "is not finite", "Embed that text again, or leave its rollout out.")


def place_of(faults: Array) -> str:
    """The first fault of a boolean (..., G) in words.

    >>> place_of(np.array([[False, False], [False, True]])), place_of(np.array([True, False]))
    (', group 1, row 1', ', row 0')
    """
    *group, row = np.argwhere(np.asarray(faults))[0].tolist()
    named = f", group {', '.join(map(str, group))}" if group else ""
    return f"{named}, row {row}"


def as_like(values: np.ndarray, like: Array) -> Array:
    """Numbers as an array of another's library, type and device."""
    return array_namespace(like).asarray(values, dtype=like.dtype, device=device(like))


def constant_like(values: Array, value: float) -> Array:
    """An array of one value in the shape, type and library of another."""
    xp = array_namespace(values)
    return value * xp.ones_like(values)
