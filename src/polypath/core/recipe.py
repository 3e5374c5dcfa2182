"""The strict recipe resolver: a YAML document becomes a dataclass, or one list of every mistake in it.

Registered functions are checked against the registry's entries, so nothing heavy is imported. Precedence: a schema's
default < what the recipe extends < the recipe < `-o key.path=value`, the last one last.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_type_hints

import yaml

from polypath.core.binding import Binder
from polypath.core.document import Document, load_document, scalar
from polypath.core.errors import UserErrors
from polypath.core.recipe_types import Call, Kind, Kinds, Range, Scheduled, plain

__all__ = [
    "Call", "Document", "Kind", "Kinds", "Range", "Scheduled", "digest", "dump", "load_document", "resolve", "to_plain",
]  # fmt: skip

T = TypeVar("T")


def resolve(document: Document, schema: type[T]) -> T:
    """Bind a document to a dataclass schema. Raises UserErrors with every mistake, each with its file and line."""
    binder = Binder()
    bound = binder.bind(schema, document.root, "")
    if binder.errors:
        raise UserErrors(binder.errors)
    return bound


def to_plain(instance: Any) -> dict[str, Any]:
    """The fully resolved recipe, defaults included, as plain data that resolves to an equal object again."""
    hints = get_type_hints(type(instance), include_extras=True)
    return {
        field.name: _plain(getattr(instance, field.name), _names_stages(hints[field.name]))
        for field in dataclasses.fields(instance)
        if field.init
    }


def dump(instance: Any) -> str:
    """The fully resolved recipe as YAML."""
    return yaml.dump(to_plain(instance), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def digest(instance: Any) -> str:
    """SHA-256 of the canonical form: equal recipes have equal digests, however they were written."""
    text = json.dumps(to_plain(instance), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _names_stages(tp: Any) -> bool:
    """Whether a type holds lists of stages, whose entries name their kind."""
    return any(isinstance(arg, Kinds) or _names_stages(arg) for arg in get_args(tp))


def _plain(value: Any, staged: bool) -> Any:
    if isinstance(value, Call):
        return value.to_plain()
    if dataclasses.is_dataclass(value):
        return to_plain(value)
    if isinstance(value, Mapping):
        return {key: _plain(item, staged) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [
            {item.kind: item.to_plain()} if staged and isinstance(item, Call) else _plain(item, staged)
            for item in value
        ]
    return plain(value)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that either YAML 1.1 or our reader would take for something else."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        if kind is yaml.ScalarNode and implicit[0] and tag.endswith(":str") and not isinstance(scalar(value), str):
            return "not a text"
        return tag

    def represent_scalar(self, tag: str, value: str, style: str | None = None) -> Any:
        # PyYAML folds these rare line breaks into blanks unless they are escaped.
        if any(mark in value for mark in "\x85\u2028\u2029"):
            style = '"'
        return super().represent_scalar(tag, value, style)

    def ignore_aliases(self, data: Any) -> bool:
        return True
