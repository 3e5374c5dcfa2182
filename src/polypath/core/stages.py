"""Stages as files write them: `{kind: name}` or `{kind: {name: {knob: value}}}`, checked against the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from polypath.core import registry
from polypath.core.errors import UserError, did_you_mean
from polypath.core.recipe_types import Call, Range, expected, parse_type


def parse_stage(item: Any, where: str, kinds: Sequence[str]) -> Call:
    """A stage of one of `kinds` from `{kind: name}`, `{kind: {name: knobs}}` or a call, its name and knobs checked.

    Raises UserError for an unknown kind, function or knob, and for a knob without default that is not given.
    """
    if isinstance(item, Call):
        kind, name, knobs = item.kind, item.name, item.knobs
    else:
        kind, body = _single(item, where)
        if isinstance(body, Call):
            name, knobs = body.name, body.knobs
        else:
            name, knobs = (body, {}) if isinstance(body, str) else _single(body, f"{where} {kind}")
    if kind not in kinds:
        raise UserError(where, f"'{kind}' is not a kind of stage", did_you_mean(kind, kinds))
    known = registry.entry(kind, name, where=where).knobs
    given = {knob: _schedule(value, where) for knob, value in (knobs or {}).items()}
    for knob, value in given.items():
        here = f"{where} {kind}.{name}.{knob}"
        if knob not in known:
            raise UserError(here, f"no knob named '{knob}'", did_you_mean(knob, known))
        if not _fits(value, parse_type(known[knob]["type"])):
            raise UserError(here, f"{value!r} does not fit", f"Expected {expected(parse_type(known[knob]['type']))}.")
    absent = [knob for knob, about in known.items() if "default" not in about and knob not in given]
    if absent:
        raise UserError(f"{where} {kind}.{name}", f"{', '.join(absent)} must be given", "There is no default.")
    return Call(kind, name, given, where)


def _fits(value: Any, tp: Any) -> bool:
    """Whether a knob's value is of its type; a number may be whole, or a schedule."""
    if get_origin(tp) in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(tp))
    if get_origin(tp) is Annotated:
        bounds = [mark for mark in tp.__metadata__ if isinstance(mark, Range)]
        return _fits(value, tp.__origin__) and all(not isinstance(value, int | float) or value in b for b in bounds)
    if get_origin(tp) is Literal:
        return value in get_args(tp)
    if tp is float:
        return isinstance(value, int | float | Call) and not isinstance(value, bool) and value == value
    if tp is int:
        return isinstance(value, int | Call) and not isinstance(value, bool)
    return tp is Any or not isinstance(tp, type) or isinstance(value, tp)


def _schedule(value: Any, where: str) -> Any:
    """`{linear: {start: ..., end: ..., steps: ...}}` as the call of a schedule; any other value stands."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((name, knobs),) = value.items()
    if not isinstance(knobs, Mapping):  # a mapping of the function's own
        return value
    return Call("schedule", registry.entry("schedule", name, where=where).name, dict(knobs), where)


def _single(item: Any, where: str) -> tuple[str, Any]:
    if not isinstance(item, Mapping) or len(item) != 1:
        raise UserError(where, f"cannot read {item!r}", "Write {kind: name} or {kind: {name: {knob: value}}}.")
    ((key, value),) = item.items()
    return str(key), value
