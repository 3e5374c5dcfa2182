"""A paper's method as data: a YAML file of stages, knobs, choices, traits and worked examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, did_you_mean
from polypath.core.presets import defaults, read_document, substitute, with_knobs


@dataclass(frozen=True)
class Method:
    """One method file. `credit` and `loss` hold `$knob` where the value of a knob goes.

    A knob is written `name: default` or `name: {default: ..., type: ...}`.
    """

    name: str
    credit: Sequence[Any]
    loss: Any = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    paper: Mapping[str, Any] = field(default_factory=dict)
    choices: Sequence[str] = ()
    traits: Sequence[str] = ()
    examples: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def read(cls, name: str, document: Mapping[str, Any]) -> Method:
        """From the content of a file. Raises UserError for an unknown or a missing key."""
        known = {each.name for each in fields(cls)}
        for key in document:
            if key not in known:
                raise UserError(f"method {name}.{key}", "unknown key", did_you_mean(str(key), known))
        if "credit" not in document:
            raise UserError(f"method {name}", "has no credit", "List its stages under the key credit.")
        return cls(**{"name": name, **document})

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of every knob."""
        return defaults(self.knobs)

    def expand(self, knobs: Mapping[str, Any]) -> tuple[list[Any], Any]:
        """Stages and loss with the given knobs over the defaults. Raises UserError for an unknown knob."""
        where = f"method {self.name}"
        values = with_knobs(self.knobs, knobs, where)
        return substitute(list(self.credit), values, where), substitute(self.loss, values, where)


def methods() -> list[str]:
    """Names of the methods that come with the package."""
    folder = resources.files("polypath") / "methods"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


@cache
def load_method(name: str) -> Method:
    """A method of the package by name, or a YAML file by its path. Raises UserError when there is none."""
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
    else:
        path = Path(str(resources.files("polypath") / "methods" / f"{name}.yaml"))
    if not path.is_file():
        raise UserError("credit", f"there is no method named '{name}'", did_you_mean(name, methods()))
    return Method.read(path.stem, read_document(path, "method"))
