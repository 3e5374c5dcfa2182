"""Numbers over training steps, for wherever a recipe may write one: `{linear: {start: 1, end: 0, steps: 300}}`."""

from __future__ import annotations

import functools
import math
from typing import Any

from polypath.core.recipe_types import Call
from polypath.core.registry import register


@register("schedule", "constant")
def constant(step: int, *, value: float) -> float:
    """The same value at every step."""
    return value


@register("schedule", "linear")
def linear(step: int, *, start: float, end: float, steps: int) -> float:
    """From `start` at step 0 to `end` at step `steps` on a straight line, and `end` after it.

    >>> [linear(step, start=1.0, end=0.0, steps=4) for step in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """
    return start + (end - start) * _progress(step, steps)


@register("schedule", "cosine")
def cosine(step: int, *, start: float, end: float, steps: int) -> float:
    """From `start` at step 0 to `end` at step `steps` along half a cosine, flat at both ends, and `end` after it.

    Source: Loshchilov and Hutter 2017, arXiv:1608.03983, eq. 5 without restarts.

    >>> [cosine(step, start=1.0, end=0.0, steps=4) for step in (0, 2, 4, 9)]
    [1.0, 0.5, 0.0, 0.0]
    """
    return end + (start - end) * (1 + math.cos(math.pi * _progress(step, steps))) / 2


def value_at(knob: Any, step: int) -> Any:
    """A knob's value at a step: a schedule is evaluated, anything else is returned as it is."""
    return knob.bind()(step) if isinstance(knob, Call) and knob.kind == "schedule" else knob


def bind_at(call: Call, step: int) -> functools.partial[Any]:
    """The registered function of `call` with all knobs at their values of this step."""
    return functools.partial(call.bind(), **{knob: value_at(value, step) for knob, value in call.knobs.items()})


def _progress(step: int, steps: int) -> float:
    """How much of the schedule is done, in [0, 1]; a schedule of no steps is done at once."""
    return min(max(step / steps, 0.0), 1.0) if steps > 0 else 1.0
