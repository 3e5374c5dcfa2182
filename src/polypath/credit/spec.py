"""From what a user writes to checked calls of registered stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polypath.core.recipe_types import Call
from polypath.core.stages import parse_stage
from polypath.credit.methods import Method, load_method

KINDS = (
    "partition",
    "statistics",
    "representation",
    "signal",
    "gate",
    "fuse",
    "normalise",
    "reweight",
    "token_credit",
)


def parse(spec: Any) -> tuple[str, list[Call], Call | None]:
    """Name, stages and loss of a method's name, `{name: knobs}`, a method written out, a call or a list of stages."""
    if isinstance(spec, str):
        return _expand(load_method(spec), {})
    if isinstance(spec, Call) and spec.kind not in KINDS:
        return _expand(load_method(spec.name), spec.knobs)
    if isinstance(spec, Mapping) and "credit" in spec:
        return _expand(Method.read("inline", spec), {})
    if isinstance(spec, Mapping) and len(spec) == 1 and next(iter(spec)) not in KINDS:
        ((name, knobs),) = spec.items()
        return _expand(load_method(name), knobs or {})
    stages = spec if isinstance(spec, Sequence) else [spec]
    return "inline", [parse_stage(stage, "credit", KINDS) for stage in stages], None


def _expand(method: Method, knobs: Mapping[str, Any]) -> tuple[str, list[Call], Call | None]:
    where = f"method {method.name}"
    stages, loss = method.expand(knobs)
    parsed = [parse_stage(stage, where, KINDS) for stage in stages]
    return method.name, parsed, None if loss is None else parse_stage({"loss": loss}, where, ("loss",))
