"""Small array helpers that work alike on numpy arrays and torch tensors (the Python array API).

Axis names: `...` any leading axes (usually `B` groups), `G` rollouts of one group, always the last axis here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

Array = Any  # a numpy array or a torch tensor


def as_float(values: Any) -> Array:
    """Floating-point array: lists become float64 numpy, integer and boolean arrays the namespace's default float."""
    if not is_array_api_obj(values):
        return np.asarray(values, dtype=np.float64)
    xp = array_namespace(values)
    if xp.isdtype(values.dtype, "real floating"):
        return values
    return xp.astype(values, xp.asarray(0.0).dtype)


def as_array(values: Any) -> Array:
    """The array itself, or a numpy array made of a list."""
    return values if is_array_api_obj(values) else np.asarray(values)


def tied(values: Array) -> Array:
    """Whether all values on the last axis are exactly equal: (..., G) -> bool (..., 1).

    A group without any spread is recognised by equality, never by a standard deviation that rounding made tiny.
    """
    xp = array_namespace(values)
    return xp.max(values, axis=-1, keepdims=True) == xp.min(values, axis=-1, keepdims=True)


def mean(values: Array) -> Array:
    """Mean over the last axis, kept: (..., G) -> (..., 1)."""
    return array_namespace(values).mean(values, axis=-1, keepdims=True)


def spread(values: Array, *, ddof: int = 0) -> Array:
    """Standard deviation over the last axis, kept: (..., G) -> (..., 1).

    Exactly 0 for equal values, and for G <= ddof, where it is undefined and nothing may be divided by it.
    """
    xp = array_namespace(values)
    degrees = values.shape[-1] - ddof
    squares = xp.sum((values - mean(values)) ** 2, axis=-1, keepdims=True)
    scale = 1.0 / degrees if degrees > 0 else 0.0
    return xp.where(tied(values), xp.zeros_like(squares), xp.sqrt(squares * scale))


def divide(numerator: Array, denominator: Array) -> Array:
    """Elementwise quotient that is 0 where the denominator is 0."""
    xp = array_namespace(numerator, denominator)
    zero = denominator == 0
    return xp.where(zero, xp.zeros_like(numerator), numerator / xp.where(zero, xp.ones_like(denominator), denominator))


def per_group(function: Callable[[Sequence[Any]], Any], items: Sequence[Any]) -> Any:
    """Apply a function of one group's texts or answers to one group, or to each group of a list of groups (stacked).

    >>> per_group(lambda group: [len(t) for t in group], [["a", "bc"], ["d", "e"]]).tolist()
    [[1, 2], [1, 1]]
    """
    nested = len(items) > 0 and isinstance(items[0], list | tuple)
    return np.stack([np.asarray(function(group)) for group in items]) if nested else np.asarray(function(items))
