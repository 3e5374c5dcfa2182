"""From a written description to pipeline stages: methods (YAML), lists of stages, knobs and schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from polypath.core import registry
from polypath.core.errors import UserError, did_you_mean

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


@dataclass(frozen=True)
class Step:
    """One registered function and its knobs; a knob may be a schedule, resolved at each training step."""

    kind: str
    name: str
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def at(self, step: int) -> dict[str, Any]:
        """The knobs with every schedule replaced by its value at `step`."""
        return {name: resolve(value, step, f"{self.kind} {self.name}.{name}") for name, value in self.knobs.items()}

    def __str__(self) -> str:
        knobs = ", ".join(f"{name}={value}" for name, value in self.knobs.items())
        return f"{self.kind} {self.name}({knobs})"


@dataclass(frozen=True)
class Method:
    """A paper as data: `credit` and `loss` are written with `$knob` where a knob's value goes."""

    name: str
    credit: Sequence[Any]
    loss: Any = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    paper: Mapping[str, Any] = field(default_factory=dict)
    choices: Sequence[str] = ()
    traits: Sequence[str] = ()
    examples: Sequence[Mapping[str, Any]] = ()

    def expand(self, knobs: Mapping[str, Any]) -> tuple[list[Step], Step | None]:
        """Stages and loss with the given knobs over the defaults. Raises UserError for an unknown knob."""
        where = f"method {self.name}"
        for name in knobs:
            if name not in self.knobs:
                raise UserError(f"{where}.{name}", f"no knob named '{name}'", did_you_mean(name, self.knobs))
        values = {**self.knobs, **knobs}
        steps = [parse_step(_substitute(item, values, where), where) for item in self.credit]
        return steps, self.loss and parse_step({"loss": _substitute(self.loss, values, where)}, where)


def parse(spec: Any) -> tuple[str, list[Step], Step | None]:
    """Name, stages and loss of a method name, `{name: knobs}`, a method written out, a call or a list of stages."""
    if isinstance(spec, str):
        return spec, *load_method(spec).expand({})
    if isinstance(spec, Mapping) and "credit" in spec:
        return str(spec.get("name", "inline")), *_method("inline", spec).expand({})
    if isinstance(spec, Mapping) and len(spec) == 1 and next(iter(spec)) not in KINDS:
        ((name, knobs),) = spec.items()
        return name, *load_method(name).expand(knobs or {})
    if _is_call(spec) and spec.kind not in KINDS:
        return spec.name, *load_method(spec.name).expand(spec.knobs)
    items = spec if isinstance(spec, Sequence) else [spec]
    return "inline", [parse_step(item, "credit") for item in items], None


def parse_step(item: Any, where: str) -> Step:
    """A stage from `{kind: name}`, `{kind: {name: knobs}}` or a call, its name and knobs checked against the registry.

    Raises UserError for an unknown kind, function or knob, and for a knob without default that is not given.
    """
    if _is_call(item):
        kind, name, knobs = item.kind, item.name, dict(item.knobs)
    else:
        kind, body = _single(item, where, "a stage is written {kind: name} or {kind: {name: {knob: value}}}")
        name, knobs = (body, {}) if isinstance(body, str) else _single(body, f"{where} {kind}", "expected one name")
        knobs = dict(knobs or {})
    if kind not in (*KINDS, "loss"):
        raise UserError(where, f"'{kind}' is not a kind of stage", did_you_mean(kind, KINDS))
    known = registry.entry(kind, name, where=where).knobs
    for knob in knobs:
        if knob not in known:
            raise UserError(f"{where} {kind}.{name}.{knob}", f"no knob named '{knob}'", did_you_mean(knob, known))
    absent = [knob for knob, about in known.items() if "default" not in about and knob not in knobs]
    if absent:
        raise UserError(f"{where} {kind}.{name}", f"{', '.join(absent)} must be given", "There is no default.")
    return Step(kind, name, knobs)


def resolve(value: Any, step: int, where: str) -> Any:
    """A knob's value at `step`: `{linear: {start: ..., ...}}` and schedule calls are evaluated, all else stands."""
    if _is_call(value):
        return registry.get("schedule", value.name, where=where)(step, **value.knobs)
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, knobs),) = value.items()
        return registry.get("schedule", name, where=where)(step, **knobs)
    return value


def methods() -> list[str]:
    """Names of the methods that come with the package."""
    folder = resources.files("polypath") / "methods"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


@cache
def load_method(name: str) -> Method:
    """A method of the package by name, or from the path of a YAML file. Raises UserError when there is none."""
    if name.endswith((".yaml", ".yml")):
        path: Any = Path(name)
    else:
        path = resources.files("polypath") / "methods" / f"{name}.yaml"
    if not path.is_file():
        raise UserError("credit", f"there is no method named '{name}'", did_you_mean(name, methods()))
    return _method(Path(str(path)).stem, yaml.safe_load(path.read_text(encoding="utf-8")))


def _method(name: str, document: Mapping[str, Any]) -> Method:
    known = [key for key in Method.__dataclass_fields__ if key != "name"]
    for key in document:
        if key not in (*known, "name"):
            raise UserError(f"method {name}.{key}", "unknown key", did_you_mean(key, known))
    return Method(name, **{key: value for key, value in document.items() if key != "name"})


def _substitute(item: Any, values: Mapping[str, Any], where: str) -> Any:
    """Replace every "$knob" by the knob's value, in depth."""
    if isinstance(item, str) and item.startswith("$"):
        if item[1:] not in values:
            raise UserError(where, f"{item} is used but no such knob is declared", did_you_mean(item[1:], values))
        return values[item[1:]]
    if isinstance(item, Mapping):
        return {key: _substitute(value, values, where) for key, value in item.items()}
    if isinstance(item, list):
        return [_substitute(value, values, where) for value in item]
    return _number(item)


def _number(item: Any) -> Any:
    """YAML reads 1e-5 (without a point) as text; every other value stands."""
    if isinstance(item, str):
        try:
            number = float(item)
        except ValueError:
            return item
        return number if math.isfinite(number) else item
    return item


def _single(item: Any, where: str, rule: str) -> tuple[str, Any]:
    if not isinstance(item, Mapping) or len(item) != 1:
        raise UserError(where, f"cannot read {item!r}", rule[0].upper() + rule[1:] + ".")
    ((key, value),) = item.items()
    return str(key), value


def _is_call(value: Any) -> bool:
    """Any object with kind, name and knobs, such as the calls of a checked recipe."""
    return all(hasattr(value, name) for name in ("kind", "name", "knobs"))
