"""Question types: what is asked, and which labels an answer may take. A question checks itself when it is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polypath.core.errors import UserError

MAX_OPTIONS, MAX_LEVELS = 255, 10


@dataclass(frozen=True)
class Option:
    """One possible answer. `value` is what a client gets back (a text or a bool); `label` is what the model writes."""

    label: str
    description: str = ""
    value: str | bool = ""


@dataclass(frozen=True)
class YesNo:
    """Is it so? Options are yes and no, with a criterion for each if given."""

    instructions: str = ""
    yes: str = ""
    no: str = ""

    @property
    def options(self) -> tuple[Option, ...]:
        """Yes first."""
        return Option("yes", self.yes, True), Option("no", self.no, False)


@dataclass(frozen=True)
class Choice:
    """One of 2 to 255 options. Raises UserError for fewer, more, empty or repeated labels."""

    options: tuple[Option, ...]
    instructions: str = ""

    def __post_init__(self) -> None:
        check_options(self.options, "choice", 2, MAX_OPTIONS)


@dataclass(frozen=True)
class Score:
    """One of 2 to 10 ordered levels, worst first; its value is the expected index."""

    options: tuple[Option, ...]
    instructions: str = ""

    def __post_init__(self) -> None:
        check_options(self.options, "score", 2, MAX_LEVELS)


@dataclass(frozen=True)
class MultiLabel:
    """Any subset of 1 to 255 options; each gets a probability of its own."""

    options: tuple[Option, ...]
    instructions: str = ""

    def __post_init__(self) -> None:
        check_options(self.options, "multilabel", 1, MAX_OPTIONS)


@dataclass(frozen=True)
class Rank:
    """An order of 2 to 255 options: by Plackett-Luce, probabilities are those of coming first."""

    options: tuple[Option, ...]
    instructions: str = ""

    def __post_init__(self) -> None:
        check_options(self.options, "rank", 2, MAX_OPTIONS)


@dataclass(frozen=True)
class Pair:
    """Which of two texts is better?"""

    first: str
    second: str
    instructions: str = ""

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise UserError("pair", "both texts are the same", "Compare two different texts.")

    @property
    def options(self) -> tuple[Option, ...]:
        """The first, then the second."""
        return Option("first", self.first, "first"), Option("second", self.second, "second")


Question = YesNo | Choice | Score | MultiLabel | Rank | Pair


def options(labels: Sequence[Any] | Mapping[Any, Any], where: str = "options") -> tuple[Option, ...]:
    """Options from labels, or from a mapping of labels to descriptions. Raises UserError for other types.

    >>> [option.label for option in options(["bug", True])]
    ['bug', 'true']
    """
    if isinstance(labels, str) or not isinstance(labels, Sequence | Mapping):
        raise UserError(where, f"is a {type(labels).__name__}", "Give a list of labels, or labels with descriptions.")
    pairs = labels.items() if isinstance(labels, Mapping) else ((label, None) for label in labels)
    return tuple(make_option(label, description, where) for label, description in pairs)


def make_option(value: Any, description: Any = None, where: str = "options") -> Option:
    """An option whose value is a text or a bool. Raises UserError for other types."""
    if not isinstance(value, str | bool):
        raise UserError(where, f"label {value!r} is a {type(value).__name__}", "A label is a text, or true or false.")
    label = str(value).lower() if isinstance(value, bool) else value.strip()
    return Option(label, plain(description, where), value)


def check_options(found: Sequence[Option], where: str, least: int, most: int) -> None:
    """Raises UserError for too few, too many, empty or repeated labels. The bool true differs from the text "true"."""
    if not least <= len(found) <= most:
        raise UserError(where, f"{len(found)} options", f"Give {least} to {most}.")
    seen: dict[tuple[type, str], int] = {}
    for i, option in enumerate(found):
        if not option.label:
            raise UserError(f"{where} option {i}", "the label is empty", "Give it a text.")
        first = seen.setdefault((type(option.value), option.label), i)
        if first != i:
            raise UserError(f"{where} option {i}", f"'{option.label}' is option {first} too", "Give every label once.")


def plain(value: Any, where: str) -> str:
    """Text as it is, objects and lists as JSON, null as "". Raises UserError for numbers and other types."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    raise UserError(where, f"is a {type(value).__name__}", "Give a text, an object, a list or null.")
