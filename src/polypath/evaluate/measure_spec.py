"""Measures as a user writes them: a name, knobs, and the signature of what was measured with them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polypath import __version__
from polypath.core import registry
from polypath.core.binding import Binder
from polypath.core.document import parse_node
from polypath.core.errors import UserError, UserErrors, did_you_mean
from polypath.core.recipe_types import parse_type
from polypath.diversity.features.signature import Signature


@dataclass(frozen=True)
class Spec:
    """A measure with its knobs, written `name` or `name:knob=value,knob=value`."""

    text: str
    name: str
    knobs: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Raises UserError for an unknown measure, an unknown knob, or a value that the knob cannot have.

        A measure with one leading knob may be written with its value, as in distinct_2, hill_0 or vendi_inf.

        >>> Spec.parse("distinct_n:n=3").knobs, Spec.parse("distinct_2").knobs, Spec.parse("vendi_0.5").knobs
        ({'n': 3}, {'n': 2}, {'q': 0.5})
        """
        name, _, tail = _spelt_out(text).partition(":")
        entry = registry.entry("measure", name, where="-m")
        binder, knobs = Binder(), {}
        written = re.sub(r"(\w+)=", r"\1: ", re.sub(r"=(inf|nan)\b", r"=.\1", tail))  # as YAML writes them
        for knob, node in parse_node(f"{{{written}}}", f"-m {text}").value.items():
            if knob not in entry.knobs:
                raise UserError(f"-m {text}", f"'{name}' has no knob '{knob}'", did_you_mean(knob, entry.knobs))
            knobs[knob] = binder.bind(parse_type(entry.knobs[knob]["type"]), node, knob)
        if binder.errors:
            raise UserErrors(UserError(f"-m {text}", error.what, error.fix) for error in binder.errors)
        return cls(text, name, knobs)

    @property
    def data(self) -> tuple[str, ...]:
        """The names of what it measures."""
        return registry.entry("measure", self.name).data

    def __call__(self, data: Mapping[str, Any] | None) -> float:
        """The measure of one group; `data` maps the vocabulary to the group's values, None where undefined."""
        if data is None:
            return math.nan
        function = registry.get("measure", self.name)
        return float(function(**{name: data[name] for name in self.data}, **self.knobs))


def _spelt_out(text: str) -> str:
    """`distinct_2` as `distinct_n:n=2`, `vendi_0.5` as `vendi:q=0.5`; anything else as it is."""
    stem, _, value = text.partition(":")[0].rpartition("_")
    if not stem or not re.fullmatch(r"\d+(\.\d+)?|inf", value) or ":" in text:
        return text
    known = {entry.name: entry for entry in registry.entries("measure")}
    if text in known:
        return text
    for name in (f"{stem}_n", f"{stem}_at_k", stem):
        if name in known and known[name].knobs:
            return f"{name}:{next(iter(known[name].knobs))}={value}"
    return text


def signature(text: str, *, embedder: str = "", proxy: str = "") -> str:
    """How a value was made, to be quoted beside it: measure, all knobs, features, version.

    >>> signature("distinct_2").split("|")[:2], signature("chamfer", embedder="minilm").split("|")[:2]
    (['distinct_n', 'n=2'], ['chamfer', 'embedding:minilm v1 #08b2266c'])
    """
    spec = Spec.parse(text)
    schema = registry.entry("measure", spec.name).knobs
    knobs = [f"{knob}={spec.knobs.get(knob, facts.get('default'))}" for knob, facts in schema.items()]
    embedding, sketch = Signature(f"embedding:{embedder or 'column'}"), Signature(f"gradients:{proxy or 'column'}")
    made = {"texts": Signature("tokens"), "embeddings": embedding, "similarity": embedding, "steps": embedding}
    features = [str({**made, "gradients": sketch}[name]) for name in spec.data if name in made or name == "gradients"]
    return "|".join([spec.name, *knobs, *features, f"polypath {__version__}"])


def parse_all(measures: Sequence[str]) -> list[Spec]:
    """All measures; raises all errors at once."""
    specs, errors = [], []
    for text in measures:
        try:
            specs.append(Spec.parse(text))
        except UserError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else UserErrors(errors)
    return specs
