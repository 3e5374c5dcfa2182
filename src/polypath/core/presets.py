"""What method and plan files share: knobs with defaults, and `$knob` where the value of a knob goes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from polypath.core.errors import UserError, did_you_mean


def read_document(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML file. Raises UserError when it is not YAML or not a mapping."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(str(path), f"is not YAML ({error})") from None
    if not isinstance(document, dict):
        raise UserError(str(path), f"is not a {what}", "Write a mapping; polypath show prints one as an example.")
    return document


def defaults(knobs: Mapping[str, Any]) -> dict[str, Any]:
    """The default of every knob, written `name: default` or `name: {default: ..., type: ...}`.

    >>> defaults({"alpha": 0.5, "floor": {"default": None, "type": "float | None"}})
    {'alpha': 0.5, 'floor': None}
    """
    return {
        name: knob.get("default") if isinstance(knob, Mapping) and knob.keys() & {"default", "type"} else knob
        for name, knob in knobs.items()
    }


def with_knobs(declared: Mapping[str, Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The given values over the defaults. Raises UserError for a knob that is not declared."""
    for name in given:
        if name not in declared:
            raise UserError(f"{where}.{name}", f"no knob named '{name}'", did_you_mean(name, declared))
    return {**defaults(declared), **given}


def substitute(item: Any, values: Mapping[str, Any], where: str) -> Any:
    """Replace every "$knob" by the knob's value, in depth. Raises UserError for a knob that is not declared."""
    if isinstance(item, str) and item.startswith("$"):
        if item[1:] not in values:
            raise UserError(where, f"{item} is used but no such knob is declared", did_you_mean(item[1:], values))
        return values[item[1:]]
    if isinstance(item, Mapping):
        return {key: substitute(value, values, where) for key, value in item.items()}
    if isinstance(item, list):
        return [substitute(value, values, where) for value in item]
    return _number(item)


def _number(item: Any) -> Any:
    """YAML reads 1e-5 (without a point) as text."""
    if not isinstance(item, str):
        return item
    try:
        number = float(item)
    except ValueError:
        return item
    return number if math.isfinite(number) else item
